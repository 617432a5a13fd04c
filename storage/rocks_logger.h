// What RocksDB has to say, in the program's own log. Internal to storage/.
//
// RocksDB's own LOG file lies beside the tables: on a full disk writing to it fails too, and a
// RocksDB built with assertions (Debian's is) then ends the process.
#pragma once

#include <rocksdb/env.h>

#include <memory>

namespace larder {

// Warnings and errors only.
std::shared_ptr<rocksdb::Logger> MakeRocksLogger();

}  // namespace larder
