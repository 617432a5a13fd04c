// One soak: a simulated server that churns, a controller that is restarted now and then, samples of
// what it costs, and the verdict.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace larder::soak {

struct RunOptions {
  double seconds = 180;
  double rate = 2000;  // changes a second
  uint64_t objects = 5000;
  double restart_every = 300;  // seconds; every second one is a kill -9
  double warm_up = 60;         // seconds of each life that are not judged
  double sample_every = 1;     // seconds
  double bound_percent = 5;    // growth an hour that is still called flat
  bool judge_lives = false;    // what grows within lives, also where these are short
  uint64_t seed = 1;
  // For the programme's own test: the server forgets its history then, in seconds; 0: never.
  double expire_after = 0;
  std::string directory{};  // for the store
  std::string csv{};        // where the samples go; empty: nowhere
  std::string program{};    // this one
};

struct Sample {
  double seconds = 0;  // since the start
  double age = 0;      // of the process
  int life = 0;
  uint64_t rss_bytes = 0;
  uint64_t anonymous_bytes = 0;  // of these: not of files
  uint64_t cached_bytes = 0;     // of these: caches and memtables, which have a bound of their own
  uint64_t heap_bytes = 0;       // allocated and not freed, caches included
  uint64_t disk_bytes = 0;
  uint64_t rows = 0;  // that wait for the handler that hangs
  uint64_t objects = 0;
  uint64_t threads = 0;
  uint64_t files = 0;
  uint64_t changes = 0;  // that the server made so far
  uint64_t behind = 0;   // versions from there to the controller's cursor
};

// What is wrong; empty: all is flat, and the last process came to rest. Says on stdout what it
// finds.
std::vector<std::string> RunSoak(const RunOptions& options);

}  // namespace larder::soak
