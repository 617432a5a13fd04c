// What is known of reads that failed: damage in a store's files, and a disk that does not give
// them. Internal to storage/.
//
// A block whose checksum is wrong fails every read of it, and nothing else. The first one is
// remembered and shown (Store::Health) until the store is opened anew, after a repair. An error of
// the disk may pass, and is shown for a while only.
//
// RocksDB answers a compaction that meets a block which is damaged, or which the disk does not
// give, by refusing every write from then on. These failures are kept from it: a compaction that
// failed has changed nothing. But the next one would meet the same block: so there is none until
// the damage is repaired, or, because an error of the disk may pass, for a while that doubles each
// time.
//
// A flush that the disk failed may have left a log half synced. RocksDB's log must not be touched
// again then (a build with assertions aborts), so the store must hear of it before its next sync.
//
// Thread-safe.
#pragma once

#include <rocksdb/listener.h>

#include <atomic>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"

namespace larder {

class Damage final : public rocksdb::EventListener {
 public:
  // `logs`: whether the first one is said in the log, too. A command that only reads says it
  // itself.
  Damage(std::string store_path, bool logs, Clock* clock)
      : store_path_(std::move(store_path)), logs_(logs), clock_(clock) {}

  // Remembers a failed read, where it is one of these; returns the error.
  Error Note(Error error);
  // Is there damage?
  bool met() const { return met_.load(); }
  // The first damage, with what to do about it, or an error of the disk that was just now.
  Result<void> Health() const;

  // Would a compaction only fail again?
  bool KeepsFromCompacting() const;

  // RocksDB's own threads failed to write since the last TakeBackgroundFailure; nullopt: no.
  std::optional<Error> BackgroundFailure() const;
  std::optional<Error> TakeBackgroundFailure();

  const char* Name() const override { return "larder.Damage"; }
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;

 private:
  void PauseCompactions(const Error& error);

  const std::string store_path_;
  const bool logs_;
  Clock* const clock_;
  std::atomic<bool> met_{false};
  std::atomic<bool> disk_failed_{false};
  std::atomic<bool> background_failed_{false};
  mutable Mutex mutex_;
  Error first_ LARDER_GUARDED_BY(mutex_);
  Error last_of_disk_ LARDER_GUARDED_BY(mutex_);
  Error background_ LARDER_GUARDED_BY(mutex_);
  Clock::Steady disk_failed_at_ LARDER_GUARDED_BY(mutex_){};
  std::chrono::minutes pause_ LARDER_GUARDED_BY(mutex_){0};  // of compactions; 0: none yet
  Clock::Steady paused_until_ LARDER_GUARDED_BY(mutex_){};
};

}  // namespace larder
