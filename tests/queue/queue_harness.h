// What the tests of queue/ share: a store in a temporary directory, and queues on it that can be
// killed.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "queue/work_queue.h"
#include "queue/work_queue_impl.h"
#include "storage/store.h"

namespace larder {

// Looks behind WorkQueue: ends it without its last write.
class WorkQueueTestPeer {
 public:
  static void Kill(std::unique_ptr<WorkQueue> queue) { queue->impl_->Abandon(); }
};

class TempStore {
 public:
  explicit TempStore(Clock* clock = RealClock()) : clock_(clock) {
    std::string path = (std::filesystem::temp_directory_path() / "larder-queue-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
    Reopen();
  }
  ~TempStore() {
    store_.reset();
    std::filesystem::remove_all(path_);
  }
  TempStore(const TempStore&) = delete;
  TempStore& operator=(const TempStore&) = delete;

  void Reopen() {
    store_.reset();
    StoreOptions options;
    options.path = path_ + "/store";
    options.clock = clock_;
    auto store = Store::Open(options);
    EXPECT_TRUE(store) << store.error().ToString();
    store_ = std::move(*store);
  }
  Store* get() const { return store_.get(); }
  Store* operator->() const { return store_.get(); }
  Store& operator*() const { return *store_; }

 private:
  Clock* const clock_;
  std::string path_;
  std::unique_ptr<Store> store_;
};

// A queue that writes when it is told to: no thread, no surprise.
inline WorkQueueOptions ManualOptions(Store* store, Clock* clock) {
  WorkQueueOptions options;
  options.name = "test";
  options.store = store;
  options.flush_interval = std::chrono::milliseconds(0);
  options.clock = clock;
  return options;
}

inline std::unique_ptr<WorkQueue> OpenQueue(WorkQueueOptions options) {
  auto queue = WorkQueue::Open(std::move(options));
  EXPECT_TRUE(queue) << queue.error().ToString();
  return std::move(*queue);
}

// What is on disk for the queue "test", oldest generation first within an item.
inline std::vector<StoredQueueItem> Stored(const Store& store) {
  std::vector<StoredQueueItem> items;
  const auto scanned = store.ScanQueue("test", {}, [&items](const StoredQueueItem& item) {
    items.push_back(item);
    return true;
  });
  EXPECT_TRUE(scanned) << scanned.error().ToString();
  return items;
}

constexpr WorkQueue::Duration kNoWait{0};

}  // namespace larder
