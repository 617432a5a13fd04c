// A transport without a network: a function answers.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/transport.h"

namespace larder::testing {

class FakeTransport final : public HttpTransport {
 public:
  using Handler = std::function<Result<Response>(const Request&)>;
  explicit FakeTransport(Handler handler) : handler_(std::move(handler)) {}

  Result<Response> Do(const Request& request, const std::stop_token& stop) override {
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
    if (request.may_send) LARDER_RETURN_IF_ERROR(request.may_send());
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    return handler_(request);
  }
  Result<std::unique_ptr<BodyStream>> Open(const Request&, const std::stop_token&) override {
    return MakeError(ErrorCode::kUnsupported, "no streams here");
  }

  std::vector<Request> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

  static Response Json200(std::string body) {
    return Response{200, {{"content-type", "application/json"}}, std::move(body), 0};
  }

 private:
  const Handler handler_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
};

}  // namespace larder::testing
