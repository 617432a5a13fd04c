// The controller that the demo kills: an informer on pods, a durable queue, workers that journal.
//
// A process of its own. Prints one JSON line when it is ready and one every tenth of a second.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

namespace larder::tools {

struct WorkerOptions {
  std::string store;
  std::string server;
  std::string journal;
  int workers = 4;
  // What reconciling one object takes: the demo's stand-in for real work.
  int work_microseconds = 400;
  // Ready means synced and caught up with this version, where one is given.
  std::string until_version;
};

int RunWorker(const WorkerOptions& options, const std::stop_token& stop);

// The name of the worker's queue in the store.
inline constexpr char kDemoQueue[] = "demo";

}  // namespace larder::tools
