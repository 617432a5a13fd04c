// Secrets without a key: in memory, and nowhere else.
#include <gmock/gmock.h>

#include <fstream>

#include "queue/work_queue.h"
#include "schema/resource.h"
#include "tests/informer/fixture.h"

namespace larder {
namespace {

class KeylessSecretsTest : public InformerTest {
 protected:
  void SetUp() override {
    InformerTest::SetUp();
    ASSERT_TRUE(simulator_->Create(
        "secrets", R"({"metadata":{"name":"s","namespace":"x"},"data":{"k":"Y2FuYXJ5"}})"));
  }
  // A process: its handler and its queue.
  void Start() {
    InformerOptions options;
    options.resource = *LookupResource("secrets");
    OpenParts();
    auto opened = SharedInformer::Open(Context(), std::move(options));
    ASSERT_TRUE(opened) << opened.error().ToString();
    informer_ = *std::move(opened);
    handler_ = std::make_shared<RecordingHandler>();
    HandlerOptions durable;
    durable.durable_name = "watcher";
    ASSERT_TRUE(informer_->AddEventHandler(handler_, durable));
    WorkQueueOptions work;
    work.name = "secrets";
    work.store = store_.get();
    queue_ = *WorkQueue::Open(std::move(work));
    EnqueuerOptions enqueuer;
    enqueuer.name = "secrets";
    ASSERT_TRUE(informer_->AddEnqueuer(queue_.get(), enqueuer,
                                       [](const ObjectChange& change, const Enqueue& enqueue) {
                                         enqueue(change.current()->key().ToString(), 0);
                                       }));
    Sync();
  }
  void End() {
    informer_.reset();
    queue_.reset();
    Close();
  }
  bool OnDisk(const std::string& text) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)), {});
      if (bytes.find(text) != std::string::npos) return true;
    }
    return false;
  }

  std::shared_ptr<RecordingHandler> handler_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(KeylessSecretsTest, AreServedFromMemoryAndListedAtEveryStart) {
  for (uint64_t start = 1; start <= 2; ++start) {
    Start();
    const auto secret = informer_->GetIndexer().GetByKey({"x", "s"});
    ASSERT_TRUE(secret) << secret.error().ToString();
    EXPECT_EQ((*secret)->ToMutable()["data"]["k"], "Y2FuYXJ5");
    EXPECT_EQ(simulator_->StatsOf("secrets").lists, start);
    EXPECT_TRUE(handler_->WaitFor([](const auto& heard) { return heard.Count("add x/s") == 1; }));
    const auto item = queue_->Get({});
    ASSERT_TRUE(item);
    EXPECT_EQ(*item, "x/s");
    queue_->Done(*item);
    ASSERT_TRUE(store_->Sync());
    EXPECT_TRUE(store_->Collections()->empty());
    End();
    EXPECT_FALSE(OnDisk("Y2FuYXJ5"));
    EXPECT_FALSE(OnDisk("canary"));
  }
}

TEST_F(KeylessSecretsTest, WhatTheyCauseIsOnDisk) {
  Start();
  while (queue_->Len() == 0) std::this_thread::yield();
  ASSERT_TRUE(queue_->Flush());
  const auto items_in = [](const Store& store) {
    size_t items = 0;
    EXPECT_TRUE(store.ScanQueue("secrets", {}, [&items](const StoredQueueItem&) {
      ++items;
      return true;
    }));
    return items;
  };
  EXPECT_EQ(items_in(*store_), 1u);
  EXPECT_EQ(items_in(**store_->KeeperOf(*LookupResource("secrets"))), 0u);
  End();
}

}  // namespace
}  // namespace larder
