// Queue items that changes cause: in the change's own commit, once for each name, and none lost.
#include <set>

#include "tests/informer/fixture.h"

namespace larder {
namespace {

class EnqueuerTest : public InformerTest {
 protected:
  void TearDown() override {
    CloseQueue();
    InformerTest::TearDown();
  }
  void OpenWithQueue(uint32_t revision = 1) {
    Open();
    AddQueue(revision);
  }
  void AddQueue(uint32_t revision) {
    WorkQueueOptions options;
    options.name = "work";
    options.store = store_.get();
    options.durability = durability_;
    auto queue = WorkQueue::Open(std::move(options));
    ASSERT_TRUE(queue) << queue.error().ToString();
    queue_ = *std::move(queue);
    EnqueuerOptions enqueuer;
    enqueuer.name = "work";
    enqueuer.revision = revision;
    enqueuer.always_initial = always_initial_;
    const auto added = informer_->AddEnqueuer(
        queue_.get(), enqueuer, [](const ObjectChange& change, const Enqueue& enqueue) {
          enqueue(change.current()->key().ToString(), 0);
        });
    ASSERT_TRUE(added) << added.error().ToString();
  }
  void CloseQueue() {
    if (informer_) informer_->Stop();
    informer_.reset();
    queue_.reset();
    Close();
  }
  // Takes and finishes everything that is ready.
  std::set<std::string> Drain() {
    std::set<std::string> items;
    while (const auto item = queue_->Get({}, std::chrono::milliseconds(200))) {
      items.insert(*item);
      queue_->Done(*item);
    }
    return items;
  }
  std::set<std::string> Stored() const {
    std::set<std::string> items;
    EXPECT_TRUE(store_->ScanQueue("work", {}, [&](const StoredQueueItem& item) {
      items.insert(item.item);
      return true;
    }));
    return items;
  }

  Durability durability_ = Durability::kRelaxed;
  bool always_initial_ = false;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(EnqueuerTest, EveryCommittedChangeHasItsItemOnDisk) {
  CreatePod("a");
  OpenWithQueue();
  Sync();
  CreatePod("b");
  CatchUp();
  EXPECT_EQ(Stored(), (std::set<std::string>{"x/a", "x/b"}));
}

TEST_F(EnqueuerTest, PendingItemsComeBackAndFinishedOnesDoNot) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  OpenWithQueue();
  Sync();
  const auto item = queue_->Get({}, std::chrono::seconds(5));
  ASSERT_TRUE(item);
  queue_->Done(*item);
  CloseQueue();
  OpenWithQueue();
  Sync();
  std::set<std::string> rest = Drain();
  EXPECT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest.count(*item), 0u);
}

TEST_F(EnqueuerTest, RestartBringsOnlyWhatChangedMeanwhile) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  OpenWithQueue();
  Sync();
  EXPECT_EQ(Drain().size(), 3u);
  CloseQueue();
  TouchPod("a");
  DeletePod("b");
  OpenWithQueue();
  Sync();
  CatchUp();
  EXPECT_EQ(Drain(), (std::set<std::string>{"x/a", "x/b"}));
}

TEST_F(EnqueuerTest, RaisedRevisionGetsEveryObjectOnce) {
  for (const char* name : {"a", "b"}) CreatePod(name);
  OpenWithQueue();
  Sync();
  EXPECT_EQ(Drain().size(), 2u);
  CloseQueue();
  OpenWithQueue(2);
  Sync();
  EXPECT_EQ(Drain().size(), 2u);
  CloseQueue();
  OpenWithQueue(2);
  Sync();
  EXPECT_EQ(Drain().size(), 0u);
}

TEST_F(EnqueuerTest, OneThatIsAlwaysGivenEverythingIsGivenTheDeletesThatWereKeptToo) {
  always_initial_ = true;
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  OpenWithQueue();
  Sync();
  CatchUp();
  EXPECT_EQ(Drain().size(), 3u);
  CloseQueue();
  OpenWithQueue();
  Sync();
  EXPECT_EQ(Drain().size(), 3u);
  CloseQueue();
  Open();
  Sync();
  DeletePod("b");
  CatchUp();
  AddQueue(1);
  EXPECT_EQ(Drain(), (std::set<std::string>{"x/a", "x/b", "x/c"}));
}

TEST_F(EnqueuerTest, EverythingAtOnceIsSyncedAtOnce) {
  durability_ = Durability::kSync;
  constexpr uint64_t kPods = 20;
  for (uint64_t i = 0; i < kPods; ++i) CreatePod("p" + std::to_string(i));
  Open();
  Sync();
  CatchUp();
  AddQueue(1);
  EXPECT_EQ(Stored().size(), kPods);
  // The queue's own thread may have written some of them before.
  EXPECT_LT(queue_->Counters().flushes, kPods / 2);
}

// The raised revision is added after the delete was committed and kept.
TEST_F(EnqueuerTest, RaisedRevisionGetsWhatWasKeptForTheNameBefore) {
  for (const char* name : {"a", "b"}) CreatePod(name);
  OpenWithQueue();
  Sync();
  EXPECT_EQ(Drain().size(), 2u);
  CloseQueue();
  DeletePod("a");
  Open();
  Sync();
  CatchUp();
  AddQueue(2);
  EXPECT_EQ(Drain(), (std::set<std::string>{"x/a", "x/b"}));
}

TEST_F(EnqueuerTest, EnqueuerAddedAfterTheStartMissesNothing) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  OpenWithQueue();
  Sync();
  CatchUp();
  EXPECT_EQ(Drain().size(), 3u);
  CloseQueue();
  TouchPod("a");
  DeletePod("b");
  Open();
  Sync();
  CreatePod("d");
  CatchUp();
  AddQueue(1);
  EXPECT_EQ(Drain(), (std::set<std::string>{"x/a", "x/b", "x/d"}));
}

TEST_F(EnqueuerTest, OneThatCouldNotBeAddedMayBeAddedAgain) {
  CreatePod("a");
  Open();
  Sync();
  CatchUp();
  const auto closed = WorkQueue::Open({.name = "closed"});
  ASSERT_TRUE(closed);
  (*closed)->ShutDown();
  const auto added = informer_->AddEnqueuer(closed->get(), {.name = "work"},
                                            [](const ObjectChange& change, const Enqueue& enqueue) {
                                              enqueue(change.current()->key().ToString(), 0);
                                            });
  EXPECT_FALSE(added);
  AddQueue(1);
  EXPECT_EQ(Drain(), std::set<std::string>{"x/a"});
}

TEST_F(EnqueuerTest, OneWithoutAQueueIsRefused) {
  Open();
  EXPECT_EQ(informer_->AddEnqueuer(nullptr, {.name = "work"}, {}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST_F(EnqueuerTest, ANameThatCouldNotBeWrittenIsWrittenWithTheNextCommit) {
  CreatePod("a");
  OpenWithQueue();
  disk_.FailLogWritesWith("durable-names");
  Sync();
  while (disk_.failures() == 0) std::this_thread::yield();
  disk_.FailLogWritesWith("");
  CreatePod("b");
  CatchUp();
  EXPECT_EQ(Drain().size(), 2u);
  CloseQueue();
  OpenWithQueue();
  Sync();
  EXPECT_EQ(Drain().size(), 0u) << "the name is known: nothing changed since";
}

TEST_F(EnqueuerTest, EnqueuerThatThrowsDoesNotEndTheStream) {
  OpenWithQueue();
  EnqueuerOptions options;
  options.name = "faulty";
  ASSERT_TRUE(informer_->AddEnqueuer(
      queue_.get(), options,
      [](const ObjectChange&, const Enqueue&) { throw std::runtime_error("asked to throw"); }));
  EXPECT_EQ(informer_->AddEnqueuer(queue_.get(), options, {}).error().code,
            ErrorCode::kAlreadyExists);
  Sync();
  CreatePod("a");
  CatchUp();
  EXPECT_EQ(Drain(), std::set<std::string>{"x/a"});
}

TEST_F(EnqueuerTest, AnItemThatIsTooLongKeepsNoOtherOut) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  OpenWithQueue();
  Sync();
  EXPECT_EQ(Drain().size(), 3u);
  // All that is stored, then a change.
  EnqueuerOptions options;
  options.name = "long";
  const auto added = informer_->AddEnqueuer(
      queue_.get(), options, [](const ObjectChange& change, const Enqueue& enqueue) {
        const std::string key = change.current()->key().ToString();
        enqueue(key == "x/b" ? std::string(70'000, 'b') : "long " + key, 0);
      });
  ASSERT_TRUE(added) << added.error().ToString();
  EXPECT_EQ(Drain(), (std::set<std::string>{"long x/a", "long x/c"}));
  TouchPod("b");
  TouchPod("c");
  CatchUp();
  EXPECT_EQ(Drain(), (std::set<std::string>{"x/b", "x/c", "long x/c"}));
}

TEST_F(EnqueuerTest, LiveChangesGoBeforeTheFirstList) {
  for (int i = 0; i < 5; ++i) CreatePod("p" + std::to_string(i));
  OpenWithQueue();
  Sync();
  CreatePod("live");
  CatchUp();
  EXPECT_EQ(queue_->Get({}, std::chrono::seconds(5)), "x/live");
}

}  // namespace
}  // namespace larder
