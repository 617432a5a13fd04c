// The work queue, durable.
#include <string>
#include <thread>
#include <vector>

#include "bench/peers/larder/peer.h"
#include "bench/support.h"
#include "queue/work_queue.h"

namespace larder::bench {

void QueueCycles(int cycles, int threads) {
  const TempDir dir;
  const auto store = OrDie(Store::Open({.path = dir.Store()}));
  WorkQueueOptions options;
  options.name = "bench";
  options.store = store.get();
  const auto queue = OrDie(WorkQueue::Open(std::move(options)));
  const int each = cycles / threads;
  std::vector<std::vector<std::string>> keys(static_cast<size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    for (int i = 0; i < each; ++i) {
      keys[static_cast<size_t>(t)].push_back("namespace-" + std::to_string(t) + "/pod-" +
                                             std::to_string(10'000'000 + i));
    }
  }
  const auto start = SteadyClock::now();
  {
    std::vector<std::jthread> workers;
    workers.reserve(keys.size());
    for (const std::vector<std::string>& mine : keys) {
      workers.emplace_back([&queue, &mine] {
        for (const std::string& key : mine) {
          OrDie(queue->Add(key));
          queue->Done(*queue->Get());
        }
      });
    }
  }
  PrintLine({{"peer", "larder"}, {"cycles_per_second", each * threads / SecondsSince(start)}});
}

}  // namespace larder::bench
