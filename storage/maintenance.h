// Looking after a store: figures, compaction, snapshots, backups, verification, repair.
//
// Functions that take a Store work on an open one, while it is used; those that take StoreOptions
// need it closed, and fail with kLocked while a process owns it. All are safe to interrupt: a
// restore or repair that was cut off is finished by calling it again.
//
//   LARDER_ASSIGN_OR_RETURN(const StoreStats stats, GetStats(*store));
//   LARDER_ASSIGN_OR_RETURN(const VerifyReport report, Verify(*store));
//   for (const Problem& problem : report.problems) ...
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "storage/collection.h"
#include "storage/options.h"
#include "storage/store.h"

namespace larder {

// ---- figures

struct CollectionStats {
  CollectionInfo info;
  uint64_t objects = 0;
  uint64_t json_bytes = 0;    // as the server sent them
  uint64_t stored_bytes = 0;  // keys and values of the rows
  uint64_t pending_deltas = 0;
  std::vector<IndexRecord> indexes;
};

struct DictionaryStats {
  uint32_t id = 0;
  std::string resource;
  bool current = false;
  uint64_t stored_bytes = 0;
  uint64_t values = 0;  // that name it
};

struct FamilyStats {
  std::string name;
  struct Level {
    int level = 0;
    uint64_t files = 0;
    uint64_t bytes = 0;
  };
  std::vector<Level> levels;
  uint64_t files = 0;
  uint64_t table_bytes = 0;
  uint64_t estimated_rows = 0;
  uint64_t pending_compaction_bytes = 0;
  double write_amplification = 0;  // since the store was opened; 0: nothing compacted yet
  double space_amplification = 0;  // tables against what is live in them, estimated
};

struct MemoryStats {
  uint64_t limit = 0;
  uint64_t block_cache = 0;
  uint64_t memtables = 0;
  uint64_t table_readers = 0;  // index and filter blocks
  uint64_t dictionaries = 0;
};

struct StoreStats {
  std::vector<CollectionStats> collections;
  std::vector<DictionaryStats> dictionaries;
  std::vector<FamilyStats> families;
  MemoryStats memory;
  uint64_t table_bytes = 0;
  uint64_t log_bytes = 0;
  uint64_t total_bytes = 0;  // of all files, snapshots not counted
  uint64_t disk_limit = 0;   // 0: none
  // Files that no version of the store needs; RocksDB removes them by and by.
  uint64_t obsolete_files = 0;
  uint64_t obsolete_bytes = 0;
  // Readers that hold old files back, and for how long the oldest does.
  uint64_t open_snapshots = 0;
  std::chrono::seconds oldest_snapshot{0};
  uint64_t reopened = 0;  // after failures
  int64_t owner_pid = 0;  // the process that has the store open; 0: none, or it cannot be told
  std::string health;     // empty: well
};

struct StatsOptions {
  // Count objects and bytes of each collection: reads every row's head.
  bool count_objects = true;
};
Result<StoreStats> GetStats(const Store& store, const StatsOptions& options = {});

// About how many objects a collection has, without reading a row: from the tables' own figures, and
// from a guess of RocksDB's for what is still in memory, which may be wrong by a third.
uint64_t EstimateObjects(const Store& store, CollectionId collection);

// ---- compaction

struct CompactOptions {
  // What is being compacted, and how far that is, 0 to 1. Called on the caller's thread.
  std::function<void(const std::string& what, double done)> progress{};
  std::stop_token stop{};
};
struct CompactReport {
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
  std::vector<uint32_t> dropped_dictionaries;
  // Encrypted collections, as text, with changes that wait for a handler: these are not rewritten,
  // and some hold an object that is encrypted with another key than the newest, or, from before
  // there was one, is in the clear. Empty where no key was given.
  std::vector<std::string> old_keys_needed;
};
// Rewrites everything once: frees what was deleted, moves every object to its resource's current
// dictionary and to the newest encryption key, then drops the dictionaries that nothing names: also
// the last one of a resource that is encrypted now. Changes that wait for a handler stay as they
// are: an older key may go once old_keys_needed is empty.
Result<CompactReport> Compact(Store& store, const CompactOptions& options = {});

// ---- snapshots: hard links within the store's directory, made in no time

struct SnapshotInfo {
  std::string name;
  int64_t created_ms = 0;
  uint64_t bytes = 0;  // shared with the store as long as that needs the same files
};
// `name` is a file name: letters, digits, '.', '-', '_', not ending in ".tmp".
Result<SnapshotInfo> CreateSnapshot(Store& store, const std::string& name);
Result<std::vector<SnapshotInfo>> ListSnapshots(const std::string& store_path);
Result<void> RemoveSnapshot(const std::string& store_path, const std::string& name);
// The store becomes what it was when the snapshot was made.
Result<void> RestoreSnapshot(const StoreOptions& options, const std::string& name);

// ---- backups: a directory of their own, anywhere; files that did not change are shared
//
// One process at a time makes or removes backups in a directory, and nobody removes any while
// another reads them: kLocked. Who only reads writes nothing there.

struct BackupInfo {
  uint32_t id = 0;
  int64_t created_ms = 0;
  uint64_t bytes = 0;
};
Result<BackupInfo> CreateBackup(Store& store, const std::string& backup_path);
Result<std::vector<BackupInfo>> ListBackups(const std::string& backup_path);
// Keeps the newest `keep`.
Result<void> PurgeBackups(const std::string& backup_path, uint32_t keep);
// Reads every file of a backup and compares its checksum.
Result<void> VerifyBackup(const std::string& backup_path, uint32_t id);
// Makes the store at options.path from a backup; id 0: the newest.
Result<void> RestoreBackup(const StoreOptions& options, const std::string& backup_path,
                           uint32_t id = 0);

// ---- verification and repair

struct Problem {
  std::string family;  // where: "objects", "indexes", "queues", "deltas", "meta", or a file
  std::string key;     // the row, as it is stored
  CollectionId collection = 0;  // 0: of no collection
  std::string message;
};

struct VerifyOptions {
  std::function<void(uint64_t objects)> progress{};
  std::stop_token stop{};
  size_t max_problems = 1000;  // more are counted, not listed
};

struct VerifyReport {
  uint64_t objects = 0;
  uint64_t sealed = 0;  // of these, encrypted with a key that is not among ours
  uint64_t index_keys = 0;
  uint64_t queue_items = 0;
  uint64_t deltas = 0;
  uint64_t collections = 0;
  uint64_t problem_count = 0;
  std::vector<Problem> problems;
  std::chrono::milliseconds took{0};
  bool Ok() const { return problem_count == 0; }
};
// Reads everything: the checksum of every block, every object in full, every index recomputed from
// its definition where it can be (labels and fields) and checked for dangling keys where it cannot
// (functions), every queue item, cursor and record. Of pending changes it reads the keys: what is
// in them only their handler knows. One moment of the store; writes go on.
Result<VerifyReport> Verify(const Store& store, const VerifyOptions& options = {});

struct RepairReport {
  uint64_t objects_kept = 0;
  uint64_t objects_lost = 0;  // that could be counted; a lost block hides how many it had
  uint64_t other_rows_kept = 0;
  uint64_t other_rows_lost = 0;
  uint64_t gaps = 0;                // places that cannot be read: how much was there is not known
  std::vector<std::string> relist;  // collections that will be listed anew, as text
  std::string damaged_files;        // where the old files are now
};
// Makes a new store from every row of the old one that is sound: objects that verify, queue items,
// notes, cursors. Indexes are built anew. A collection that may have lost something is marked as
// incomplete, so that its next start lists it again; what is stored of it then is only compared.
// Where pending work may be lost, durable names are forgotten: they are told everything once more.
// What finishes a repair that was cut off counts nothing any more.
Result<RepairReport> Repair(const StoreOptions& options);

}  // namespace larder
