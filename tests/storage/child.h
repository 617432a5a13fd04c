// A running storage_child, with its input and output.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace larder::testing {

class Child {
 public:
  Child(const std::string& mode, const std::string& path, const std::string& more = {});
  // Kills it where it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // The next line it prints; empty at the end of its output.
  std::string ReadLine();
  void Kill();
  // Closes its input and waits; returns its exit code, or minus the signal that ended it.
  int Wait();

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  int output_ = -1;
  std::string buffer_;
};

}  // namespace larder::testing
