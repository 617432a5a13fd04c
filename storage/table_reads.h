// Marks what a disk says to a read of a table, so that it can be told from what it says to a write.
// Internal to storage/.
//
// RocksDB tells of a compaction that failed, and not which of its files failed it. One that could
// not read what it was to merge has harmed nothing; one that could not write may be the first to
// meet a disk that takes nothing any more.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/status.h>

#include <memory>

namespace larder {

// `env` must outlive it.
std::unique_ptr<rocksdb::Env> MakeTableReadsEnv(rocksdb::Env* env);

// Did the disk fail to give a part of a table? Not where there is no room, nor for damage.
bool IsTableReadError(const rocksdb::Status& status);

}  // namespace larder
