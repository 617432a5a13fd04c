// RocksDB, opened the way larder needs it. Internal to storage/.
//
// Several column families with one log: flushes are atomic over all families, recovery stops at the
// first damaged record, and a log is synced before the next one is begun, so that after a power
// loss the families agree on one prefix of the commits.
#pragma once

#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <sys/types.h>

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "storage/family.h"
#include "storage/options.h"
#include "storage/owner_lock.h"
#include "storage/replay_limit.h"

namespace larder {

// The format of what is stored; docs/format.md. Newer ones are refused.
inline constexpr int kFormat = 2;
inline constexpr std::string_view kFormatKey = "format";

// kUnsupported: the store at `path` is of a newer larder.
tl::unexpected<Error> NewerFormat(const std::string& path, std::string_view format);

// What RocksDB says, as an Error: kNoSpace, kCorruption, kNotFound, kLocked or kIo.
Error FromRocks(const rocksdb::Status& status, std::string_view what);

// One of RocksDB's logs. The numbers begin anew in a store that was put in the place of another, so
// the file itself counts, too.
struct LogFile {
  uint64_t number = 0;  // none has this one
  ino_t inode = 0;
  auto operator<=>(const LogFile&) const = default;
};

class Database {
 public:
  enum class Mode {
    kOwner,   // the one process that writes
    kReader,  // a secondary beside a live owner
    kFrozen,  // reads what is there and writes nothing: for a full disk, and where there is no
              // owner
  };

  // `env` null means the default one; `filter` may be null and must outlive the database.
  // `listener` may be null. An owner takes `lock`, where it is not held yet, and leaves it held: it
  // stays when the database is closed to be opened again, and as long as the database does, which a
  // snapshot may keep; for others it may be null. `committed_through`: what the log has
  // behind this sequence number was never committed and is left out, for good once the database is
  // open.
  static Result<std::shared_ptr<Database>> Open(
      const StoreOptions& options, Mode mode, rocksdb::Env* env,
      rocksdb::CompactionFilterFactory* filter, std::shared_ptr<rocksdb::EventListener> listener,
      const std::shared_ptr<OwnerLock>& lock,
      std::optional<uint64_t> committed_through = std::nullopt);
  // Of a secondary: reads what its owner has written since. False: it has to be opened anew,
  // because the owner has begun another log, or because another store is in its place.
  Result<bool> CatchUp();
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* operator->() const { return db_.get(); }
  rocksdb::DB* get() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* family(Family family) const {
    return handles_[static_cast<size_t>(family)];
  }
  Mode mode() const { return mode_; }
  rocksdb::Env* env() const { return env_; }

 private:
  Database() = default;

  static Result<std::shared_ptr<Database>> OpenOnce(
      const StoreOptions& options, Mode mode, rocksdb::Env* env,
      rocksdb::CompactionFilterFactory* filter, std::shared_ptr<rocksdb::EventListener> listener,
      const std::shared_ptr<OwnerLock>& lock, std::optional<uint64_t> committed_through);
  Result<void> OpenReader(const StoreOptions& options, const rocksdb::DBOptions& db_options,
                          const std::vector<rocksdb::ColumnFamilyDescriptor>& families);
  Result<void> Adopt(const rocksdb::Status& status, const StoreOptions& options, rocksdb::DB* db,
                     const std::vector<rocksdb::ColumnFamilyHandle*>& handles);

  Mode mode_ = Mode::kOwner;
  std::shared_ptr<OwnerLock> lock_;  // outlives RocksDB's own
  rocksdb::Env* env_ = nullptr;
  std::unique_ptr<rocksdb::Env> memory_env_;
  std::unique_ptr<rocksdb::Env> table_reads_env_;
  std::unique_ptr<rocksdb::Env> log_order_env_;
  std::unique_ptr<ReplayLimit> replay_limit_;  // RocksDB keeps a pointer to it
  std::string reader_scratch_;  // a secondary's own log directory, removed at the end
  std::string path_;
  // There was, before a secondary was opened. RocksDB has it open, so no other gets its inode.
  LogFile newest_log_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilyNames.size()> handles_{};
  rocksdb::ColumnFamilyHandle* default_handle_ = nullptr;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace larder
