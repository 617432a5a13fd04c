// Findings from a store, without its owner's help.
#include <fmt/format.h>

#include <algorithm>

#include "tools/age.h"
#include "tools/doctor/report.h"
#include "tools/output.h"

namespace larder::tools {
namespace {

void Collections(const StoreStats& stats, DoctorReport& report) {
  ReportTable table{
      "Collections", {"collection", "state", "objects", "JSON", "stored", "updated"}, {}};
  Chart bytes{"Stored bytes by collection", "bytes", false, {}, {}};
  const int64_t now = NowSeconds();
  for (const CollectionStats& entry : stats.collections) {
    const std::string name = entry.info.spec.ToString();
    const Cursor& cursor = entry.info.cursor;
    table.rows.push_back({name, std::string(ToString(cursor.state)), HumanCount(entry.objects),
                          HumanBytes(entry.json_bytes), HumanBytes(entry.stored_bytes),
                          AgeOf(cursor.updated_ms / 1000, now)});
    bytes.labels.push_back(name);
    bytes.values.push_back(static_cast<double>(entry.stored_bytes));
    if (!cursor.Complete()) {
      report.findings.push_back({Severity::kWarning, "sync", name + " is not complete",
                                 "state " + std::string(ToString(cursor.state)),
                                 "Its first list has not ended. If its owner runs, wait; otherwise "
                                 "start it again: it lists anew."});
    }
    if (cursor.updated_ms != 0 && now - cursor.updated_ms / 1000 > 3600) {
      report.findings.push_back({Severity::kNote, "sync", name + " has not moved for long",
                                 "last commit " + AgeOf(cursor.updated_ms / 1000, now) + " ago",
                                 "If nothing keeps it in step any more, it is dropped after "
                                 "collection_ttl. A start after "
                                 "the server's history expired lists once."});
    }
    if (entry.pending_deltas > 0) {
      report.findings.push_back(
          {entry.pending_deltas > 10'000 ? Severity::kWarning : Severity::kNote, "handler",
           name + ": changes wait for handlers",
           HumanCount(entry.pending_deltas) + " rows not acknowledged",
           "A durable handler is behind, or its name is no longer used: remove the name then."});
    }
    for (const IndexRecord& index : entry.indexes) {
      if (index.ready) continue;
      report.findings.push_back({Severity::kNote, "cache",
                                 "index " + index.name + " of " + name + " is not ready",
                                 "definition " + index.definition,
                                 "It is filled while its owner runs; until then lookups scan."});
    }
  }
  report.tables.push_back(std::move(table));
  if (!bytes.values.empty()) report.charts.push_back(std::move(bytes));
}

void Queues(const std::vector<QueueSummary>& queues, DoctorReport& report) {
  if (queues.empty()) return;
  ReportTable table{"Stored work", {"queue", "ready", "delayed", "failing", "dead", "oldest"}, {}};
  const int64_t now = NowSeconds();
  for (const QueueSummary& queue : queues) {
    const std::string oldest = queue.oldest_ms == 0 ? "-" : AgeOf(queue.oldest_ms / 1000, now);
    table.rows.push_back({queue.name, HumanCount(queue.ready), HumanCount(queue.delayed),
                          HumanCount(queue.failing), HumanCount(queue.dead), oldest});
    if (queue.damaged > 0) {
      report.findings.push_back(
          {Severity::kProblem, "queue", queue.name + " has records that cannot be read",
           fmt::format("{}; the first: {}", Plural(queue.damaged, "record"), queue.first_damaged),
           "Its owner hands such items out at once, with their failures and delays forgotten. "
           "larder verify has them all; with the owner stopped, larder verify --repair takes them "
           "away."});
    }
    if (queue.dead > 0) {
      report.findings.push_back({Severity::kWarning, "queue", queue.name + " has dead letters",
                                 HumanCount(queue.dead) + " items used up their retries",
                                 "larder queue show " + queue.name +
                                     " --dead says why; larder queue requeue puts them back."});
    }
    const uint64_t waiting = queue.ready + queue.delayed;
    if (queue.failing > 0) {
      report.findings.push_back(
          {queue.failing * 2 >= waiting ? Severity::kWarning : Severity::kNote, "queue",
           queue.name + ": items fail",
           fmt::format("{} of {} were tried before, in vain", HumanCount(queue.failing),
                       Plural(waiting, "item")),
           "larder queue show " + queue.name + " has the last error of each."});
    }
    if (queue.oldest_ms != 0 && now - queue.oldest_ms / 1000 > 600) {
      report.findings.push_back(
          {Severity::kWarning, "queue", queue.name + ": work waits for long",
           fmt::format("{} items are ready, the oldest since {}", HumanCount(queue.ready), oldest),
           "Is a worker running? If so, raise its number."});
    }
  }
  report.tables.push_back(std::move(table));
}

void Files(const StoreStats& stats, DoctorReport& report) {
  ReportTable table{
      "LSM tree", {"family", "rows", "files", "size", "L0 files", "space amp", "to compact"}, {}};
  for (const FamilyStats& family : stats.families) {
    uint64_t level0 = 0;
    for (const FamilyStats::Level& level : family.levels) {
      if (level.level == 0) level0 = level.files;
    }
    table.rows.push_back(
        {family.name, HumanCount(family.estimated_rows), std::to_string(family.files),
         HumanBytes(family.table_bytes), std::to_string(level0),
         family.space_amplification == 0 ? "-" : fmt::format("{:.1f}", family.space_amplification),
         HumanBytes(family.pending_compaction_bytes)});
    if (level0 >= 12) {
      report.findings.push_back({Severity::kWarning, "disk",
                                 family.name + ": compaction does not keep up",
                                 fmt::format("{} files in level 0", level0),
                                 "Reads look at each of them, and writes stall at 20. Give the "
                                 "process more memory_limit or a faster disk."});
    }
    if (family.space_amplification > 2.5 && family.table_bytes > (uint64_t{64} << 20)) {
      report.findings.push_back({Severity::kNote, "disk",
                                 family.name + " takes much more room than it needs",
                                 fmt::format("{:.1f} times", family.space_amplification),
                                 "larder compact gives it back; it comes by itself, too."});
    }
  }
  report.tables.push_back(std::move(table));
}

void Disk(const StoreStats& stats, DoctorReport& report) {
  report.tables.push_back({"Disk and memory",
                           {"figure", "value"},
                           {{"all files", HumanBytes(stats.total_bytes)},
                            {"tables", HumanBytes(stats.table_bytes)},
                            {"log", HumanBytes(stats.log_bytes)},
                            {"no longer needed", HumanBytes(stats.obsolete_bytes)},
                            {"index and filter blocks", HumanBytes(stats.memory.table_readers)},
                            {"dictionaries", HumanBytes(stats.memory.dictionaries)}}});
  if (stats.obsolete_bytes > stats.table_bytes && stats.obsolete_bytes > (uint64_t{64} << 20)) {
    report.findings.push_back(
        {Severity::kWarning, "disk", "old files are not removed",
         fmt::format("{} in {} files", HumanBytes(stats.obsolete_bytes), stats.obsolete_files),
         "A reader or a snapshot holds them: end it, or restart the owner."});
  }
  for (const DictionaryStats& dictionary : stats.dictionaries) {
    if (dictionary.current || dictionary.values == 0) continue;
    report.findings.push_back(
        {Severity::kNote, "disk", "values of " + dictionary.resource + " have an old dictionary",
         HumanCount(dictionary.values) + " values",
         "They move over when they are compacted; larder compact does it now."});
  }
  if (!stats.health.empty()) {
    report.findings.push_back({Severity::kProblem, "disk", "the store cannot be written",
                               stats.health,
                               "Make room on the disk; the store goes on by itself."});
  }
}

}  // namespace

void DiagnoseStore(const StoreStats& stats, const std::vector<QueueSummary>& queues,
                   DoctorReport& report) {
  Collections(stats, report);
  Queues(queues, report);
  Files(stats, report);
  Disk(stats, report);
}

}  // namespace larder::tools
