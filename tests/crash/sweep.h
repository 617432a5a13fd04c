// Operation 1, 2, 3, ... of a kind fails, once or for good, in one short scenario after the other:
// a process opens a store, lists, takes some events, closes it, opens it again, takes some more.
//
// One that failed once must not keep the process from coming to rest, or from saying why it does
// not begin. One that goes on failing is followed by the process's end, in good order or by a kill,
// and by a process on a sound disk that comes to rest. A kind is at its end when the scenario does
// not have so many operations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace larder::crash {

// append, sync, rename, open, read.
inline constexpr const char* kSweptOperations[] = {"append", "sync", "rename", "open", "read"};

struct SweepOptions {
  std::vector<std::string> operations{};
  uint64_t seed = 1;
  // Every so many-th operation; those that fail once and those that fail for good are others.
  int stride = 1;
  int only = 0;  // this one alone; 0: all
  int jobs = 2;  // scenarios at a time
  std::string directory{};
  std::string program{};  // this program, for the process whose disk fails
  std::string mutant{};
};

struct SweepResult {
  int runs = 0;
  int refused = 0;                       // processes that did not begin, with an error
  std::map<std::string, int> reached{};  // how many operations of a kind the scenario has
  std::map<std::string, int> aborts{};   // assertions of RocksDB's
  std::vector<std::string> violations{};
  std::string plan{};  // of the violations
};

// Ends soon after the first violation; `directory` has its store and its journal.
SweepResult RunSweep(const SweepOptions& options);

}  // namespace larder::crash
