// A handler's own bookkeeping, without an informer around it.
#include <fmt/format.h>

#include "tests/informer/listener_fixture.h"

namespace larder {
namespace {

TEST_F(ListenerTest, ACommitThatFailedLeavesNoRowsToWaitFor) {
  HandlerOptions options;
  options.durable_name = "audit";
  const auto handler = std::make_shared<RecordingHandler>();
  Listener listener(indexer_.get(), names_.get(), handler, options, "audit", RealClock());
  ASSERT_TRUE(names_->Remember("audit", options.revision));
  ASSERT_TRUE(listener.Open(/*complete=*/true));
  const ObjectPtr pod = *Object::Parse(
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"x","uid":"u","resourceVersion":"7"}})");
  const ObjectChange added{ChangeType::kAdded, nullptr, pod, false, false};
  {
    const auto writer = indexer_->BeginWrite();
    ASSERT_TRUE(listener.Stage(*writer, added));
    listener.Publish(/*committed=*/false);
  }
  EXPECT_EQ(listener.Stats().rows, 0U);
  EXPECT_EQ(listener.Stats().buffered_bytes, 0U);
  {
    const auto writer = indexer_->BeginWrite();
    ASSERT_TRUE(listener.Stage(*writer, added));
    ASSERT_TRUE(writer->Commit(Durability::kRelaxed));
    listener.Publish(/*committed=*/true);
  }
  EXPECT_EQ(listener.Stats().rows, 1U);
  EXPECT_EQ(handler->Calls().size(), 0U) << "it was not started";
}

// A handler that spills is told of an update by a row that stands already. One whose commit failed
// does not stand.
TEST_F(ListenerTest, ARowThatWasNotCommittedIsWrittenByTheNextUpdate) {
  HandlerOptions options;
  options.durable_name = "slow";
  options.buffer_events = 0;  // everything spills
  const auto handler = std::make_shared<RecordingHandler>();
  Listener listener(indexer_.get(), names_.get(), handler, options, "slow", RealClock());
  ASSERT_TRUE(names_->Remember("slow", options.revision));
  ASSERT_TRUE(listener.Open(/*complete=*/true));
  const auto pod = [](int version) {
    return *Object::Parse(fmt::format(
        R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"a","namespace":"x","uid":"u","resourceVersion":"{}"}}}})",
        version));
  };
  const auto update = [&](int version, bool committed) {
    const auto writer = indexer_->BeginWrite();
    const ObjectChange change{ChangeType::kUpdated, pod(version - 1), pod(version), false, false};
    ASSERT_TRUE(listener.Stage(*writer, change));
    if (committed) {
      ASSERT_TRUE(writer->Commit(Durability::kRelaxed));
    }
    listener.Publish(committed);
  };
  const auto stored = [&] { return *PendingDeltas(indexer_.get(), "slow").Count(); };
  update(7, /*committed=*/false);
  EXPECT_EQ(stored(), 0U);
  update(8, /*committed=*/true);
  EXPECT_EQ(stored(), 1U);
  EXPECT_EQ(listener.Stats().rows, 1U);
  update(9, /*committed=*/true);
  EXPECT_EQ(stored(), 1U);
  EXPECT_EQ(listener.Stats().rows, 1U);
  EXPECT_EQ(listener.Stats().merged, 1U);
}

// A handler that is told of what is stored, while a commit fills its buffer and spills.
class SpillingCommitTest : public ListenerTest {
 protected:
  void SetUp() override {
    ListenerTest::SetUp();
    const auto writer = indexer_->BeginWrite();
    ASSERT_TRUE(writer->Upsert(Pod("first", 1), *indexer_->Prepare(*Pod("first", 1))));
    ASSERT_TRUE(writer->Commit(Durability::kRelaxed));
  }

  static ObjectPtr Pod(const std::string& name, int version) {
    return *Object::Parse(fmt::format(
        R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{0}","namespace":"x","uid":"{0}","resourceVersion":"{1}"}}}})",
        name, version));
  }

  // The handler is busy with what is stored when the commit begins, and done with it when `release`
  // says so: before the commit is published, or after it.
  void Run(bool released_before_publish) {
    HandlerOptions options;
    options.durable_name = "slow";
    options.buffer_events = 4;  // what is stored, its end, and two more
    const auto handler = std::make_shared<RecordingHandler>();
    Listener listener(indexer_.get(), names_.get(), handler, options, "slow", RealClock());
    ASSERT_TRUE(listener.Open(/*complete=*/true));
    handler->Block();
    listener.Start();
    while (listener.Stats().buffered < 2) std::this_thread::yield();
    {
      const auto writer = indexer_->BeginWrite();
      const auto stage = [&](const ObjectPtr& old, const ObjectPtr& now) {
        const ChangeType type = old ? ChangeType::kUpdated : ChangeType::kAdded;
        ASSERT_TRUE(writer->Upsert(now, *indexer_->Prepare(*now)));
        ASSERT_TRUE(listener.Stage(*writer, {type, old, now, false, false}));
      };
      stage(nullptr, Pod("a", 2));
      stage(nullptr, Pod("b", 3));
      stage(nullptr, Pod("c", 4));
      stage(Pod("a", 2), Pod("a", 5));
      if (released_before_publish) {
        handler->Unblock();
        // Told of it, the thread goes on to the rows, which the commit under way keeps from it.
        ASSERT_TRUE(
            handler->WaitFor([](const auto& h) { return h.Count("add x/first initial") == 1; }));
        for (int i = 0; i < 2000; ++i) std::this_thread::yield();
      }
      ASSERT_TRUE(writer->Commit(Durability::kRelaxed));
      listener.Publish(/*committed=*/true);
    }
    handler->Unblock();
    ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add x/c") == 1; }));
    while (listener.Stats().rows != 0 || listener.Stats().buffered != 0) std::this_thread::yield();
    EXPECT_TRUE(listener.HasSynced());
    EXPECT_EQ(handler->Calls(), (std::vector<std::string>{"add x/first initial", "add x/a",
                                                          "add x/b", "update x/a 2→5", "add x/c"}));
    EXPECT_EQ(handler->Last("x/a"), "5");
  }
};

TEST_F(SpillingCommitTest, WhatItBufferedIsToldBeforeWhatItSpilled) {
  Run(/*released_before_publish=*/false);
}

TEST_F(SpillingCommitTest, AlsoWhenTheThreadWaitsForItWithNothingBuffered) {
  Run(/*released_before_publish=*/true);
}

// A stored object that cannot be read ends a resync, and keeps nothing that came since from being
// told.
TEST_F(ListenerTest, ADamagedObjectThatAResyncMeetsKeepsNoChangeBack) {
  const auto pod = [](const std::string& name) {
    return *Object::Parse(fmt::format(
        R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{0}","namespace":"x","uid":"{0}","resourceVersion":"1"}}}})",
        name));
  };
  FakeClock clock;
  HandlerOptions options;
  options.durable_name = "audit";
  options.resync_period = std::chrono::minutes(1);
  const auto handler = std::make_shared<RecordingHandler>();
  Listener listener(indexer_.get(), names_.get(), handler, options, "audit", &clock);
  ASSERT_TRUE(names_->Remember("audit", options.revision));
  ASSERT_TRUE(listener.Open(/*complete=*/true));
  ASSERT_TRUE(listener.DeliverWaiting({}));
  ASSERT_TRUE(listener.HasSynced());
  clock.Advance(std::chrono::minutes(2));
  {
    const auto writer = indexer_->BeginWrite();
    ASSERT_TRUE(writer->Upsert(pod("a"), EncodedObject{{"x", "a"}, "not an object"}));
    ASSERT_TRUE(writer->Upsert(pod("b"), *indexer_->Prepare(*pod("b"))));
    ASSERT_TRUE(listener.Stage(*writer, {ChangeType::kAdded, nullptr, pod("b"), false, false}));
    ASSERT_TRUE(writer->Commit(Durability::kRelaxed));
    listener.Publish(/*committed=*/true);
  }
  const auto met = listener.DeliverWaiting({});
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::kCorruption);
  EXPECT_EQ(handler->Calls(), std::vector<std::string>{"add x/b"});
  EXPECT_EQ(listener.Stats().rows, 0U) << "and it is acknowledged";
  EXPECT_TRUE(listener.DeliverWaiting({})) << "until the next resync";
}

TEST_F(ListenerTest, ADurableNameThatCouldNotBeWrittenIsWrittenLater) {
  HandlerOptions options;
  options.durable_name = "audit";
  const auto handler = std::make_shared<RecordingHandler>();
  Listener listener(indexer_.get(), names_.get(), handler, options, "audit", RealClock());
  ASSERT_TRUE(listener.Open(/*complete=*/true));
  disk_.FailLogWritesWith("durable-names");
  listener.Start();
  while (disk_.failures() == 0) std::this_thread::yield();
  disk_.FailLogWritesWith("");
  const auto patience = RealClock()->Now() + std::chrono::minutes(1);
  while (!names_->Revision("audit") && RealClock()->Now() < patience) std::this_thread::yield();
  EXPECT_EQ(names_->Revision("audit"), options.revision);
  EXPECT_TRUE(listener.HasSynced());
}

}  // namespace
}  // namespace larder
