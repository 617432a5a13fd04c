// A disk inside the process that can die: from then on nothing that is written reaches it, and
// after a power loss neither does what was not synced.
//
// Everything that a store does to an environment goes through here; underneath is a real directory.
// Thread-safe. Must outlive the stores on it.
//
//   VolatileDisk disk;
//   auto store = OpenStoreOnEnv(options, disk.env());
//   disk.Die();  store->reset();            // as if the process had been killed
//   disk.Revive(VolatileDisk::Loss::kPower, random);   // or as if the power had gone
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>

namespace larder::simulation {

class VolatileDisk {
 public:
  enum class Loss { kProcess, kPower };

  VolatileDisk();
  ~VolatileDisk();
  rocksdb::Env* env() const { return env_.get(); }

  void Die();
  // REQUIRES: no store is open. Cuts files off where a power loss would have.
  void Revive(Loss loss, std::mt19937_64& random);

 private:
  class Files;
  std::shared_ptr<Files> files_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace larder::simulation
