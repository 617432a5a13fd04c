// A program of ours as a child process: started, signalled, waited for.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace larder {

class ChildProgram {
 public:
  // Its output goes to `log`, appended. `environment` is added to our own.
  ChildProgram(const std::string& path, const std::vector<std::string>& arguments,
               const std::string& log,
               const std::vector<std::pair<std::string, std::string>>& environment = {});
  // Kills it.
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  void Signal(int signal) const;
  void Kill();
  // The exit status, or 128 + signal.
  int Wait();
  bool Running();

 private:
  pid_t pid_ = -1;
  int status_ = 0;
};

// A port that nobody listens on now.
int FreePort();

}  // namespace larder
