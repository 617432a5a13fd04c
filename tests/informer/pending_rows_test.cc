// What waits on disk for a handler that is behind, and how it is told.
#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <random>

#include "tests/informer/listener_fixture.h"

namespace larder {
namespace {

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
      if (random() % 2 == 0) Drain(*listener);
      buffer_events = random() % 3 * 4;
      listener = Restart(handler_, buffer_events);
    }
  }
  listener = Restart(handler_);
  Drain(*listener);
  EXPECT_EQ(Stored(), 0U);
  for (char name = 'a'; name < 'g'; ++name) {
    const auto known = truth.find(std::string(1, name));
    const std::string heard = handler_->Last("x/" + std::string(1, name));
    EXPECT_EQ(heard.empty() ? "deleted" : heard,
              known == truth.end() ? "deleted" : std::to_string(known->second))
        << name << ", seed " << seed;
  }
}

// The update spills behind one that is in memory, and is told first.
TEST_F(PendingRowsTest, AnUpdateBehindOneThatWasToldBeginsWithWhatWasTold) {
  Know(handler_, "a");
  const auto listener = Restart(handler_, /*buffer_events=*/2);
  Update(*listener, "a", 8);
  Update(*listener, "a", 9);
  ASSERT_TRUE(listener->Stats().spilling);
  Drain(*listener);
  EXPECT_EQ(handler_->Calls(),
            (std::vector<std::string>{"add x/a", "update x/a 7→8", "update x/a 8→9"}));
}

// A handler that compares old and new would miss the way back.
TEST_F(PendingRowsTest, AnUpdateWhileARowIsToldBeginsWithThatRow) {
  Know(handler_, "a");
  std::shared_ptr<Listener> listener;
  std::vector<std::string> updates;
  const auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_update = [&](const ObjectPtr& old, const ObjectPtr& now) {
    updates.push_back(fmt::format("{}→{}", old->resource_version(), now->resource_version()));
    if (now->resource_version() == "8") Update(*listener, "a", 9);
  };
  listener = Restart(handler);
  Update(*listener, "a", 8);
  Drain(*listener);
  EXPECT_EQ(updates, (std::vector<std::string>{"7→8", "8→9"}));
}

// The add is acknowledged at the stop, so to the next process, too, it is an update.
TEST_F(PendingRowsTest, AnAddThatChangesWhileItIsToldIsAnUpdateFromThen) {
  std::shared_ptr<Listener> listener;
  const auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_add = [&](const ObjectPtr&, bool) {
    Update(*listener, "a", 8);
    listener->RequestStop();
  };
  listener = Restart(handler);
  Add(*listener, "a");
  listener->Start();
  while (listener->Stats().delivered == 0) std::this_thread::yield();
  listener->Stop();
  Drain(*Restart(handler_));
  EXPECT_EQ(handler_->Calls(), (std::vector<std::string>{"update x/a 7→8"}));
}

TEST_F(PendingRowsTest, ARowThatCouldNotBeAcknowledgedIsNotToldTwice) {
  Know(handler_, "a");
  std::vector<std::string> updates;
  const auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_update = [&](const ObjectPtr& old, const ObjectPtr& now) {
    updates.push_back(fmt::format("{}→{}", old->resource_version(), now->resource_version()));
    if (updates.size() == 1) disk_.FailLogWritesWith("slow");
  };
  const auto listener = Restart(handler);
  Update(*listener, "a", 8);
  listener->Start();
  while (!listener->Stats().error) std::this_thread::yield();
  disk_.FailLogWritesWith("");
  Update(*listener, "a", 9);
  while (listener->Stats().rows != 0) std::this_thread::yield();
  listener->Stop();
  EXPECT_EQ(updates, (std::vector<std::string>{"7→8", "8→9"}));
}

// Its last call may end after the next one of its name has come.
TEST_F(PendingRowsTest, WhoIsForgottenTouchesNoRowOfTheNextOfItsName) {
  const auto forgotten = Restart(handler_);
  Add(*forgotten, "a");
  ASSERT_TRUE(forgotten->Forget());
  ASSERT_TRUE(names_->Remember("slow", 1));
  const auto next = Restart(std::make_shared<RecordingHandler>());
  Add(*next, "b");
  ASSERT_TRUE(forgotten->DeliverWaiting({}));
  EXPECT_EQ(handler_->Calls().size(), 0U);
  EXPECT_EQ(Stored(), 1U);
}

// A handler that is told of a change causes the next one, so that rows never end.
class EndlessRowsTest : public PendingRowsTest {
 protected:
  std::shared_ptr<EventHandlerFuncs> Handler() {
    auto handler = std::make_shared<EventHandlerFuncs>();
    handler->on_add = [this](const ObjectPtr& object, bool initial) {
      if (initial) ++initial_;
      Change(*object);
    };
    handler->on_update = [this](const ObjectPtr&, const ObjectPtr& now) { Change(*now); };
    return handler;
  }
  bool Eventually(const std::function<bool()>& holds) {
    return handler_->WaitFor([&](const auto&) { return holds(); });
  }

  std::shared_ptr<Listener> listener_;
  std::atomic<int> initial_ = 0;
  std::atomic<bool> enough_ = false;

 private:
  void Change(const Object& object) {
    if (enough_ || object.name() != "a") return;
    Update(*listener_, "a", std::stoi(std::string(object.resource_version())) + 1);
  }
};

TEST_F(EndlessRowsTest, AStreamHasItsTurnWhileRowsComeWithoutEnd) {
  ASSERT_TRUE(names_->Forget("slow"));
  for (char name = 'a'; name <= 'z'; ++name) {
    const auto writer = indexer_->BeginWrite();
    const ObjectPtr pod = Pod(std::string(1, name));
    ASSERT_TRUE(writer->Upsert(pod, *indexer_->Prepare(*pod)));
    ASSERT_TRUE(writer->Commit(Durability::kRelaxed));
  }
  listener_ = Restart(Handler(), /*buffer_events=*/1);
  listener_->Start();
  EXPECT_TRUE(Eventually([&] { return initial_ == 26; }));
  EXPECT_TRUE(Eventually([&] { return listener_->HasSynced(); }));
  EXPECT_EQ(names_->Revision("slow"), 1U) << "and a restart goes on from here";
  enough_ = true;
  EXPECT_TRUE(Eventually([&] { return listener_->Stats().rows == 0; }));
  listener_->Stop();
}

TEST_F(EndlessRowsTest, AFirstListEndsBehindTheRowsThatStoodThen) {
  enough_ = true;
  Know(Handler(), "a");
  enough_ = false;
  listener_ = Restart(Handler());
  Update(*listener_, "a", 8);
  listener_->Start();
  EXPECT_TRUE(Eventually([&] { return listener_->HasSynced(); }));
  enough_ = true;
  listener_->Stop();
}

// Changes before and while the handler is told, through memory and from rows, by one process after
// the other.
TEST_F(PendingRowsTest, WhateverHappensOldIsWhatTheHandlerHeardLast) {
  const uint64_t seed = testing::Seed();
  std::mt19937_64 random(seed);
  std::shared_ptr<Listener> listener;
  std::map<std::string, int> heard, truth;  // name and version
  std::vector<std::string> wrong;
  int version = 10;
  const auto change = [&] {
    const std::string name(1, static_cast<char>('a' + random() % 6));
    if (truth.count(name) == 0) {
      Add(*listener, name, ++version);
      truth[name] = version;
    } else if (random() % 8 == 0) {
      Delete(*listener, name, ++version);
      truth.erase(name);
    } else {
      Update(*listener, name, ++version);
      truth[name] = version;
    }
  };
  // `old`: 0 of an add. `now`: 0 of a delete.
  const auto hear = [&](const std::string& name, int old, int now) {
    const auto last = heard.find(name);
    if (old != (last == heard.end() ? 0 : last->second)) {
      wrong.push_back(fmt::format("{}: {}→{} after {}", name, old, now,
                                  last == heard.end() ? 0 : last->second));
    }
    heard.erase(name);
    if (now != 0) heard[name] = now;
    if (random() % 3 == 0) change();
  };
  const auto version_of = [](const ObjectPtr& object) {
    return std::stoi(std::string(object->resource_version()));
  };
  const auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_add = [&](const ObjectPtr& object, bool) {
    hear(std::string(object->name()), 0, version_of(object));
  };
  handler->on_update = [&](const ObjectPtr& old, const ObjectPtr& now) {
    hear(std::string(now->name()), version_of(old), version_of(now));
  };
  // It brings the last state there was, which is newer than the one that was heard. It may come
  // twice, but not behind what followed it.
  handler->on_delete = [&](const ObjectPtr& last, bool) {
    const std::string name(last->name());
    const auto known = heard.find(name);
    if (known != heard.end() && known->second > version_of(last)) {
      wrong.push_back(
          fmt::format("{}: gone at {} after {}", name, version_of(last), known->second));
    }
    hear(name, known == heard.end() ? 0 : known->second, 0);
  };
  for (int round = 0; round < 500; ++round) {
    if (round % 10 == 0) listener = Restart(handler, random() % 3 * 2);
    for (uint64_t changes = random() % 8; changes > 0; --changes) change();
    ASSERT_TRUE(listener->DeliverWaiting({}));
  }
  while (Stored() != 0 || listener->Stats().buffered != 0) {
    ASSERT_TRUE(listener->DeliverWaiting({}));
  }
  EXPECT_EQ(wrong, std::vector<std::string>{}) << "seed " << seed;
  EXPECT_EQ(heard, truth) << "seed " << seed;
}

}  // namespace
}  // namespace larder
