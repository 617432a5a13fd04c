// A disk inside the process that can die: from then on nothing that is written reaches it, and
// after a power loss neither does what was not synced. Or it fails for a moment and goes on.
//
// A power loss takes from each file a part of what was not synced, and of the names that were made,
// moved and removed since a directory was synced the last few: a file system with a journal keeps
// these in order.
//
// Everything that a store does to an environment goes through here; underneath is a real directory.
// RocksDB's background work runs in lock-step (lockstep_env.h), so that a disk which dies in the
// middle of a flush dies at the same operation every time.
// Thread-safe. Must outlive the stores on it.
//
//   VolatileDisk disk;
//   auto store = OpenStoreOnEnv(options, disk.env());
//   while (disk.RunOne()) {}                // a flush, a compaction
//   disk.Die();                             // as if the process had been killed
//   disk.LetGo();  store->reset();
//   disk.Revive(VolatileDisk::Loss::kPower, random);   // or as if the power had gone
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "tests/simulation/lockstep_env.h"

namespace larder::simulation {

class VolatileDisk {
 public:
  enum class Loss { kProcess, kPower };

  VolatileDisk();
  ~VolatileDisk();
  rocksdb::Env* env() const { return env_.get(); }

  // One piece of background work. False: none waits.
  bool RunOne() { return env_->RunOne(); }
  void Die();
  // Dies instead of the n-th operation (write, sync, new file, rename, removal) from now; 0: not.
  void DieInstead(int64_t operation);
  bool IsDead() const;
  // The n-th write or sync of a log, a manifest or what becomes CURRENT from now, while no
  // background work waits, returns an error, once; of a failed write half is there, and what a
  // failed sync did not write is never written, though it can be read until the power goes. 0: none
  // does. Not of a table: Debian's RocksDB may abort (docs/reliability.md).
  void FailIn(int64_t operations);
  // Has that happened since the last revival?
  bool HasFailed() const;
  // Before a store is closed, which waits for its background work. REQUIRES: dead, or nobody cares
  // for what is on it any more.
  void LetGo() { env_->LetGo(); }
  // REQUIRES: no store is open. Takes what a power loss would have taken.
  void Revive(Loss loss, std::mt19937_64& random);

 private:
  class Files;
  std::shared_ptr<Files> files_;
  std::unique_ptr<LockstepEnv> env_;
};

}  // namespace larder::simulation
