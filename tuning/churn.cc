#include "tuning/churn.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "schema/object.h"

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

// What an object that was written after its creation says: one update in the time since. One that
// never was says: none. The newest that were created tell how many are; but at most the later half
// of the time that is known, because the beginning filled an empty cluster.
Churn RatesOf(const Ages& ages, uint64_t objects, int64_t now) {
  Churn churn;
  if (ages.written.empty()) return churn;
  const int64_t oldest = *std::min_element(ages.created.begin(), ages.created.end());
  const double window = std::min(kHour, static_cast<double>(now - oldest) / 2);
  double time = 0, updated = 0, new_ones = 0;
  for (size_t i = 0; i < ages.written.size(); ++i) {
    time += std::max(kLeastAge, static_cast<double>(now - ages.written[i]));
    if (ages.written[i] > ages.created[i]) updated += 1;
    if (static_cast<double>(now - ages.created[i]) < window) new_ones += 1;
  }
  const auto sampled = static_cast<double>(ages.written.size());
  const auto all = static_cast<double>(objects);
  churn.updates = all * updated / time;
  if (window >= 1) churn.creates = churn.deletes = all * (new_ones / sampled) / window;
  return churn;
}

}  // namespace

Result<std::map<CollectionId, Churn>> EstimateChurn(
    const Store& store, const std::vector<CollectionStats>& collections) {
  std::map<CollectionId, Ages> sampled;
  // The newest write of all is now: a store that nobody filled for a month did not get quieter.
  int64_t now = 0;
  for (const CollectionStats& entry : collections) {
    auto ages = ReadAges(store, entry.info.id);
    if (!ages && ages.error().code == ErrorCode::kForbidden) continue;
    if (!ages) return tl::unexpected(ages.error());
    for (const int64_t time : ages->written) now = std::max(now, time);
    sampled.emplace(entry.info.id, *std::move(ages));
  }
  std::map<CollectionId, Churn> out;
  for (const CollectionStats& entry : collections) {
    const auto ages = sampled.find(entry.info.id);
    if (ages != sampled.end()) out[entry.info.id] = RatesOf(ages->second, entry.objects, now);
  }
  return out;
}

}  // namespace larder::tuning
