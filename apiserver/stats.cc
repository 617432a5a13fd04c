#include "apiserver/stats.h"

#include <nlohmann/json.hpp>

namespace larder::apiserver {
namespace {

Json StatsJson(const ResourceStats& stats) {
  return {{"lists", stats.lists},         {"watches", stats.watches},
          {"gets", stats.gets},           {"writes", stats.writes},
          {"objects", stats.objects},     {"events", stats.events},
          {"bookmarks", stats.bookmarks}, {"bytes", stats.bytes},
          {"errors", stats.errors},       {"open_watches", stats.open_watches}};
}

}  // namespace

ResourceStats& ResourceStats::operator+=(const ResourceStats& other) {
  lists += other.lists;
  watches += other.watches;
  gets += other.gets;
  writes += other.writes;
  objects += other.objects;
  events += other.events;
  bookmarks += other.bookmarks;
  bytes += other.bytes;
  errors += other.errors;
  open_watches += other.open_watches;
  return *this;
}

ResourceStats Stats::Counters::Copy() const {
  return {lists, watches, gets, writes, objects, events, bookmarks, bytes, errors, open_watches};
}

Stats::Counters& Stats::Of(const std::string& resource) {
  MutexLock lock(mutex_);
  std::unique_ptr<Counters>& slot = counters_[resource];
  if (!slot) slot = std::make_unique<Counters>();
  return *slot;
}

std::map<std::string, ResourceStats> Stats::Copy() const {
  MutexLock lock(mutex_);
  std::map<std::string, ResourceStats> out;
  for (const auto& [name, counters] : counters_) out[name] = counters->Copy();
  return out;
}

void Stats::Reset() {
  MutexLock lock(mutex_);
  for (const auto& [name, counters] : counters_) {
    for (std::atomic<uint64_t>* counter :
         {&counters->lists, &counters->watches, &counters->gets, &counters->writes,
          &counters->objects, &counters->events, &counters->bookmarks, &counters->bytes,
          &counters->errors}) {
      *counter = 0;
    }
  }
}

Json Stats::ToJson() const {
  Json out = {{"total", nullptr}, {"resources", Json::object()}};
  ResourceStats total;
  for (const auto& [name, stats] : Copy()) {
    total += stats;
    out["resources"][name.empty() ? "other" : name] = StatsJson(stats);
  }
  out["total"] = StatsJson(total);
  return out;
}

}  // namespace larder::apiserver
