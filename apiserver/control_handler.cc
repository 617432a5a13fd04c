#include "apiserver/control_handler.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/list_options.h"

namespace larder::apiserver {
namespace {

constexpr std::string_view kPrefix = "/simulator/";
constexpr size_t kHistoryBatch = 2000;

std::string HistoryLine(const HistoryEntry& entry) {
  const Json json = {{"version", entry.version},
                     {"type", ToString(entry.type)},
                     {"resource", entry.resource},
                     {"ns", entry.ns},
                     {"name", entry.name},
                     {"uid", entry.uid},
                     {"hash", fmt::format("{:016x}", entry.hash)}};
  return json.dump() + "\n";
}

}  // namespace

bool ControlHandler::Handle(const httplib::Request& request, httplib::Response& response) {
  if (!request.path.starts_with(kPrefix)) return false;
  const std::string path = request.path.substr(kPrefix.size());
  if (path == "history" && request.method == "GET") {
    StreamHistory(request, response);
    return true;
  }
  Result<Json> answer = Answer(request, path);
  if (!answer) {
    const int code = answer.error().code == ErrorCode::kNotFound ? 404 : 400;
    AnswerJson(code, Json{{"error", answer.error().message}}.dump() + "\n", response);
  } else {
    AnswerJson(200, answer->dump() + "\n", response);
  }
  return true;
}

Result<Json> ControlHandler::Answer(const httplib::Request& request, const std::string& path) {
  const bool post = request.method == "POST";
  const bool remove = request.method == "DELETE";
  Json body = Json::object();
  if (post && !request.body.empty()) {
    body = Json::parse(request.body, nullptr, false);
    if (body.is_discarded()) return MakeError(ErrorCode::kInvalidArgument, "the body is not JSON");
  }
  if (path == "stats" && !post) return parts_.stats.ToJson();
  if (path == "stats/reset" && post) {
    parts_.stats.Reset();
    return Json::object();
  }
  if (path == "faults") {
    if (post) return AddFault(body);
    if (remove) {
      parts_.faults.Clear();
      return Json::object();
    }
    Json out = Json::array();
    for (const Fault& fault : parts_.faults.List()) out.push_back(fault.ToJson());
    return out;
  }
  if (path.starts_with("faults/") && remove) {
    if (!parts_.faults.Remove(std::atoi(path.c_str() + 7))) {
      return MakeError(ErrorCode::kNotFound, "no such fault");
    }
    return Json::object();
  }
  if (path == "churn") return post ? SetChurn(body) : ChurnJson();
  if (path == "load" && post) {
    const Json pods = body.value("pods", Json(0));
    if (!pods.is_number_unsigned()) {
      return MakeError(ErrorCode::kInvalidArgument, "\"pods\" must be a number");
    }
    LARDER_RETURN_IF_ERROR(churn_.Load(pods.get<uint64_t>()));
    return StateJson();
  }
  if (path == "save" && post) {
    parts_.state.Save();
    return StateJson();
  }
  if (path == "restore" && post) {
    if (!parts_.state.Restore()) return MakeError(ErrorCode::kNotFound, "nothing was saved");
    drop_connections_();
    return StateJson();
  }
  if (path == "users" && post) return SetUsers(body);
  if (path == "state" && !post) return StateJson();
  return MakeError(ErrorCode::kNotFound, "no endpoint {} /simulator/{}", request.method, path);
}

void ControlHandler::StreamHistory(const httplib::Request& request, httplib::Response& response) {
  uint64_t from = std::strtoull(Parameter(request.params, "from").c_str(), nullptr, 10);
  const std::string limit_text = Parameter(request.params, "limit");
  size_t left = limit_text.empty() ? SIZE_MAX : std::strtoull(limit_text.c_str(), nullptr, 10);
  response.set_chunked_content_provider(
      "application/x-ndjson", [this, from, left](size_t, httplib::DataSink& sink) mutable {
        std::string lines;
        const size_t wanted = std::min(left, kHistoryBatch);
        const std::vector<HistoryEntry> entries = parts_.state.ReadHistory(from, wanted);
        for (const HistoryEntry& entry : entries) {
          lines += HistoryLine(entry);
          from = entry.version;
        }
        left -= entries.size();
        if (!lines.empty() && !sink.write(lines.data(), lines.size())) return false;
        if (entries.size() < wanted || left == 0) sink.done();
        return true;
      });
}

Result<Json> ControlHandler::AddFault(const Json& body) {
  const std::string type = body.is_object() ? body.value("type", "") : "";
  if (type == "expire_history") {
    const std::string resource = body.value("resource", "");
    const TablePtr table = resource.empty() ? nullptr : parts_.state.FindTable(resource);
    if (!resource.empty() && !table) {
      return MakeError(ErrorCode::kNotFound, "no resource \"{}\"", resource);
    }
    parts_.state.ExpireHistory(table.get());
    return Json::object();
  }
  if (type == "drop_connections") {
    drop_connections_();
    return Json::object();
  }
  LARDER_ASSIGN_OR_RETURN(Fault fault, Fault::FromJson(body));
  return Json{{"id", parts_.faults.Add(std::move(fault))}};
}

Result<Json> ControlHandler::SetChurn(const Json& body) {
  LARDER_ASSIGN_OR_RETURN(const ChurnOptions options, ChurnOptions::FromJson(body));
  if (options.rate <= 0) {
    churn_.Stop();
  } else {
    churn_.Start(options);
  }
  return ChurnJson();
}

Result<Json> ControlHandler::SetUsers(const Json& body) {
  if (!body.is_array()) return MakeError(ErrorCode::kInvalidArgument, "users must be a list");
  std::vector<User> users;
  for (const Json& json : body) {
    LARDER_ASSIGN_OR_RETURN(User user, User::FromJson(json));
    users.push_back(std::move(user));
  }
  parts_.authorizer.SetUsers(std::move(users));
  return Json::object();
}

Json ControlHandler::StateJson() const {
  Json objects = Json::object();
  for (const TablePtr& table : parts_.state.Tables()) {
    objects[table->name()] = parts_.state.Count(*table);
  }
  return {{"version", parts_.state.Version()},
          {"history", parts_.state.HistorySize()},
          {"objects", std::move(objects)}};
}

Json ControlHandler::ChurnJson() const {
  const ChurnCounts counts = churn_.Counts();
  return {{"running", counts.running},
          {"created", counts.created},
          {"updated", counts.updated},
          {"deleted", counts.deleted}};
}

}  // namespace larder::apiserver
