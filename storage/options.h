// What a store may use and how it behaves. Every default is meant for production.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "storage/engine_options.h"

namespace larder {

enum class Durability {
  // Written to the log before the call returns; synced within StoreOptions::sync_interval. Survives
  // kill -9;
  // power loss falls back to a consistent older prefix.
  kRelaxed,
  // Synced before the call returns; concurrent callers share one sync.
  kSync,
};

inline constexpr std::chrono::milliseconds kLeastSyncInterval{10};

struct StoreOptions {
  // The directory. Created with mode 0700; refused when others can read it.
  std::string path{};
  bool create_if_missing = true;

  // Keep everything in memory and nothing on disk: for what must not be stored. `path` is then only
  // a name.
  bool in_memory = false;

  // One number for everything the store keeps in memory: hot tier, block cache, memtables, buffers
  // (DivideMemory below says how much of each).
  size_t memory_limit = size_t{64} << 20;
  // How large the store may get on disk, snapshots not counted. Beyond it, commits that store
  // objects fail with kNoSpace, reads and acknowledgements go on; checked every sync_interval. 0:
  // no bound.
  uint64_t disk_limit = 0;
  // Compress values with a dictionary trained per resource.
  bool compression = true;
  // zstd level of that, and how large a dictionary may get (0: none are trained).
  int value_compression_level = 3;
  size_t dictionary_bytes = size_t{64} << 10;
  // Upper bound for the write-ahead log.
  size_t max_log_bytes = size_t{64} << 20;
  // How long a relaxed commit may stay unsynced. At least kLeastSyncInterval: with none the thread
  // that syncs would have a core for itself.
  std::chrono::milliseconds sync_interval{1000};
  // A collection that nobody opened or wrote to for this long is dropped, some time after the start
  // (so that a controller that was away longer can still open its own). 0 keeps all.
  std::chrono::seconds collection_ttl{std::chrono::hours(24 * 7)};

  // Keys for what may reach the disk only encrypted: a file with 32 bytes in base64 a line, newest
  // first, or the name of an environment variable that holds the same. Without, no such resource
  // can be stored.
  // With a key, or once a collection of such a resource is opened in memory, the process leaves no
  // core dump any more, and only root can attach a debugger.
  std::string encryption_key_file{};
  std::string encryption_key_variable{};
  // Resources, spelled like "secrets", whose objects are encrypted. A collection that was opened
  // with it stays encrypted, also for programs with another list.
  std::vector<std::string> encrypted_resources = {"secrets"};

  // How RocksDB keeps the store, where that differs from larder's own choice (docs/tuning.md). Its
  // [Larder] section wins over the fields above. Where it is empty, options that `larder tune
  // apply` left in the store's directory are used.
  EngineOptions engine{};
  // Memtables' share of memory_limit, 5 to 40; the block cache has 45 percent less this.
  unsigned memtable_percent = 20;

  Clock* clock = RealClock();
};

// How one memory limit is divided. Memtables, index and filter blocks count against the block
// cache. What is left goes to what cannot be set beforehand: dictionaries, buffers of threads.
struct MemoryBudget {
  size_t hot_tier;
  size_t block_cache;
  size_t memtables;
};
MemoryBudget DivideMemory(size_t memory_limit, unsigned memtable_percent = 20);

}  // namespace larder
