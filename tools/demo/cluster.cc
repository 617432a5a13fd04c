#include "tools/demo/cluster.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "client/config.h"

namespace larder::tools {

Result<std::unique_ptr<Cluster>> Cluster::Start(uint64_t objects, uint64_t seed,
                                                const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(auto process,
                          Child::Start({"simulate", "--objects", std::to_string(objects), "--seed",
                                        std::to_string(seed), "--port", "0"}));
  std::unique_ptr<Cluster> cluster(new Cluster(std::move(process), stop));
  auto url = cluster->process_->ReadLine(std::chrono::minutes(10), stop);
  if (!url)
    return MakeError(url.error().code, "the simulated cluster did not start: {}",
                     url.error().message);
  cluster->url_ = *std::move(url);
  LARDER_ASSIGN_OR_RETURN(cluster->transport_, MakeTransport(ForUrl(cluster->url_)));
  return cluster;
}

Result<Json> Cluster::Call(const char* method, std::string path, const Json& body) {
  Request request;
  request.method = method;
  request.path = std::move(path);
  if (!body.is_null()) {
    request.body = body.dump();
    request.content_type = "application/json";
  }
  LARDER_ASSIGN_OR_RETURN(const Response response, transport_->Do(request, stop_));
  return Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
}

Result<void> Cluster::Churn(double rate, uint64_t limit, uint64_t seed) {
  LARDER_RETURN_IF_ERROR(
      Call("POST", "/simulator/churn", {{"rate", rate}, {"limit", limit}, {"seed", seed}}));
  return {};
}

Result<void> Cluster::WaitForChurn() {
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const Json churn, Call("GET", "/simulator/churn", nullptr));
    if (!churn.value("running", false)) return {};
    if (!RealClock()->SleepFor(std::chrono::milliseconds(10), stop_)) {
      return MakeError(ErrorCode::kCancelled, "interrupted");
    }
  }
}

Result<void> Cluster::ExpireHistory() {
  LARDER_RETURN_IF_ERROR(Call("POST", "/simulator/faults", {{"type", "expire_history"}}));
  return {};
}

Result<std::map<std::string, Cluster::Event>> Cluster::LastEvents(uint64_t from) {
  Request request;
  request.path = "/simulator/history";
  request.query = {{"from", std::to_string(from)}};
  request.max_response_bytes = size_t{2} << 30;
  request.timeout = std::chrono::minutes(5);
  LARDER_ASSIGN_OR_RETURN(const Response response, transport_->Do(request, stop_));
  std::map<std::string, Event> last;
  size_t start = 0;
  while (start < response.body.size()) {
    const size_t end = std::min(response.body.find('\n', start), response.body.size());
    const Json entry =
        Json::parse(response.body.begin() + static_cast<std::ptrdiff_t>(start),
                    response.body.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    start = end + 1;
    if (!entry.is_object() || entry.value("resource", "") != "pods") continue;
    const ObjectKey key{entry.value("ns", ""), entry.value("name", "")};
    last[key.ToString()] = {entry.value("version", uint64_t{0}),
                            entry.value("type", "") == "DELETED"};
  }
  return last;
}

}  // namespace larder::tools
