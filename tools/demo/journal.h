// What the demo's workers saw, one line for each reconcile, written before the work is
// acknowledged.
//
// A line is "key version" or "key deleted". It reaches the kernel before Append returns, so kill -9
// loses none.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/error.h"

namespace larder::tools {

class Journal {
 public:
  static Result<Journal> Open(const std::string& path);
  Journal(Journal&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  ~Journal();

  // Thread-safe: one write for each line.
  Result<void> Append(std::string_view key, std::string_view what);

  static constexpr std::string_view kDeleted = "deleted";

  struct Reading {
    std::map<std::string, std::string> last;  // key → what was written last
    size_t lines = 0;
  };
  static Result<Reading> Read(const std::string& path, size_t from_line = 0);

 private:
  explicit Journal(int file) : file_(file) {}
  int file_;
};

}  // namespace larder::tools
