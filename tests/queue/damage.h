// A queue's records on a disk that fails, or with bytes that are not what was written.
#pragma once

#include <memory>
#include <string>

namespace rocksdb {
class Env;
}

namespace larder::testing {

// Writes a record of a queue that cannot be read. REQUIRES: nobody has the store open.
void PutDamagedQueueRecord(const std::string& store, const std::string& queue,
                           const std::string& item, uint64_t generation);

// Fails every read of a table while it is told to. Thread-safe. Must outlive the stores on it.
class UnreadableDisk {
 public:
  UnreadableDisk();
  ~UnreadableDisk();
  rocksdb::Env* env() const { return env_.get(); }

  void FailReads(bool fail);
  // How often it did.
  int failures() const;

 private:
  class Files;
  std::shared_ptr<Files> files_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace larder::testing
