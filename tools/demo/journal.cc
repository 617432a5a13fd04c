#include "tools/demo/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace larder::tools {

Result<Journal> Journal::Open(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    return MakeError(ErrorCode::kIo, "cannot write {}: {}", path, std::strerror(errno));
  }
  return Journal(file);
}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

Result<void> Journal::Append(std::string_view key, std::string_view what) {
  std::string line(key);
  line += ' ';
  line += what;
  line += '\n';
  // One write with O_APPEND: lines of several workers do not mix.
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return MakeError(errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
                     "cannot write to the journal: {}", std::strerror(errno));
  }
  return {};
}

Result<Journal::Reading> Journal::Read(const std::string& path, size_t from_line) {
  std::ifstream file(path);
  if (!file) return MakeError(ErrorCode::kIo, "cannot read {}", path);
  Reading reading;
  for (std::string line; std::getline(file, line); ++reading.lines) {
    const size_t space = line.find(' ');
    if (space == std::string::npos || reading.lines < from_line) continue;
    reading.last[line.substr(0, space)] = line.substr(space + 1);
  }
  return reading;
}

}  // namespace larder::tools
