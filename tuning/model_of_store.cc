// A model from what a store holds: sizes by resource, and rates from the objects' own timestamps.
#include <algorithm>
#include <cmath>

#include "schema/object.h"
#include "storage/maintenance.h"
#include "tuning/model.h"

namespace larder::tuning {
namespace {

// So many objects of a resource say enough about all.
constexpr size_t kSample = 2000;
// An object written in the very second of the newest one is this old.
constexpr double kLeastAge = 0.5;
constexpr double kHour = 3600;

// "2026-03-01T12:00:00Z" in seconds since 1970; 0 where it is something else.
int64_t ParseTime(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (std::sscanf(std::string(text).c_str(), "%d-%d-%dT%d:%d:%d", &year, &month, &day, &hour,
                  &minute, &second) != 6) {
    return 0;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return 0;
  const auto days = std::chrono::sys_days(date).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(days).count() + hour * 3600 +
         minute * 60 + second;
}

// When the object was last written, as far as it says: the newest of its managedFields.
int64_t LastWritten(const Object& object) {
  int64_t newest = object.creation_timestamp();
  const std::string_view json = object.json();
  constexpr std::string_view kTime = "\"time\":\"";
  const size_t fields = json.find("\"managedFields\"");
  if (fields == std::string_view::npos) return newest;
  for (size_t at = json.find(kTime, fields); at != std::string_view::npos;
       at = json.find(kTime, at + 1)) {
    newest = std::max(newest, ParseTime(json.substr(at + kTime.size(), 20)));
  }
  return newest;
}

struct Ages {
  std::vector<int64_t> written;
  std::vector<int64_t> created;
};

Result<Ages> ReadAges(const Store& store, CollectionId collection) {
  Ages ages;
  LARDER_RETURN_IF_ERROR(store.Scan(collection, {}, {}, [&](const ObjectPtr& object) {
    ages.written.push_back(LastWritten(*object));
    ages.created.push_back(object->creation_timestamp());
    return ages.written.size() < kSample;
  }));
  return ages;
}

void SetRates(const Ages& ages, int64_t now, ResourceModel& model) {
  if (ages.written.empty()) return;
  double written = 0;
  double new_ones = 0;
  for (size_t i = 0; i < ages.written.size(); ++i) {
    written += std::max(kLeastAge, static_cast<double>(now - ages.written[i]));
    if (static_cast<double>(now - ages.created[i]) <= kHour) new_ones += 1;
  }
  const auto sampled = static_cast<double>(ages.written.size());
  const double objects = static_cast<double>(model.objects);
  model.updates = objects * sampled / written;
  // A population that keeps its size loses as many as it gains.
  model.creates = model.deletes = objects * (new_ones / sampled) / kHour;
}

}  // namespace

Result<WorkloadModel> ModelOf(const Store& store) {
  LARDER_ASSIGN_OR_RETURN(const StoreStats stats, GetStats(store));
  WorkloadModel model;
  model.name = "model";
  model.description = "from the statistics of a store";
  std::vector<std::pair<ResourceModel, Ages>> found;
  int64_t now = 0;
  for (const CollectionStats& entry : stats.collections) {
    if (entry.objects == 0) continue;
    const Resource& resource = entry.info.spec.resource;
    ResourceModel of;
    of.resource =
        LookupResource(resource.ToString())
            ? resource.ToString()
            : fmt::format("{}.{}.{}", resource.resource, resource.version, resource.group);
    const bool twice = std::any_of(found.begin(), found.end(), [&](const auto& other) {
      return other.first.resource == of.resource;
    });
    // Several collections of a resource (by namespace) are alike; the first stands for all.
    if (twice) continue;
    of.objects = entry.objects;
    of.json_bytes = std::clamp<uint64_t>(entry.json_bytes / entry.objects, 300, uint64_t{1} << 20);
    of.indexes = static_cast<unsigned>(std::min<size_t>(entry.indexes.size(), 8));
    auto ages = ReadAges(store, entry.info.id);
    // Encrypted, and nobody gave the key: it cannot be replayed either.
    if (!ages && ages.error().code == ErrorCode::kForbidden) continue;
    if (!ages) return tl::unexpected(ages.error());
    for (const int64_t time : ages->written) now = std::max(now, time);
    found.emplace_back(std::move(of), *std::move(ages));
  }
  for (auto& [of, ages] : found) {
    SetRates(ages, now, of);
    model.resources.push_back(std::move(of));
  }
  if (model.resources.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the store {} holds no objects to make a model of", store.options().path);
  }
  uint64_t objects = 0;
  for (const ResourceModel& of : model.resources) objects += of.objects;
  // Long enough for compactions to show.
  model.events = std::clamp<uint64_t>(objects * 3, 20'000, 500'000);
  LARDER_RETURN_IF_ERROR(Check(model));
  return model;
}

}  // namespace larder::tuning
