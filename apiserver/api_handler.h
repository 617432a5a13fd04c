// The API itself: from a request's path, query and body to its answer.
//
// Stateless between requests; called on many threads at once.
#pragma once

#include <httplib.h>

#include <chrono>
#include <stop_token>
#include <string>
#include <string_view>

#include "apiserver/authorizer.h"
#include "apiserver/connection.h"
#include "apiserver/faults.h"
#include "apiserver/hangup_monitor.h"
#include "apiserver/media_type.h"
#include "apiserver/object_writer.h"
#include "apiserver/resource_info.h"
#include "apiserver/state.h"
#include "apiserver/stats.h"

namespace larder::apiserver {

struct ServerParts {
  State& state;
  ResourceRegistry& registry;
  ObjectWriter& writer;
  Faults& faults;
  Stats& stats;
  Authorizer& authorizer;
};

struct ServerSettings {
  Clock* clock = nullptr;
  std::chrono::milliseconds bookmark_interval{60'000};
  std::chrono::milliseconds version_patience{250};
  std::chrono::seconds watch_timeout{1800};
};

class ApiHandler {
 public:
  ApiHandler(ServerParts parts, ServerSettings settings, std::stop_token stop)
      : parts_(parts), settings_(settings), stop_(std::move(stop)) {}

  // Where watches tell who waits for a peer's hang-up. Before the first request.
  void SetMonitor(HangupMonitor* monitor) { monitor_ = monitor; }

  void Handle(const httplib::Request& request, httplib::Response& response, Connection& connection);

 private:
  // What a path means.
  struct Target {
    ResourceInfoPtr info;
    TablePtr table;
    std::string ns;
    std::string name;
    std::string subresource;
    std::string verb;
  };
  struct Call {
    const httplib::Request& request;
    httplib::Response& response;
    Connection& connection;
    Target target;
    FaultPlan plan;
    Stats::Counters& stats;
  };

  void HandlePath(const httplib::Request& request, httplib::Response& response,
                  Connection& connection, const User& user);
  bool InBuiltInGroup(const std::string& path) const;
  ApiResult<Target> Resolve(const httplib::Request& request) const;
  bool BeforeCall(Call& call);
  ApiResult<void> Dispatch(Call& call);
  ApiResult<void> Get(Call& call);
  ApiResult<void> List(Call& call);
  ApiResult<void> Watch(Call& call);
  ApiResult<void> Create(Call& call);
  ApiResult<void> Update(Call& call);
  ApiResult<void> Patch(Call& call);
  ApiResult<void> Delete(Call& call);
  ApiResult<void> DeleteCollection(Call& call);
  ApiResult<void> AnswerObject(Call& call, const StoredPtr& object, int code);
  void AnswerBody(Call& call, const Fault& fault);

  const ServerParts parts_;
  const ServerSettings settings_;
  const std::stop_token stop_;
  HangupMonitor* monitor_ = nullptr;
};

// Writes a Status as the whole answer.
void AnswerStatus(const ApiStatus& status, httplib::Response& response);
void AnswerJson(int code, const std::string& body, httplib::Response& response);

}  // namespace larder::apiserver
