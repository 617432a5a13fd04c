// What is kept for a handler with a filter, while it is there and while it is not.
#include <fmt/format.h>

#include <atomic>
#include <future>
#include <map>
#include <random>

#include "tests/informer/listener_fixture.h"

namespace larder {
namespace {

// A handler that sees what is labelled "on", and is there or not.
class KeptRowsTest : public ListenerTest {
 protected:
  static bool IsOn(const Object& object) { return object.Label("on").has_value(); }
  static ObjectPtr Pod(const std::string& name, int version, bool on) {
    return *Object::Parse(fmt::format(
        R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{0}","namespace":"x","uid":"{0}","resourceVersion":"{1}"{2}}}}})",
        name, version, on ? R"(,"labels":{"on":""})" : ""));
  }

  void SetUp() override {
    ListenerTest::SetUp();
    ASSERT_TRUE(names_->Remember("late", 1));
    Leave();
  }
  void TearDown() override {
    listener_.reset();
    ListenerTest::TearDown();
  }

  // Nobody of the name is there.
  void Leave() {
    listener_.reset();
    absent_ = std::make_unique<PendingDeltas>(indexer_.get(), "late");
  }
  // Somebody is; with a buffer of 0 everything spills.
  void Come(const std::shared_ptr<EventHandler>& handler, size_t buffer_events = 0) {
    HandlerOptions options;
    options.durable_name = "late";
    options.buffer_events = buffer_events;
    options.filter = IsOn;
    absent_.reset();
    listener_ = std::make_shared<Listener>(indexer_.get(), names_.get(), handler, options, "late",
                                           RealClock());
    ASSERT_TRUE(listener_->Open(/*complete=*/true));
  }
  void Drain() {
    listener_->Start();
    while (listener_->Stats().rows != 0 || listener_->Stats().buffered != 0) {
      std::this_thread::yield();
    }
    listener_->Stop();
  }
  void Put(const std::string& name, bool on) {
    const auto writer = indexer_->BeginWrite();
    const ObjectPtr pod = Pod(name, ++version_, on);
    const auto done = *writer->Upsert(pod, *indexer_->Prepare(*pod));
    Commit(*writer, {done.old ? ChangeType::kUpdated : ChangeType::kAdded, done.old, pod});
  }
  // As a server tells it: at a version of its own, and with what changed just before.
  void Delete(const std::string& name, bool on) {
    const auto writer = indexer_->BeginWrite();
    const auto done = *writer->Delete({"x", name}, {}, {});
    Commit(*writer,
           {ChangeType::kDeleted, Pod(name, ++version_, on), nullptr, false, false, done.old});
  }
  void Commit(Indexer::Writer& writer, const ObjectChange& change) {
    if (listener_) {
      ASSERT_TRUE(listener_->Stage(writer, change));
    } else {
      ASSERT_TRUE(absent_->Merge(writer, change, /*only_on_disk=*/true, /*narrowed=*/false));
    }
    ASSERT_TRUE(writer.Commit(Durability::kRelaxed));
    if (listener_) listener_->Publish(/*committed=*/true);
  }
  // Calls of a handler that knows of "a" when it was on, and comes after `meanwhile`.
  std::vector<std::string> Hears(bool knows, const std::function<void()>& meanwhile) {
    const auto handler = std::make_shared<RecordingHandler>();
    version_ = 0;
    Put("a", knows);
    Come(handler);
    Drain();
    Leave();
    meanwhile();
    const size_t before = handler->Calls().size();
    Come(handler);
    Drain();
    Leave();
    EXPECT_EQ(*PendingDeltas(indexer_.get(), "late").Count(), 0U);
    const auto calls = handler->Calls();
    if (indexer_->GetByKey({"x", "a"})) Delete("a", true);
    EXPECT_TRUE(PendingDeltas(indexer_.get(), "late").Clear());
    return {calls.begin() + static_cast<ptrdiff_t>(before), calls.end()};
  }

  int version_ = 0;
  std::unique_ptr<PendingDeltas> absent_;
  std::shared_ptr<Listener> listener_;
};

TEST_F(KeptRowsTest, AreJudgedByWhatTheHandlerKnewAndWhatIsThereNow) {
  using Calls = std::vector<std::string>;
  const auto put = [this](bool on) { Put("a", on); };
  EXPECT_EQ(Hears(true, [&] { put(true); }), Calls{"update x/a 1→2"});
  EXPECT_EQ(Hears(true, [&] { put(false); }), Calls{"delete x/a"});
  EXPECT_EQ(Hears(true, [&] { put(false), put(true); }), Calls{"update x/a 1→3"});
  EXPECT_EQ(Hears(true, [&] { Delete("a", true); }), Calls{"delete x/a"});
  EXPECT_EQ(Hears(true, [&] { Delete("a", false); }), Calls{"delete x/a"});
  EXPECT_EQ(Hears(true, [&] { put(false), Delete("a", false); }), Calls{"delete x/a"});
  EXPECT_EQ(Hears(true, [&] { Delete("a", true), put(true); }), (Calls{"delete x/a", "add x/a"}));
  EXPECT_EQ(Hears(true, [&] { Delete("a", true), put(false); }), Calls{"delete x/a"});
  EXPECT_EQ(Hears(false, [&] { put(false); }), Calls{});
  EXPECT_EQ(Hears(false, [&] { put(true); }), Calls{"add x/a"});
  EXPECT_EQ(Hears(false, [&] { put(true), put(false); }), Calls{});
  EXPECT_EQ(Hears(false, [&] { Delete("a", true); }), Calls{});
  EXPECT_EQ(Hears(false, [&] { put(true), Delete("a", true); }), Calls{});
  EXPECT_EQ(Hears(false, [&] { Delete("a", false), put(true); }), Calls{"add x/a"});
  EXPECT_EQ(Hears(false, [&] { Delete("a", false), put(false); }), Calls{});
}

// Its filter hides the delete from the row that was kept before it came.
TEST_F(KeptRowsTest, WhatGoesUnseenBehindAKeptRowIsADeleteOfWhatItKnew) {
  const auto handler = std::make_shared<RecordingHandler>();
  for (const char* name : {"a", "b"}) Put(name, *name == 'a');
  Come(handler);
  Drain();
  Leave();
  for (const char* name : {"a", "b", "c"}) Put(name, false);
  Come(handler);
  for (const char* name : {"a", "b", "c"}) Delete(name, false);
  Drain();
  EXPECT_EQ(handler->Calls(), (std::vector<std::string>{"add x/a", "delete x/a"}));
}

// By a filter one object goes and comes, too.
TEST_F(KeptRowsTest, AnUpdateWhileItIsToldThatAnObjectHoldsAgainIsAnUpdate) {
  std::vector<std::string> calls;
  const auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_add = [&](const ObjectPtr& object, bool) {
    calls.push_back(fmt::format("add {}", object->resource_version()));
    if (object->resource_version() == "3") Put("a", true);
  };
  handler->on_update = [&](const ObjectPtr& old, const ObjectPtr& now) {
    calls.push_back(fmt::format("update {}→{}", old->resource_version(), now->resource_version()));
  };
  handler->on_delete = [&](const ObjectPtr& last, bool) {
    calls.push_back(fmt::format("delete {}", last->resource_version()));
  };
  Put("a", true);
  Come(handler);
  Drain();
  Come(handler);
  Put("a", false);
  Put("a", true);
  Drain();
  EXPECT_EQ(calls, (std::vector<std::string>{"add 1", "delete 1", "add 3", "update 3→4"}));
}

// It was told of what came to hold, and not more: the process ended in the call.
TEST_F(KeptRowsTest, WhatItMayHaveBeenToldOfIsDeletedForTheNext) {
  std::promise<void> told, release;
  auto hanging = std::make_shared<EventHandlerFuncs>();
  hanging->on_add = [&told, released = release.get_future().share()](const ObjectPtr&, bool) {
    told.set_value();
    released.wait();
  };
  const auto handler = std::make_shared<RecordingHandler>();
  Put("a", false);
  Come(handler);
  Drain();
  Leave();
  Put("a", true);
  Come(std::exchange(hanging, nullptr));
  listener_->Start();
  told.get_future().wait();
  EXPECT_FALSE(listener_->Stop(RealClock()->Now()));
  Leave();
  Put("a", false);
  Come(handler);
  Drain();
  EXPECT_EQ(handler->Calls(), (std::vector<std::string>{"delete x/a"}));
  release.set_value();
}

// The last state that it was allowed to see: the one at the deletion, or the one that it knew.
TEST_F(KeptRowsTest, ADeleteBringsTheLastStateThatHeld) {
  std::vector<std::string> versions;
  const auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_delete = [&](const ObjectPtr& last, bool) {
    versions.emplace_back(last->resource_version());
  };
  Put("a", true);
  Put("b", true);
  Come(handler);
  Drain();
  Leave();
  for (const bool on : {true, false}) Put(on ? "a" : "b", on);
  Delete("a", true);
  Delete("b", false);
  Come(handler);
  Drain();
  EXPECT_EQ(versions, (std::vector<std::string>{"5", "2"}));
}

// Whoever is there, behind, away, or ends in the middle of a call: the handler ends with what holds
// now, and never sees what does not.
TEST_F(KeptRowsTest, WhoeverIsThereTheHandlerEndsWithWhatHolds) {
  const uint64_t seed = testing::Seed();
  std::mt19937_64 random(seed);
  const auto flip = [&](unsigned of = 2) { return random() % of == 0; };
  std::mutex mutex;
  std::map<std::string, std::string> known;
  std::vector<std::string> hidden;
  bool hang = false;
  std::promise<void> release;
  const auto released = release.get_future().share();
  std::atomic<int> hanging{0}, ended{0};
  const auto hear = [&](const ObjectPtr& object, bool there) {
    std::unique_lock lock(mutex);
    if (!IsOn(*object)) hidden.push_back(object->key().ToString());
    known.erase(std::string(object->name()));
    if (there) known.emplace(object->name(), object->resource_version());
    if (!std::exchange(hang, false)) return;
    ++hanging;
    lock.unlock();
    released.wait();
    ++ended;
  };
  auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_add = [&](const ObjectPtr& object, bool) { hear(object, true); };
  handler->on_update = [&](const ObjectPtr&, const ObjectPtr& now) { hear(now, true); };
  handler->on_delete = [&](const ObjectPtr& last, bool) { hear(last, false); };
  std::map<std::string, std::string> truth;  // of what is on
  for (int step = 0; step < 1500 && !HasFailure(); ++step) {
    const std::string name(1, static_cast<char>('a' + random() % 4));
    const bool on = flip();
    if (flip(3) && indexer_->GetByKey({"x", name})) {
      Delete(name, on);
      truth.erase(name);
    } else {
      Put(name, on);
      truth.erase(name);
      if (on) truth[name] = std::to_string(version_);
    }
    if (!flip(8)) continue;
    if (listener_ && flip()) {
      const int before = hanging;
      {
        std::lock_guard lock(mutex);
        hang = flip();
      }
      listener_->Start();
      while (hanging == before &&
             (listener_->Stats().rows != 0 || listener_->Stats().buffered != 0)) {
        std::this_thread::yield();
      }
      listener_->Stop(RealClock()->Now());
      std::lock_guard lock(mutex);
      hang = false;
      if (hanging == before) {
        EXPECT_EQ(known, truth) << "seed " << seed << ", step " << step;
      }
    }
    if (flip()) {
      Leave();
    } else {
      Come(handler, random() % 3 * 4);
    }
  }
  Come(handler);
  Drain();
  EXPECT_EQ(known, truth) << "seed " << seed;
  EXPECT_TRUE(hidden.empty()) << "seed " << seed << ", " << hidden.size() << " times";
  release.set_value();
  listener_.reset();
  const std::weak_ptr<EventHandler> left = std::exchange(handler, nullptr);
  while (!left.expired() || ended != hanging) std::this_thread::yield();
}

}  // namespace
}  // namespace larder
