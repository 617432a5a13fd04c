// A larder that runs beside the test, and is stopped at its end.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace larder {

class Background {
 public:
  // Waits for the first line on its stdout.
  explicit Background(const std::vector<std::string>& arguments);
  // SIGTERM, and waits.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // "http://127.0.0.1:1234".
  const std::string& line() const { return line_; }
  void Signal(int signal) const;
  // Ends it; its exit code.
  int Stop(int signal);

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string line_;
};

}  // namespace larder
