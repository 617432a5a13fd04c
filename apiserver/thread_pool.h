// httplib's task queue with threads that are made when needed: a simulator in a unit test has two
// of them, one with 200 watches has 200.
//
// Where all are busy a few connections wait here. Whoever would queue more waits for room, and does
// not accept another one meanwhile: each takes a descriptor, and the kernel holds those that come.
#pragma once

#include <httplib.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace larder::apiserver {

class ThreadPool final : public httplib::TaskQueue {
 public:
  static constexpr size_t kMaxWaiting = 64;

  explicit ThreadPool(size_t max_threads) : max_threads_(max_threads) {}
  ~ThreadPool() override { shutdown(); }

  void enqueue(std::function<void()> task) override;
  // Runs what is queued, then joins.
  void shutdown() override;

 private:
  void Run();

  const size_t max_threads_;
  Mutex mutex_;
  std::condition_variable_any ready_;  // there is something to run
  std::condition_variable_any room_;   // there is room for more
  std::deque<std::function<void()>> tasks_ LARDER_GUARDED_BY(mutex_);
  size_t idle_ LARDER_GUARDED_BY(mutex_) = 0;
  bool stopping_ LARDER_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::apiserver
