// Runs a program to its end and returns what it printed.
//
// argv goes to the program as it is: no shell. Its standard input and error are /dev/null, it
// inherits no open files but those three, and it leads a process group of its own, so that ending
// it ends its children too.
//
// Thread-safe. Blocks the caller until the program ended, its time is over, it printed too much, or
// a stop was requested; in the last three cases its whole group is killed. Always reaps the child.
//
//   Result<std::string> out = RunProgram({.argv = {"/usr/bin/login", "--json"}}, stop);
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace larder {

struct ProgramSpec {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH unless it has a '/'
  std::vector<std::pair<std::string, std::string>> env;  // added to our environment, or replacing
  std::chrono::milliseconds timeout{60'000};
  size_t max_output_bytes = size_t{1} << 20;
};

// kNotFound: no such program; kTimeout; kCancelled; kInvalidArgument: it printed too much; kIo: it
// could not be started, exited with another status than 0 or was killed. Messages do not show its
// output.
Result<std::string> RunProgram(const ProgramSpec& spec, const std::stop_token& stop);

}  // namespace larder
