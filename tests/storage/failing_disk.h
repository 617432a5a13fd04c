// A disk that fails where a test wants it to: writes or syncs of the log, or reads of a table, for
// as long as it says so.
//
// Thread-safe. Must outlive the stores on it.
//
//   FailingDisk disk;
//   auto store = OpenStoreOnEnv(options, disk.env());
//   disk.FailLogSyncs(1);                  // the next one
//   disk.FailLogWritesWith("durable-names");  // each that has this text, until it is called with
//   ""
#pragma once

#include <memory>
#include <string>

namespace rocksdb {
class Env;
}

namespace larder::testing {

class FailingDisk {
 public:
  FailingDisk();
  ~FailingDisk();
  rocksdb::Env* env() const { return env_.get(); }

  void FailLogSyncs(int times);
  void FailLogWritesWith(const std::string& text);
  // Each read of the file with this name, until it is called with "".
  void FailReadsOf(const std::string& name);
  // The next one that has this text waits until LetGo; AwaitHeld returns once it does.
  void HoldLogWriteWith(const std::string& text);
  void AwaitHeld();
  void LetGo();
  // How often it did.
  int failures() const;

 private:
  class Files;
  std::shared_ptr<Files> files_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace larder::testing
