#include "tests/crash/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace larder::crash {

namespace {

// Where the last whole line ends. What follows is of a process that died while it wrote, or for
// which the disk had no room.
off_t WholeLines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return static_cast<off_t>(text.rfind('\n') + 1);  // npos + 1 is 0
}

}  // namespace

Journal::Journal(const std::string& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  // The next line must not become the end of half a line.
  if (file_ < 0 || ::ftruncate(file_, WholeLines(path)) != 0) std::abort();
}

Journal::~Journal() { ::close(file_); }

void Journal::Write(std::string line) {
  line += '\n';
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

void Journal::Started(std::string_view cluster) { Write(fmt::format("S {}", cluster)); }

void Journal::Handled(std::string_view cluster, std::string_view type, std::string_view key,
                      std::string_view version, uint64_t hash, std::string_view old) {
  Write(fmt::format("H {} {} {} {} {} {}", cluster, type, key, version, hash, old));
}

void Journal::Worked(std::string_view cluster, std::string_view key, std::string_view version,
                     uint64_t hash) {
  Write(fmt::format("W {} {} {} {}", cluster, key, version, hash));
}

void Journal::Fetched(std::string_view cluster, std::string_view key, std::string_view version,
                      uint64_t hash) {
  Write(fmt::format("F {} {} {} {}", cluster, key, version, hash));
}

void Journal::Listed(std::string_view cluster) { Write(fmt::format("L {}", cluster)); }

void Journal::Synced(std::string_view cluster, std::string_view version) {
  Write(fmt::format("Y {} {}", cluster, version));
}

uint64_t HashOf(std::string_view json) { return XXH3_64bits(json.data(), json.size()); }

std::vector<JournalLine> ReadJournal(const std::string& path) {
  std::vector<JournalLine> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text) && !file.eof();) {
    std::istringstream in(text);
    JournalLine line;
    in >> line.kind >> line.cluster;
    if (line.kind == 'H') in >> line.type;
    if (line.kind == 'Y') {
      in >> line.version;
    } else if (line.kind != 'S' && line.kind != 'L') {
      in >> line.key >> line.version >> line.hash;
    }
    if (line.kind == 'H') in >> line.old;
    if (in) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace larder::crash
