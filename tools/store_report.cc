#include "tools/store_report.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "tools/age.h"

namespace larder::tools {
namespace {

void Count(const StoredQueueItem& item, int64_t now_ms, QueueSummary& queue) {
  const QueueRecord& record = item.record;
  if (record.dead) {
    ++queue.dead;
    return;
  }
  if (record.failures > 0) ++queue.failing;
  if (record.not_before_ms > now_ms) {
    ++queue.delayed;
    return;
  }
  ++queue.ready;
  if (queue.oldest_ms == 0 || record.added_ms < queue.oldest_ms) queue.oldest_ms = record.added_ms;
}

Json CollectionJson(const CollectionStats& entry, bool counted) {
  const auto figure = [&](uint64_t value) { return counted ? Json(value) : Json(); };
  Json indexes = Json::array();
  for (const IndexRecord& index : entry.indexes) {
    indexes.push_back(
        {{"name", index.name}, {"definition", index.definition}, {"ready", index.ready}});
  }
  return {{"id", entry.info.id},
          {"collection", entry.info.spec.ToString()},
          {"resource", entry.info.spec.resource.ToString()},
          {"state", std::string(ToString(entry.info.cursor.state))},
          {"resourceVersion", entry.info.cursor.resource_version},
          {"lists", entry.info.cursor.epoch},
          {"updated", TimeToJson(entry.info.cursor.updated_ms)},
          {"objects", figure(entry.objects)},
          {"jsonBytes", figure(entry.json_bytes)},
          {"storedBytes", figure(entry.stored_bytes)},
          {"pendingChanges", entry.pending_deltas},
          {"indexes", std::move(indexes)}};
}

Json FamilyJson(const FamilyStats& entry) {
  Json levels = Json::array();
  for (const FamilyStats::Level& level : entry.levels) {
    levels.push_back({{"level", level.level}, {"files", level.files}, {"bytes", level.bytes}});
  }
  return {{"name", entry.name},
          {"rows", entry.estimated_rows},
          {"files", entry.files},
          {"bytes", entry.table_bytes},
          {"levels", std::move(levels)},
          {"spaceAmplification", entry.space_amplification},
          {"writeAmplification", entry.write_amplification},
          {"pendingCompactionBytes", entry.pending_compaction_bytes}};
}

}  // namespace

Result<std::vector<QueueSummary>> SummariseQueues(const Store& store) {
  std::vector<QueueSummary> out;
  LARDER_ASSIGN_OR_RETURN(const auto names, store.Queues());
  const int64_t now_ms = NowSeconds() * 1000;
  for (const std::string& name : names) {
    QueueSummary queue;
    queue.name = name;
    std::optional<StoredQueueItem> last;
    LARDER_RETURN_IF_ERROR(store.ScanQueue(
        name, {},
        [&](const StoredQueueItem& item) {
          if (last && last->item != item.item) Count(*last, now_ms, queue);
          last = item;
          return true;
        },
        [&](const DamagedQueueItem& row) {
          if (++queue.damaged == 1) {
            queue.first_damaged =
                fmt::format("{}: {}", row.item.value_or("an unknown item"), row.error.message);
          }
          return true;
        }));
    if (last) Count(*last, now_ms, queue);
    out.push_back(std::move(queue));
  }
  return out;
}

Json TimeToJson(int64_t ms) { return ms == 0 ? Json() : Json(FormatTimestamp(ms / 1000)); }

Json StatsToJson(const StoreStats& stats, const std::vector<QueueSummary>& queues, bool counted) {
  Json out = {{"collections", Json::array()},
              {"dictionaries", Json::array()},
              {"families", Json::array()},
              {"queues", Json::array()}};
  for (const CollectionStats& entry : stats.collections) {
    out["collections"].push_back(CollectionJson(entry, counted));
  }
  for (const DictionaryStats& entry : stats.dictionaries) {
    out["dictionaries"].push_back({{"id", entry.id},
                                   {"resource", entry.resource},
                                   {"current", entry.current},
                                   {"bytes", entry.stored_bytes},
                                   {"values", counted ? Json(entry.values) : Json()}});
  }
  for (const FamilyStats& entry : stats.families) out["families"].push_back(FamilyJson(entry));
  for (const QueueSummary& queue : queues) {
    out["queues"].push_back({{"name", queue.name},
                             {"ready", queue.ready},
                             {"delayed", queue.delayed},
                             {"dead", queue.dead},
                             {"failing", queue.failing},
                             {"damaged", queue.damaged},
                             {"oldest", TimeToJson(queue.oldest_ms)}});
  }
  out["memory"] = {{"limit", stats.memory.limit},
                   {"blockCache", stats.memory.block_cache},
                   {"memtables", stats.memory.memtables},
                   {"tableReaders", stats.memory.table_readers},
                   {"dictionaries", stats.memory.dictionaries}};
  out["disk"] = {{"total", stats.total_bytes},
                 {"tables", stats.table_bytes},
                 {"log", stats.log_bytes},
                 {"limit", stats.disk_limit},
                 {"obsoleteFiles", stats.obsolete_files},
                 {"obsoleteBytes", stats.obsolete_bytes}};
  out["health"] = stats.health;
  out["ownerPid"] = stats.owner_pid;
  return out;
}

}  // namespace larder::tools
