// larder as one of the peers: the programs of bench/peers all take the same commands and print the
// same form (docs/benchmarks.md), so that one script can run any of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "client/transport.h"

namespace larder::bench {

struct SyncArguments {
  std::string kubeconfig;
  std::string store;     // empty: a temporary one
  std::string until;     // also wait until a pod with this mark was heard of
  uint64_t handled = 0;  // and until the handler was called so often: keys may come in any order
  std::string follow;    // go on after the sync, until a pod with this mark was heard of
  double hold = 0;       // seconds between synced and the measurement of steady memory
  double rounds = 1;     // of reads
  bool json = false;     // ask for no protobuf
  bool strip = false;    // keep no managedFields
  // Half of the simulator's pods of this size are in the hot tier then; 64 MiB is the default.
  size_t memory_mib = 64;
};

// First sync or restart, and what a following stream of events costs.
void Sync(const SyncArguments& arguments);
// Synced, then reads.
void Reads(const SyncArguments& arguments);
// Cycles of Add, Get, Done.
void QueueCycles(int cycles, int threads);

// Without a limit of requests: a benchmark is no tenant.
std::unique_ptr<HttpTransport> Connect(const std::string& kubeconfig);

// Seconds since whoever started this process did so (BENCH_START, nanoseconds since 1970).
double SinceStart();
double Now();  // seconds since 1970
// One line of the shared form.
void PrintLine(const nlohmann::ordered_json& line);

// Bytes received by all TCP connections of this process, those that were closed included as far as
// they were seen: the kernel is asked often.
class ReceivedBytes {
 public:
  ReceivedBytes();
  uint64_t Total();

 private:
  void Look();

  std::mutex mutex_;
  std::map<uint64_t, uint64_t> by_socket_;  // inode to bytes
  std::jthread thread_;
};

}  // namespace larder::bench
