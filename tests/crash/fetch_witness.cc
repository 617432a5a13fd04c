#include "tests/crash/fetch_witness.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <utility>

#include "schema/object.h"

namespace larder::crash {
namespace {

// "ns/name" of a request for one pod.
std::optional<std::string> PodOf(const Request& request) {
  constexpr std::string_view kNamespaces = "/api/v1/namespaces/";
  constexpr std::string_view kPods = "/pods/";
  const std::string_view path = request.path;
  const size_t pods = path.find(kPods);
  if (!path.starts_with(kNamespaces) || pods == std::string_view::npos) return std::nullopt;
  return std::string(path.substr(kNamespaces.size(), pods - kNamespaces.size())) + "/" +
         std::string(path.substr(pods + kPods.size()));
}

// Does it ask for all pods, as a list or as a watch that begins with one? A list of one name is a
// question about that object.
bool IsList(const Request& request) {
  bool watch = false;
  bool of_one = false;
  for (const auto& [name, value] : request.query) {
    if (name == "sendInitialEvents") return true;
    watch |= name == "watch";
    of_one |= name == "fieldSelector" && value.starts_with("metadata.name=");
  }
  return request.path == "/api/v1/pods" && !watch && !of_one;
}

class Witness final : public HttpTransport {
 public:
  Witness(std::unique_ptr<HttpTransport> transport, Journal* journal, std::string cluster,
          uint64_t kill_at)
      : transport_(std::move(transport)),
        journal_(journal),
        cluster_(std::move(cluster)),
        kill_at_(kill_at) {}

  Result<Response> Do(const Request& request, const std::stop_token& stop) override {
    Result<Response> response = transport_->Do(request, stop);
    const std::optional<std::string> pod = PodOf(request);
    if (!pod) return response;
    if (++fetches_ == kill_at_) ::kill(::getpid(), SIGKILL);
    if (response) {
      const auto object = Object::Parse(response->body);
      if (object) {
        journal_->Fetched(cluster_, *pod, (*object)->resource_version(), HashOf((*object)->json()));
      }
    } else if (response.error().code == ErrorCode::kNotFound) {
      journal_->Fetched(cluster_, *pod, "0", 0);
    }
    return response;
  }
  Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                           const std::stop_token& stop) override {
    if (IsList(request)) journal_->Listed(cluster_);
    return transport_->Open(request, stop);
  }

 private:
  const std::unique_ptr<HttpTransport> transport_;
  Journal* const journal_;
  const std::string cluster_;
  const uint64_t kill_at_;
  std::atomic<uint64_t> fetches_{0};
};

}  // namespace

std::unique_ptr<HttpTransport> WitnessFetches(std::unique_ptr<HttpTransport> transport,
                                              Journal* journal, std::string cluster,
                                              uint64_t kill_at) {
  return std::make_unique<Witness>(std::move(transport), journal, std::move(cluster), kill_at);
}

}  // namespace larder::crash
