// RocksDB, opened the way larder needs it. Internal to storage/.
//
// Several column families with one log: flushes are atomic over all families and recovery stops at
// the first damaged record, so that after a power loss the families agree on one prefix of the
// commits.
#pragma once

#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "storage/options.h"

namespace larder {

enum class Family { kMeta, kObjects, kIndexes, kQueues, kDeltas };
inline constexpr std::array<std::string_view, 5> kFamilyNames = {"meta", "objects", "indexes",
                                                                 "queues", "deltas"};

// What RocksDB says, as an Error: kNoSpace, kCorruption, kNotFound, kLocked or kIo.
Error FromRocks(const rocksdb::Status& status, std::string_view what);

class Database {
 public:
  enum class Mode { kOwner, kReader };

  // `env` null means the default one; `filter` may be null and must outlive the database.
  static Result<std::shared_ptr<Database>> Open(const StoreOptions& options, Mode mode,
                                                rocksdb::Env* env,
                                                rocksdb::CompactionFilterFactory* filter);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* operator->() const { return db_.get(); }
  rocksdb::DB* get() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* family(Family family) const {
    return handles_[static_cast<size_t>(family)];
  }
  Mode mode() const { return mode_; }

 private:
  Database() = default;

  Mode mode_ = Mode::kOwner;
  std::unique_ptr<rocksdb::Env> memory_env_;
  std::string reader_scratch_;  // a secondary's own log directory, removed at the end
  std::array<rocksdb::ColumnFamilyHandle*, kFamilyNames.size()> handles_{};
  rocksdb::ColumnFamilyHandle* default_handle_ = nullptr;
  std::unique_ptr<rocksdb::DB> db_;
};

// How one memory limit is divided.
struct MemoryBudget {
  size_t hot_tier;
  size_t block_cache;
  size_t memtables;
};
MemoryBudget DivideMemory(size_t memory_limit);

}  // namespace larder
