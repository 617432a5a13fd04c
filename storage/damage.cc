#include "storage/damage.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "storage/database.h"
#include "storage/table_reads.h"

namespace larder {
namespace {

// Longer than anybody waits before he tries again, so that it does not come and go.
constexpr std::chrono::seconds kShown{60};

// Of compactions that the disk does not let read. Tables gather meanwhile, and once there are many
// RocksDB lets writes wait for the compaction that tries again.
constexpr std::chrono::minutes kFirstPause{10};
constexpr std::chrono::minutes kLongestPause{24 * 60};

}  // namespace

Error Damage::Note(Error error) {
  if (error.code == ErrorCode::kIo) {
    MutexLock lock(mutex_);
    last_of_disk_ = error;
    disk_failed_at_ = clock_->Now();
    disk_failed_.store(true);
  }
  if (error.code != ErrorCode::kCorruption || met_.load()) return error;
  MutexLock lock(mutex_);
  if (met_.load()) return error;
  first_.code = error.code;
  first_.message = fmt::format(
      "store {0} is damaged: {1}; look at it with: larder verify --store {0}, then stop its owner "
      "and save what is sound with: larder verify --repair --store {0}",
      store_path_, error.message);
  met_.store(true);
  // Whoever meets the next one says so himself.
  if (logs_) spdlog::error("{}", first_.message);
  return error;
}

Result<void> Damage::Health() const {
  if (!met_.load() && !disk_failed_.load()) return {};
  MutexLock lock(mutex_);
  if (met_.load()) return tl::unexpected(first_);
  if (clock_->Now() - disk_failed_at_ < kShown) return tl::unexpected(last_of_disk_);
  return {};
}

void Damage::PauseCompactions(const Error& error) {
  MutexLock lock(mutex_);
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  paused_until_ = clock_->Now() + pause_;
  if (!logs_) return;
  spdlog::error("store {}: {}; it is not compacted for {} minutes", store_path_, error.message,
                pause_.count());
}

bool Damage::KeepsFromCompacting() const {
  if (met_.load()) return true;
  MutexLock lock(mutex_);
  return pause_.count() != 0 && clock_->Now() < paused_until_;
}

void Damage::OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) {
  const bool compaction = reason == rocksdb::BackgroundErrorReason::kCompaction;
  if (compaction && error->IsCorruption()) {
    (void)Note(FromRocks(*error, "compacting"));
    *error = rocksdb::Status::OK();
  } else if (compaction && IsTableReadError(*error)) {
    PauseCompactions(Note(FromRocks(*error, "compacting")));
    *error = rocksdb::Status::OK();
  } else if (!compaction && error->IsIOError() && !error->IsNoSpace()) {
    // No lock of the store's may be taken here: whoever closes the database holds one and waits for
    // this thread.
    MutexLock lock(mutex_);
    background_ = FromRocks(*error, fmt::format("cannot write to the store {}", store_path_));
    background_failed_.store(true);
  }
}

std::optional<Error> Damage::BackgroundFailure() const {
  if (!background_failed_.load()) return std::nullopt;
  MutexLock lock(mutex_);
  return background_;
}

std::optional<Error> Damage::TakeBackgroundFailure() {
  if (!background_failed_.load() || !background_failed_.exchange(false)) return std::nullopt;
  MutexLock lock(mutex_);
  return background_;
}

}  // namespace larder
