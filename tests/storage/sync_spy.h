// Sees every fsync and fdatasync of this process, RocksDB's included. One at a time.
//
//   SyncSpy spy([&](const std::string& path) { synced.insert(path); });
#pragma once

#include <functional>
#include <string>

namespace larder::testing {

class SyncSpy {
 public:
  // `synced` is called on whichever thread syncs, before it does.
  explicit SyncSpy(std::function<void(const std::string& path)> synced);
  ~SyncSpy();
  SyncSpy(const SyncSpy&) = delete;
  SyncSpy& operator=(const SyncSpy&) = delete;
};

}  // namespace larder::testing
