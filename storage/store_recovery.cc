// How a store goes on after a failed write: a full disk, a lost volume, an I/O error.
#include <rocksdb/experimental.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/process.h"
#include "base/thread_name.h"
#include "storage/directory.h"
#include "storage/keys.h"
#include "storage/store_impl.h"

namespace larder {
namespace {

constexpr std::chrono::milliseconds kRecoveryPause{200};
// What must fit for a reopen to be worth trying: a log, a manifest, a small table.
constexpr size_t kRoomBytes = size_t{1} << 20;
// How long readers may take to let go of a database that is to be opened again.
constexpr std::chrono::milliseconds kReaderGrace{300};

constexpr std::chrono::minutes kFirstGarbageCollection{10};
constexpr std::chrono::hours kGarbageCollectionInterval{1};
// What bursts leave in the heap would make a process grow for hours.
constexpr std::chrono::minutes kTrimInterval{1};

}  // namespace

void Store::Impl::RememberFailure(const Error& error) {
  MutexLock lock(failure_mutex_);
  if (commits_lost_) return;
  if (!failed_.exchange(true)) {
    spdlog::error("{}; reads go on, writes are tried again", error.message);
  }
  failure_ = error;
}

void Store::Impl::RememberBackgroundFailure() {
  if (const auto error = damage_->TakeBackgroundFailure()) RememberFailure(*error);
}

// Damage first: a full disk gets over itself, this needs a person.
Result<void> Store::Impl::Health() const {
  LARDER_RETURN_IF_ERROR(damage_->Health());
  return WriteHealth();
}

Result<void> Store::Impl::WriteHealth() const {
  if (failed_.load()) {
    MutexLock lock(failure_mutex_);
    return tl::unexpected(failure_);
  }
  if (auto error = damage_->BackgroundFailure()) return tl::unexpected(*std::move(error));
  if (over_budget_.load()) {
    return MakeError(ErrorCode::kNoSpace,
                     "store {} is larger than its disk_limit of {} bytes; raise it, or drop "
                     "collections and compact",
                     options.path, options.disk_limit);
  }
  return {};
}

Error Store::Impl::Unavailable() const {
  if (auto health = WriteHealth(); !health) return health.error();
  return Error{ErrorCode::kIo, fmt::format("store {} is being opened again", options.path), {}, {}};
}

Result<void> Store::Impl::RequireOnDisk() const {
  if (!options.in_memory) return {};
  return MakeError(ErrorCode::kUnsupported, "store {} is in memory only", options.path);
}

// Objects only: what frees space (acknowledgements, deletes, dropping) must always get through.
Result<void> Store::Impl::CheckBudget(const Transaction::Rep& rep) const {
  if (over_budget_.load(std::memory_order_relaxed) && rep.stores_objects) return WriteHealth();
  return {};
}

uint64_t Store::Impl::DiskBytes() const {
  if (options.in_memory) return 0;
  uint64_t total = 0;
  std::error_code error;
  for (const auto& entry : EntriesOf(options.path, error)) {
    std::error_code gone;  // a file may be removed under our eyes
    const uint64_t bytes = entry.is_regular_file(gone) ? entry.file_size(gone) : 0;
    if (!gone) total += bytes;
  }
  return total;
}

void Store::Impl::ReclaimSpace(CollectionId collection) {
  const auto db = database();
  if (!db) return;
  const std::string begin = keys::CollectionPrefix(collection);
  const std::string end = keys::PrefixEnd(begin);
  const rocksdb::Slice from(begin), to(end);
  for (const Family family : {Family::kObjects, Family::kIndexes}) {
    (void)rocksdb::experimental::SuggestCompactRange(db->get(), db->family(family), &from, &to);
  }
}

// RocksDB refuses writes after a failed one until it is told to go on.
bool Store::Impl::TryResume(Database& database) {
  if (database.mode() != Database::Mode::kOwner || !database->Resume().ok()) return false;
  rocksdb::WriteBatch probe;
  probe.Delete(database.family(Family::kMeta), "probe");
  rocksdb::WriteOptions write;
  write.sync = true;
  return database->Write(write, &probe).ok();
}

// Is there room by now? Only a file can tell: quotas and other file systems do not show in numbers.
bool Store::Impl::HasRoom(Database& database) {
  const std::string path = options.path + "/room";
  std::unique_ptr<rocksdb::WritableFile> file;
  rocksdb::Status status = database.env()->NewWritableFile(path, &file, rocksdb::EnvOptions());
  if (status.ok()) status = file->Append(std::string(kRoomBytes, '\0'));
  if (status.ok()) status = file->Sync();
  if (file) (void)file->Close();
  (void)database.env()->DeleteFile(path);
  return status.ok();
}

// After a full disk Resume() may report success while writes go on failing; then only a fresh open
// reads the log as it really is on disk. But a database that is closed can no longer be read from:
// so not before there is room to open it again, and where that fails all the same, it is opened
// for reading.
Result<void> Store::Impl::Recover() {
  MutexLock lock(failure_mutex_);
  if (!failed_.load()) return {};
  if (commits_lost_ || options.clock->Now() < next_recovery_) return tl::unexpected(failure_);
  Result<void> outcome = ResumeOrReopen();
  // Behind the attempt, which may take longer than the pause: who commits would only wait.
  next_recovery_ = options.clock->Now() + kRecoveryPause;
  return outcome;
}

Result<void> Store::Impl::ResumeOrReopen() {
  if (const auto db = database()) {
    if (!TryResume(*db)) {
      if (options.in_memory || !HasRoom(*db)) return tl::unexpected(failure_);
    } else {
      failed_.store(false);
      spdlog::info("store {} takes writes again", options.path);
      return {};
    }
  }
  return Reopen();
}

// What failed stays failed: a commit whose sync failed is in the log, but its caller was told and
// has gone on.
Result<void> Store::Impl::Reopen() {
  WriterLock open_lock(open_mutex_);
  // Snapshots, readers and writers may still hold the old one; the directory can be opened again
  // only once it is closed. New ones wait for open_mutex_.
  for (auto waited = kReaderGrace; waited.count() > 0 && database_.use_count() > 1;
       waited -= std::chrono::milliseconds(1)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (database_.use_count() > 1) return tl::unexpected(failure_);
  if (database_ && database_->mode() == Database::Mode::kOwner) {
    committed_through_ = (*database_)->GetLatestSequenceNumber();
  }
  database_.reset();
  StoreOptions as_changed = options;
  {
    MutexLock lock(engine_mutex_);
    as_changed.engine = engine_;
  }
  // A directory that was emptied does not become a new store under who knows what was in it.
  as_changed.create_if_missing = false;
  auto opened = Database::Open(as_changed, mode_, env_, &recompress_, damage_, owner_lock_,
                               committed_through_);
  // The disk may have lost what it took: where writing back fails, the pages are gone. What the
  // process knows (cursors, queues) is ahead of such a store, and its next commit would hide the
  // gap. To one that is started anew this is an older prefix, as after a power loss.
  if (opened && (**opened)->GetLatestSequenceNumber() < *committed_through_) {
    commits_lost_ = true;
    opened = MakeError(ErrorCode::kCorruption,
                       "the disk of the store {} has lost commits that it had taken; it is read "
                       "only until this process is started again",
                       options.path);
    spdlog::error("{}", opened.error().message);
  }
  if (opened) {
    database_ = *std::move(opened);
    committed_through_.reset();
    ++reopened_;
    failed_.store(false);
    spdlog::info("store {} was opened again and takes writes", options.path);
    return {};
  }
  failure_ = opened.error();
  auto frozen = Database::Open(options, Database::Mode::kFrozen, env_, &recompress_, damage_,
                               owner_lock_, committed_through_);
  if (frozen) {
    database_ = *std::move(frozen);
  } else {
    spdlog::error("store {} cannot even be read: {}", options.path, frozen.error().message);
  }
  return tl::unexpected(failure_);
}

// One would only read the bad block again, and fail; and tables that cannot be compacted would
// gather until RocksDB lets every write wait for that.
void Store::Impl::AllowCompactions(Database& database, bool allowed) const {
  if (database.mode() != Database::Mode::kOwner) return;
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    const rocksdb::Status status =
        database->SetOptions(database.family(static_cast<Family>(i)),
                             {{"disable_auto_compactions", allowed ? "false" : "true"}});
    if (!status.ok()) spdlog::warn("store {}: {}", options.path, status.ToString());
  }
}

void Store::Impl::StartFlush() {
  const auto db = database();
  if (!db || !writable()) return;
  rocksdb::FlushOptions flush;
  flush.wait = false;
  flush.allow_write_stall = true;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    families.push_back(db->family(static_cast<Family>(i)));
  }
  const rocksdb::Status status = (*db)->Flush(flush, families);
  // While writes wait for the tables of an earlier flush RocksDB takes no other one. That is no
  // failure: the syncer asks again.
  flush_due_.store(status.IsTryAgain());
  if (!status.ok() && !status.IsTryAgain()) {
    spdlog::warn("flushing the store {}: {}", options.path, status.ToString());
  }
}

void Store::Impl::SyncLoop(const std::stop_token& stop) {
  NameThread("larder-sync");
  std::weak_ptr<Database> uncompacted;  // the one whose compactions are stopped
  while (!stop.stop_requested()) {
    {
      MutexLock lock(wait_mutex_);
      options.clock->WaitUntil(wait_mutex_, wake_, options.clock->Now() + options.sync_interval,
                               stop);
    }
    RememberBackgroundFailure();
    if (failed_.load()) (void)Recover();
    if (unsynced_.load() && !failed_.load()) (void)Sync();
    if (flush_due_.load() && !failed_.load()) StartFlush();
    mailbox_.Poll(*this);
    if (const auto db = database()) {
      const bool stopped = db == uncompacted.lock();
      if (stopped != damage_->KeepsFromCompacting()) {
        AllowCompactions(*db, stopped);
        uncompacted = stopped ? nullptr : db;
      }
    }
    if (options.disk_limit != 0) {
      const bool over = DiskBytes() > options.disk_limit;
      if (over != over_budget_.exchange(over) && over)
        spdlog::error("{}", WriteHealth().error().message);
    }
  }
}

void Store::Impl::JanitorLoop(const std::stop_token& stop,
                              const std::function<void()>& collect_garbage) {
  NameThread("larder-janitor");
  Clock::Steady trim = options.clock->Now() + kTrimInterval;
  Clock::Steady collect = options.clock->Now() + kFirstGarbageCollection;
  while (!stop.stop_requested()) {
    {
      MutexLock lock(wait_mutex_);
      options.clock->WaitUntil(wait_mutex_, wake_, std::min(trim, collect), stop);
    }
    if (stop.stop_requested()) return;
    if (options.clock->Now() >= trim) {
      trim = options.clock->Now() + kTrimInterval;
      ReturnFreeMemory();
    }
    if (options.clock->Now() < collect) continue;
    collect = options.clock->Now() + kGarbageCollectionInterval;
    collect_garbage();
  }
}

}  // namespace larder
