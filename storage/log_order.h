// Keeps the order of RocksDB's logs when the power goes. Internal to storage/.
//
// Commits go to one log until the memtables are full, then to the next. Nothing is synced at that
// moment, and a file system may keep what was written to the newer log and lose the end of the
// older one. Recovery notices a record that was cut in the middle, but not a log that ends behind a
// whole one: it would go on with the newer log, and commits would be missing in the middle of the
// stream. So a log is made only once all earlier ones are synced, those of an earlier process
// included, which has left them to the operating system when it was killed.
//
// Costs no sync: RocksDB syncs the same log when it flushes the memtables, and is told then that
// there is nothing left to do.
//
// A log whose sync failed stays in doubt, because the operating system may have dropped what it
// could not write, and call the next sync a success: no further log is made, and the database must
// be opened again. A file in its directory says so to a process that comes later: it reads the log
// from memory, as if all of it were on the disk.
//
// Thread-safe.
#pragma once

#include <rocksdb/env.h>

#include <memory>

namespace larder {

// Its being there means that a log is in doubt. Who opens the database must have all that the logs
// hold written as tables before there is another log, and then remove it.
inline constexpr const char* kDoubtFile = "log-in-doubt";

// For one database, which it must outlive, as `env` must outlive it.
std::unique_ptr<rocksdb::Env> MakeLogOrderEnv(rocksdb::Env* env);

}  // namespace larder
