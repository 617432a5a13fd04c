// A RocksDB environment that counts what reaches the files: by kind, in bytes and syncs. Internal
// to storage/.
#pragma once

#include <rocksdb/env.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace larder {

struct FileCounts {
  std::atomic<uint64_t> log_bytes{0};
  std::atomic<uint64_t> table_bytes{0};  // tables and blob files
  std::atomic<uint64_t> other_bytes{0};  // manifests and the like
  std::atomic<uint64_t> syncs{0};
  std::atomic<uint64_t> tables{0};  // made
};

// `counts` must outlive the environment.
std::unique_ptr<rocksdb::Env> MakeCountingEnv(FileCounts* counts);

}  // namespace larder
