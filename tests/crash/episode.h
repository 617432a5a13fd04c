// One store and one simulated cluster through a number of crashes, then to rest.
//
// Everything that is chosen is chosen from the seed; how far the threads of the broken process get
// before it breaks is not.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace larder::crash {

struct EpisodeOptions {
  std::string mode{};  // kill, power, io, full, flip
  std::string file{};  // flip: which kind of file; empty: any
  uint64_t seed = 1;
  int runs = 10;              // crashes
  bool fail_at_rest = false;  // io, full: the disk fails under the process that comes to rest, too
  std::string mutant{};
  std::string directory{};  // empty when the episode begins
  std::string store{};  // a path where nothing is; the disk that is to be full, else in `directory`
  std::string program{};  // this program, for the process that is broken
};

struct EpisodeResult {
  int runs = 0;
  int injected = 0;  // runs in which what the mode does came to pass
  int refused = 0;   // flip: damage that was answered with an error
  int lived = 0;     // flip: processes that ran on a damaged store and came to rest
  int emptied = 0;   // flip: stores that could not be repaired, and were begun anew
  // Where the crashes were: points of the disk at which a process ended, or at which the disk
  // failed, files that were damaged; states of the collection.
  std::map<std::string, int> met;
  // How often a process was to meet such a point, whether or not it did; and the forms of a store.
  std::map<std::string, int> planned;
  // Assertions of RocksDB's that ended a process whose disk failed.
  std::map<std::string, int> aborts;
  std::vector<std::string> violations;
  std::string crash;  // the last one, in words
};

// The names of two forms of a store among what was met: rows that only a dictionary makes readable,
// and encrypted ones.
inline constexpr const char* kDictionaryMet = "rows by a dictionary";
inline constexpr const char* kEncryptionMet = "encrypted rows";

// Ends at the first crash with a violation; `directory` has the journal. Of the store and its copy
// (store.found) one is as the crash left it, the other as it was after it was opened.
EpisodeResult RunEpisode(const EpisodeOptions& options);

}  // namespace larder::crash
