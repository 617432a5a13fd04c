#include "tuning/model.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "schema/object.h"
#include "schema/resource.h"

namespace larder::tuning {
namespace {

constexpr uint64_t kMaxObjects = 10'000'000;
constexpr uint64_t kMaxEvents = 100'000'000;

tl::unexpected<Error> Bad(const std::string& field, const std::string& why) {
  return MakeError(ErrorCode::kInvalidArgument, "workload: {} {}", field, why);
}

bool IsRate(double value) { return std::isfinite(value) && value >= 0; }

Result<void> Check(const ResourceModel& model) {
  const std::string field = "resource " + model.resource;
  if (!LookupResource(model.resource))
    return Bad(field, "is not known; name it as `larder get` does");
  if (model.objects > kMaxObjects) return Bad(field, "has too many objects");
  if (model.json_bytes < 300 || model.json_bytes > (uint64_t{1} << 20)) {
    return Bad(field, fmt::format("has json_bytes {}; use 300 to 1048576", model.json_bytes));
  }
  if (model.indexes > 8) return Bad(field, "has more than 8 indexes");
  for (const double rate : {model.updates, model.creates, model.deletes}) {
    if (!IsRate(rate)) return Bad(field, "has a rate that is no number from 0 on");
  }
  if (model.updates_after_create > 100) return Bad(field, "has updates_after_create above 100");
  if (!(model.skew >= 0 && model.skew <= 0.99)) return Bad(field, "has a skew outside 0 to 0.99");
  return {};
}

// Every field must be there and known, so that a misspelt one is not silently a default.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  template <typename T>
  void Read(const char* name, T& out) {
    seen_.insert(name);
    if (!failure_) return;
    const auto found = json_.find(name);
    if (found == json_.end()) {
      failure_ = Bad(where_ + name, "is missing");
      return;
    }
    bool fits = false;
    if constexpr (std::is_same_v<T, bool>) fits = found->is_boolean();
    if constexpr (std::is_same_v<T, std::string>) fits = found->is_string();
    if constexpr (std::is_same_v<T, double>) fits = found->is_number();
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      fits = found->is_number_unsigned();
    }
    if (!fits) {
      failure_ = Bad(where_ + name, "has the wrong type: " + found->dump());
    } else {
      out = found->template get<T>();
    }
  }
  Result<void> End(const std::set<std::string>& also = {}) {
    LARDER_RETURN_IF_ERROR(failure_);
    for (const auto& [name, value] : json_.items()) {
      if (!seen_.contains(name) && !also.contains(name)) return Bad(where_ + name, "is not known");
    }
    return {};
  }

 private:
  const Json& json_;
  const std::string where_;
  std::set<std::string> seen_;
  Result<void> failure_;
};

}  // namespace

Result<void> Check(const WorkloadModel& model) {
  if (model.events == 0 || model.events > kMaxEvents)
    return Bad("events", "must be 1 to 100000000");
  if (!(model.events_per_commit >= 1 && model.events_per_commit <= 1000)) {
    return Bad("events_per_commit", "must be 1 to 1000");
  }
  for (const double rate :
       {model.gets_per_event, model.queue_items_per_event, model.scans_per_thousand}) {
    if (!IsRate(rate) || rate > 1000) return Bad("gets, queue items or scans", "are out of bounds");
  }
  if (!(model.synced_commits >= 0 && model.synced_commits <= 1)) {
    return Bad("synced_commits", "must be 0 to 1");
  }
  if (model.resources.empty()) return Bad("resources", "are empty");
  std::set<std::string> names;
  double rate = 0;
  for (const ResourceModel& resource : model.resources) {
    LARDER_RETURN_IF_ERROR(Check(resource));
    if (!names.insert(resource.resource).second) {
      return Bad("resource " + resource.resource, "is there twice");
    }
    rate += resource.updates + resource.creates + resource.deletes;
  }
  if (rate <= 0) return Bad("resources", "never change: there is nothing to replay");
  return {};
}

std::string ToJson(const WorkloadModel& model) {
  Json resources = Json::array();
  for (const ResourceModel& entry : model.resources) {
    resources.push_back({{"resource", entry.resource},
                         {"objects", entry.objects},
                         {"json_bytes", entry.json_bytes},
                         {"indexes", entry.indexes},
                         {"updates", entry.updates},
                         {"creates", entry.creates},
                         {"deletes", entry.deletes},
                         {"updates_after_create", entry.updates_after_create},
                         {"skew", entry.skew},
                         {"deletes_oldest", entry.deletes_oldest}});
  }
  return Json{{"larder_workload", 1},
              {"name", model.name},
              {"description", model.description},
              {"seed", model.seed},
              {"events", model.events},
              {"events_per_commit", model.events_per_commit},
              {"gets_per_event", model.gets_per_event},
              {"queue_items_per_event", model.queue_items_per_event},
              {"scans_per_thousand", model.scans_per_thousand},
              {"scan_rows", model.scan_rows},
              {"synced_commits", model.synced_commits},
              {"burst", model.burst},
              {"resources", std::move(resources)}}
             .dump(2) +
         "\n";
}

Result<WorkloadModel> ModelFromJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("larder_workload")) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "this is no workload: neither a trace nor JSON with \"larder_workload\"");
  }
  if (json["larder_workload"] != 1) {
    return Bad("larder_workload",
               json["larder_workload"].dump() + " is not known; this larder reads 1");
  }
  WorkloadModel model;
  Fields fields(json, "");
  fields.Read("name", model.name);
  fields.Read("description", model.description);
  fields.Read("seed", model.seed);
  fields.Read("events", model.events);
  fields.Read("events_per_commit", model.events_per_commit);
  fields.Read("gets_per_event", model.gets_per_event);
  fields.Read("queue_items_per_event", model.queue_items_per_event);
  fields.Read("scans_per_thousand", model.scans_per_thousand);
  fields.Read("scan_rows", model.scan_rows);
  fields.Read("synced_commits", model.synced_commits);
  fields.Read("burst", model.burst);
  LARDER_RETURN_IF_ERROR(fields.End({"larder_workload", "resources"}));
  const auto resources = json.find("resources");
  if (resources == json.end() || !resources->is_array()) return Bad("resources", "are missing");
  for (const Json& entry : *resources) {
    ResourceModel resource;
    if (!entry.is_object()) return Bad("resources", "hold something that is no object");
    Fields of(entry, "resources: ");
    of.Read("resource", resource.resource);
    of.Read("objects", resource.objects);
    of.Read("json_bytes", resource.json_bytes);
    of.Read("indexes", resource.indexes);
    of.Read("updates", resource.updates);
    of.Read("creates", resource.creates);
    of.Read("deletes", resource.deletes);
    of.Read("updates_after_create", resource.updates_after_create);
    of.Read("skew", resource.skew);
    of.Read("deletes_oldest", resource.deletes_oldest);
    LARDER_RETURN_IF_ERROR(of.End());
    model.resources.push_back(std::move(resource));
  }
  LARDER_RETURN_IF_ERROR(Check(model));
  return model;
}

Result<WorkloadModel> LoadModel(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return MakeError(ErrorCode::kNotFound, "cannot read the workload {}", path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto model = ModelFromJson(text);
  if (!model) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: {}", path, model.error().message);
  }
  return model;
}

WorkloadModel Scaled(WorkloadModel model, double scale) {
  const auto times = [scale](uint64_t number) {
    return static_cast<uint64_t>(std::llround(static_cast<double>(number) * scale));
  };
  model.events = std::max<uint64_t>(1, times(model.events));
  for (ResourceModel& resource : model.resources) resource.objects = times(resource.objects);
  return model;
}

}  // namespace larder::tuning
