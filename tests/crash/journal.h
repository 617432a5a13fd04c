// What a consumer saw, written before it acknowledges, and read by the oracle: one line a record,
// one write a line. A process that cannot write it dies before it acknowledges.
//
//   S CLUSTER                      a process started
//   H CLUSTER add|update|delete KEY VERSION HASH OLD    a handler was called: OLD is the version
//                                  that an update began with, 0 of the others
//   W CLUSTER KEY VERSION HASH     a worker looked at an item: version 0 for one that was gone
//   F CLUSTER KEY VERSION HASH     a relist fetched a single object, and this is what it got
//   L CLUSTER                      it asked for a list of all pods
//   Y CLUSTER VERSION              the store was at this version, and was synced behind that
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace larder::crash {

struct JournalLine {
  char kind = 0;
  std::string cluster;
  std::string type;  // of H
  std::string key;
  uint64_t version = 0;
  uint64_t hash = 0;  // of the object's JSON
  uint64_t old = 0;   // of H
};

// The object's JSON in a number, as in the simulator's history.
uint64_t HashOf(std::string_view json);

// Thread-safe: a line is one write to a file opened for appending.
class Journal {
 public:
  explicit Journal(const std::string& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void Started(std::string_view cluster);
  void Handled(std::string_view cluster, std::string_view type, std::string_view key,
               std::string_view version, uint64_t hash, std::string_view old);
  void Worked(std::string_view cluster, std::string_view key, std::string_view version,
              uint64_t hash);
  void Fetched(std::string_view cluster, std::string_view key, std::string_view version,
               uint64_t hash);
  void Listed(std::string_view cluster);
  void Synced(std::string_view cluster, std::string_view version);

 private:
  void Write(std::string line);

  int file_;
};

// All lines of a journal. A last line without its end was not written.
std::vector<JournalLine> ReadJournal(const std::string& path);

}  // namespace larder::crash
