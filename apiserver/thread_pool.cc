#include "apiserver/thread_pool.h"

#include <utility>

namespace larder::apiserver {

void ThreadPool::enqueue(std::function<void()> task) {
  MutexLock lock(mutex_);
  room_.wait(mutex_,
             [&]() LARDER_REQUIRES(mutex_) { return stopping_ || tasks_.size() < kMaxWaiting; });
  tasks_.push_back(std::move(task));
  if (tasks_.size() > idle_ && threads_.size() < max_threads_) {
    threads_.emplace_back([this] { Run(); });
  }
  ready_.notify_one();
}

void ThreadPool::shutdown() {
  std::vector<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  ready_.notify_all();
  room_.notify_all();
}

void ThreadPool::Run() {
  MutexLock lock(mutex_);
  while (true) {
    ++idle_;
    ready_.wait(mutex_, [&]() LARDER_REQUIRES(mutex_) { return stopping_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    room_.notify_one();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace larder::apiserver
