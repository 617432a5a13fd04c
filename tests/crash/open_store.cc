#include "tests/crash/open_store.h"

#include <chrono>
#include <thread>

namespace larder::crash {

StoreOptions StoreAt(const std::string& path, const std::string& key_file) {
  StoreOptions options;
  options.path = path;
  options.memory_limit = size_t{8} << 20;
  options.encryption_key_file = key_file;
  if (!key_file.empty()) options.encrypted_resources = {"pods"};
  return options;
}

Result<std::unique_ptr<Store>> OpenWhenFree(const StoreOptions& options) {
  for (int attempt = 0;; ++attempt) {
    auto store = Store::Open(options);
    if (store || store.error().code != ErrorCode::kLocked || attempt == 5000) return store;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace larder::crash
