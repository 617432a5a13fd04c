// A process of our own program, started by the demo: its stdout is read line by line.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"

namespace larder::tools {

class Child {
 public:
  // Runs this very program with other arguments.
  static Result<std::unique_ptr<Child>> Start(const std::vector<std::string>& arguments);
  // Kills it if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // The next line of its stdout. kUnavailable when it ended, kTimeout, kCancelled.
  Result<std::string> ReadLine(std::chrono::milliseconds timeout, const std::stop_token& stop);
  // SIGKILL: no chance to clean up. Returns when it is gone.
  void Kill();
  // SIGTERM, and waits for it to end.
  Result<void> Terminate(std::chrono::milliseconds timeout);

 private:
  Child(pid_t pid, int output) : pid_(pid), output_(output) {}

  pid_t pid_;
  int output_;
  std::string buffer_;
};

}  // namespace larder::tools
