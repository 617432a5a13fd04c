// Runs the built `larder` as a person would, and keeps what it printed.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace larder {

struct Outcome {
  int exit_code = -1;  // 128 + signal where one ended it
  std::string out;
  std::string err;
  std::chrono::milliseconds after_signal{0};  // how long it lived on
};

struct RunOptions {
  // Send this signal after `signal_after`; 0: none.
  int signal = 0;
  std::chrono::milliseconds signal_after{0};
  // Or as soon as what it printed makes this true (after 30 s in any case).
  std::function<bool(const std::string& out)> stop_when{};
  // Stop reading its output after so many bytes; 0: read all.
  size_t close_stdout_after = 0;
  // What it reads; added to the environment: "NAME=value".
  std::string input{};
  std::vector<std::string> environment{};
  // Another program instead of larder.
  std::string program{};
};

Outcome RunLarder(const std::vector<std::string>& arguments, const RunOptions& options = {});

// A directory that is removed at the end.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace larder
