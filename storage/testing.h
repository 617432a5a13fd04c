// For tests that break the disk: opens a store on a RocksDB environment of the test's own.
#pragma once

#include <memory>

#include "storage/store.h"

namespace rocksdb {
class Env;
}

namespace larder {

// `env` must outlive the store.
Result<std::unique_ptr<Store>> OpenStoreOnEnv(const StoreOptions& options, rocksdb::Env* env);

}  // namespace larder
