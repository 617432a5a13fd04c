// Notices a manifest that has lost its end, or is damaged where RocksDB takes that for its end.
// Internal to storage/.
//
// RocksDB's manifest lists the tables, as a log of changes. Cut off behind any record it reads as a
// whole, older one, and so it does where a flipped bit makes its last record seem longer than the
// file; but the logs of what was flushed since are gone, so commits would be missing in the middle
// of the stream, without a word. So its length and a checksum are written down beside it (in the
// file `manifest-length`) when a flush or a compaction is complete, before RocksDB removes the
// logs. That is not synced: what is lost or old only notices less.
//
// Thread-safe.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>

#include <string>

#include "base/error.h"
#include "base/mutex.h"

namespace larder {

class ManifestGuard final : public rocksdb::EventListener {
 public:
  ManifestGuard(rocksdb::Env* env, std::string store_path);

  // kCorruption where the manifest is shorter than it was, or not what it was so far. Before the
  // database is opened.
  static Result<void> Check(rocksdb::Env* env, const std::string& store_path);
  // Writes down how much of it is synced by now: what a compaction is just appending may be lost
  // with the power, and is not missed.
  void Note(rocksdb::DB& db);

  const char* Name() const override { return "larder.ManifestGuard"; }
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo&) override { Note(*db); }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo&) override {
    Note(*db);
  }

 private:
  rocksdb::Env* const env_;
  const std::string store_path_;
  Mutex mutex_;
  std::string noted_ LARDER_GUARDED_BY(mutex_);  // what the file says
};

}  // namespace larder
