// A handler's own bookkeeping, without an informer around it.
#include <fmt/format.h>

#include <atomic>
#include <future>
#include <map>
#include <random>

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

// A durable handler, and the collection's commits as an informer makes them.
class PendingRowsTest : public ListenerTest {
 protected:
  void SetUp() override {
    ListenerTest::SetUp();
    ASSERT_TRUE(names_->Remember("slow", 1));
  }

  // As at the start of a process. With a buffer of 0 everything spills.
  std::shared_ptr<Listener> Restart(const std::shared_ptr<EventHandler>& handler,
                                    size_t buffer_events = 0) {
    HandlerOptions options;
    options.durable_name = "slow";
    options.buffer_events = buffer_events;
    auto listener = std::make_shared<Listener>(indexer_.get(), names_.get(), handler, options,
                                               "slow", RealClock());
    EXPECT_TRUE(listener->Open(/*complete=*/true));
    return listener;
  }

  static ObjectPtr Pod(const std::string& name, int version = 7) {
    return *Object::Parse(fmt::format(
        R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{0}","namespace":"x","uid":"{0}","resourceVersion":"{1}"}}}})",
        name, version));
  }
  void Add(Listener& listener, const std::string& name) {
    const auto writer = indexer_->BeginWrite();
    ASSERT_TRUE(writer->Upsert(Pod(name), *indexer_->Prepare(*Pod(name))));
    Commit(listener, *writer, {ChangeType::kAdded, nullptr, Pod(name), false, false});
  }
  void Update(Listener& listener, const std::string& name, int version) {
    const auto writer = indexer_->BeginWrite();
    const auto change =
        *writer->Upsert(Pod(name, version), *indexer_->Prepare(*Pod(name, version)));
    Commit(listener, *writer, {ChangeType::kUpdated, change.old, Pod(name, version), false, false});
  }
  void Delete(Listener& listener, const std::string& name) {
    const auto writer = indexer_->BeginWrite();
    ASSERT_TRUE(writer->Delete(Pod(name)->key(), {}, {}));
    Commit(listener, *writer, {ChangeType::kDeleted, Pod(name), nullptr, false, false});
  }
  void Commit(Listener& listener, Indexer::Writer& writer, const ObjectChange& change) {
    ASSERT_TRUE(listener.Stage(writer, change));
    ASSERT_TRUE(writer.Commit(Durability::kRelaxed));
    listener.Publish(/*committed=*/true);
  }
  size_t Stored() { return *PendingDeltas(indexer_.get(), "slow").Count(); }

  const std::shared_ptr<RecordingHandler> handler_ = std::make_shared<RecordingHandler>();
};

TEST_F(PendingRowsTest, ADeleteThatNobodySawIsStillInferredWhenTheObjectIsBack) {
  const auto listener = Restart(handler_, /*buffer_events=*/2);
  Add(*listener, "a");  // through memory, beside the end of the first list
  {
    const auto writer = indexer_->BeginWrite();
    ASSERT_TRUE(writer->Delete(Pod("a")->key(), {}, {}));
    Commit(*listener, *writer, {ChangeType::kDeleted, Pod("a"), nullptr, false, true});
  }
  Add(*listener, "a");
  Update(*listener, "a", 9);
  listener->Start();
  while (listener->Stats().rows != 0) std::this_thread::yield();
  EXPECT_EQ(handler_->Calls(),
            (std::vector<std::string>{"add x/a", "delete x/a inferred", "add x/a"}));
}

TEST_F(PendingRowsTest, WhatComesAndGoesUnheardLeavesNoRow) {
  const auto listener = Restart(handler_);
  Add(*listener, "stays");
  for (int round = 0; round < 3; ++round) {
    Add(*listener, "a");
    EXPECT_EQ(listener->Stats().rows, 2U);
    Delete(*listener, "a");
    EXPECT_EQ(Stored(), 1U);
    EXPECT_EQ(listener->Stats().rows, 1U);
  }
}

// A page of large objects would be more memory than all buffers.
TEST_F(PendingRowsTest, FewRowsAreReadAtATimeWhereTheirObjectsAreLarge) {
  const auto listener = Restart(handler_);
  for (char name = 'a'; name <= 'j'; ++name) {
    const auto writer = indexer_->BeginWrite();
    const ObjectPtr pod = *Object::Parse(fmt::format(
        R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{}","namespace":"x","uid":"u","resourceVersion":"7","annotations":{{"a":"{}"}}}}}})",
        name, std::string(100'000, 'x')));
    ASSERT_TRUE(writer->Upsert(pod, *indexer_->Prepare(*pod)));
    Commit(*listener, *writer, {ChangeType::kAdded, nullptr, pod, false, false});
  }
  const PendingDeltas rows(indexer_.get(), "slow");
  const auto read = [&](const ObjectKey& after, size_t max_bytes) {
    auto page = rows.Read(indexer_->TakeView(), after, 256, max_bytes);
    EXPECT_TRUE(page);
    return *std::move(page);
  };
  EXPECT_LT(read({}, 250'000).size(), 4U);
  EXPECT_EQ(read({}, size_t{1} << 30).size(), 10U);
  std::string heard;
  for (ObjectKey after;;) {
    const auto page = read(after, 0);
    if (page.empty()) break;
    ASSERT_EQ(page.size(), 1U);
    after = page[0].key;
    heard += after.name;
  }
  EXPECT_EQ(heard, "abcdefghij");
}

TEST_F(PendingRowsTest, WhatComesBeforeARestartAndGoesAfterItLeavesNoRowEither) {
  Add(*Restart(handler_), "a");
  ASSERT_EQ(Stored(), 1U);
  const auto listener = Restart(handler_);
  Delete(*listener, "a");
  EXPECT_EQ(Stored(), 0U);
  EXPECT_EQ(listener->Stats().rows, 0U);
  listener->Start();
  while (listener->Stats().spilling) std::this_thread::yield();
  EXPECT_EQ(handler_->Calls().size(), 0U);
}

// Told, but not acknowledged, when the process ends: the next one must tell of the delete.
TEST_F(PendingRowsTest, TheDeleteOfWhatMayHaveBeenHeardIsKept) {
  std::promise<void> told, release;
  const auto hanging = std::make_shared<EventHandlerFuncs>();
  hanging->on_add = [&told, released = release.get_future().share()](const ObjectPtr&, bool) {
    told.set_value();
    released.wait();
  };
  {
    const auto listener = Restart(hanging);
    Add(*listener, "a");
    listener->Start();
    told.get_future().wait();
    EXPECT_FALSE(listener->Stop(RealClock()->Now())) << "it is left behind in the call";
  }
  const auto listener = Restart(handler_);
  Delete(*listener, "a");
  EXPECT_EQ(Stored(), 1U);
  listener->Start();
  EXPECT_TRUE(handler_->WaitFor([](const auto& h) { return h.Count("delete x/a") == 1; }));
  release.set_value();
}

// A row that went through memory may have been heard, too.
TEST_F(PendingRowsTest, TheDeleteOfWhatWentThroughMemoryIsKept) {
  Add(*Restart(handler_, /*buffer_events=*/8), "a");
  ASSERT_EQ(Stored(), 1U);
  const auto listener = Restart(handler_);
  Delete(*listener, "a");
  EXPECT_EQ(Stored(), 1U);
  listener->Start();
  EXPECT_TRUE(handler_->WaitFor([](const auto& h) { return h.Count("delete x/a") == 1; }));
}

// The buffer holds the end of the first list and the add; the update spills.
TEST_F(PendingRowsTest, AnUpdateThatSpillsBehindAnAddInMemoryIsToldAsAnUpdate) {
  const auto listener = Restart(handler_, /*buffer_events=*/2);
  Add(*listener, "a");
  Update(*listener, "a", 8);
  Update(*listener, "a", 9);
  ASSERT_TRUE(listener->Stats().spilling);
  listener->Start();
  while (listener->Stats().rows != 0) std::this_thread::yield();
  EXPECT_EQ(handler_->Calls(), (std::vector<std::string>{"add x/a", "update x/a 7→9"}));
}

// Whether the add was heard nobody can know any more.
TEST_F(PendingRowsTest, ToTheNextProcessItIsStillAnAdd) {
  {
    const auto listener = Restart(handler_, /*buffer_events=*/2);
    Add(*listener, "a");
    Update(*listener, "a", 8);
  }
  const auto listener = Restart(handler_);
  listener->Start();
  while (listener->Stats().rows != 0) std::this_thread::yield();
  EXPECT_EQ(handler_->Calls(), (std::vector<std::string>{"add x/a"}));
  EXPECT_EQ(handler_->Last("x/a"), "8");
}

// The acknowledgement is tried again; a change that comes before finds the row where it was.
TEST_F(PendingRowsTest, AnAcknowledgementThatFailedLeavesTheRowWhereItWas) {
  const auto listener = Restart(handler_, /*buffer_events=*/8);
  Add(*listener, "a");
  disk_.FailLogWritesWith("slow");
  listener->Start();
  while (!listener->Stats().error) std::this_thread::yield();
  disk_.FailLogWritesWith("");
  handler_->Block();
  Update(*listener, "a", 8);
  EXPECT_EQ(listener->Stats().rows, 1U);
  handler_->Unblock();
  EXPECT_TRUE(handler_->WaitFor([](const auto& h) { return h.Count("update x/a 7→8") == 1; }));
}

// Adds, updates, deletes, commits that fail, times when the handler keeps up, is behind, catches up
// or is not there: in the end it knows what is stored, and nothing waits for it.
TEST_F(PendingRowsTest, WhateverHappensTheHandlerEndsWithWhatIsStored) {
  const uint64_t seed = testing::Seed();
  std::mt19937_64 random(seed);
  std::map<std::string, int> truth;  // name and version
  size_t buffer_events = 0;
  auto listener = Restart(handler_, buffer_events);
  const auto drain = [&] {
    listener->Start();
    while (listener->Stats().rows != 0 || listener->Stats().buffered != 0) {
      std::this_thread::yield();
    }
    listener->Stop();
  };
  for (int version = 10; version < 1500; ++version) {
    const std::string name(1, static_cast<char>('a' + random() % 6));
    const auto known = truth.find(name);
    const bool fails = random() % 10 == 0;
    {
      const auto writer = indexer_->BeginWrite();
      ObjectChange change;
      if (known != truth.end() && random() % 3 == 0) {
        const auto done = *writer->Delete({"x", name}, {}, {});
        // As a server tells it: at a version of its own.
        change = {ChangeType::kDeleted, Pod(name, version), nullptr, false, false, done.old};
        if (!fails) truth.erase(known);
      } else {
        const auto done =
            *writer->Upsert(Pod(name, version), *indexer_->Prepare(*Pod(name, version)));
        change = {done.old ? ChangeType::kUpdated : ChangeType::kAdded, done.old,
                  Pod(name, version), false, false};
        if (!fails) truth[name] = version;
      }
      ASSERT_TRUE(listener->Stage(*writer, change));
      if (!fails) {
        ASSERT_TRUE(writer->Commit(Durability::kRelaxed));
      }
      listener->Publish(/*committed=*/!fails);
    }
    ASSERT_EQ(listener->Stats().rows, Stored()) << "seed " << seed << ", version " << version;
    if (random() % 40 == 0) {
      if (random() % 2 == 0) drain();
      buffer_events = random() % 3 * 4;
      listener = Restart(handler_, buffer_events);
    }
  }
  listener = Restart(handler_);
  drain();
  EXPECT_EQ(Stored(), 0U);
  for (char name = 'a'; name < 'g'; ++name) {
    const auto known = truth.find(std::string(1, name));
    const std::string heard = handler_->Last("x/" + std::string(1, name));
    EXPECT_EQ(heard.empty() ? "deleted" : heard,
              known == truth.end() ? "deleted" : std::to_string(known->second))
        << name << ", seed " << seed;
  }
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
