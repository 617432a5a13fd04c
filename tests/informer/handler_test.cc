// What handlers hear: first lists, live changes, restarts, slow and faulty handlers.
#include <future>
#include <utility>

#include "tests/informer/fixture.h"

namespace larder {
namespace {

TEST_F(InformerTest, HandlerHearsTheFirstListAndThenLiveChanges) {
  CreatePod("a");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  const auto registration = informer_->AddEventHandler(handler);
  ASSERT_TRUE(registration);
  Sync();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_EQ(handler->Calls(), std::vector<std::string>{"add x/a initial"});
  TouchPod("a");
  CreatePod("b");
  DeletePod("a");
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Last("x/a") == "deleted"; }));
  EXPECT_EQ(handler->Count("update x/a"), 1u);
  EXPECT_EQ(handler->Count("add x/b"), 1u);
  EXPECT_EQ(handler->Count("add x/b initial"), 0u);
}

TEST_F(InformerTest, HandlerAddedLaterStartsWithWhatIsStored) {
  CreatePod("a");
  CreatePod("b");
  Open();
  Sync();
  auto handler = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(handler));
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add") == 2; }));
}

TEST_F(InformerTest, AHandlerThatMayKeepNothingInMemoryHearsEverything) {
  CreatePod("a");
  CreatePod("b");
  Open();
  Sync();
  for (const char* name : {"", "durable"}) {
    const auto handler = std::make_shared<RecordingHandler>();
    HandlerOptions options;
    options.durable_name = name;
    options.buffer_bytes = 0;
    options.resync_period = std::chrono::milliseconds(50);
    const auto registration = informer_->AddEventHandler(handler, options);
    ASSERT_TRUE(registration);
    EXPECT_TRUE(handler->WaitFor([&](const auto& h) {
      return h.Count("add") == 2 && (*registration)->HasSynced();
    })) << name;
    TouchPod("a");
    EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update x/b") > 0; }))
        << "a resync";
  }
}

TEST_F(InformerTest, NamelessHandlerHearsEverythingAgainAfterARestart) {
  CreatePod("a");
  for (int start = 0; start < 2; ++start) {
    Open();
    auto handler = std::make_shared<RecordingHandler>();
    ASSERT_TRUE(informer_->AddEventHandler(handler));
    Sync();
    EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add x/a initial") == 1; }));
    Close();
  }
}

TEST_F(InformerTest, DurableHandlerHearsOnlyWhatChangedDeletesIncluded) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  HandlerOptions durable;
  durable.durable_name = "watcher";
  auto first = std::make_shared<RecordingHandler>();
  Open();
  const auto registration = informer_->AddEventHandler(first, durable);
  ASSERT_TRUE(registration);
  Sync();
  ASSERT_TRUE(first->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_EQ(first->Count("add"), 3u);
  Close();
  TouchPod("a");
  DeletePod("b");
  Open();
  auto second = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(second, durable));
  Sync();
  ASSERT_TRUE(second->WaitFor([](const auto& h) { return h.Calls().size() >= 2; }));
  EXPECT_EQ(second->Count("update x/a"), 1u);
  EXPECT_EQ(second->Count("delete x/b"), 1u);
  EXPECT_EQ(second->Count("add"), 0u);
}

TEST_F(InformerTest, DurableHandlerHearsDeletesFoundByARelist) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  HandlerOptions durable;
  durable.durable_name = "watcher";
  Open();
  auto first = std::make_shared<RecordingHandler>();
  const auto registration = informer_->AddEventHandler(first, durable);
  Sync();
  ASSERT_TRUE(first->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  Close();
  DeletePod("b");
  simulator_->ExpireHistory("pods");
  Open();
  auto second = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(second, durable));
  Sync();
  ASSERT_TRUE(second->WaitFor([](const auto& h) { return !h.Calls().empty(); }));
  EXPECT_EQ(second->Calls(), std::vector<std::string>{"delete x/b inferred"});
}

TEST_F(InformerTest, RaisedRevisionHearsEverythingOnce) {
  CreatePod("a");
  HandlerOptions durable;
  durable.durable_name = "watcher";
  for (const uint32_t revision : {1u, 2u, 2u}) {
    durable.revision = revision;
    Open();
    auto handler = std::make_shared<RecordingHandler>();
    const auto registration = informer_->AddEventHandler(handler, durable);
    ASSERT_TRUE(registration);
    Sync();
    ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
    static int start = 0;
    EXPECT_EQ(handler->Count("add"), ++start < 3 ? 1u : 0u);
    Close();
  }
}

// What an earlier revision did not come to hear is told to the raised one: of a delete nothing else
// would.
TEST_F(InformerTest, RaisedRevisionHearsOfDeletesThatWaitForTheNameBefore) {
  for (const char* name : {"a", "b"}) CreatePod(name);
  HandlerOptions durable;
  durable.durable_name = "watcher";
  InformerOptions impatient;
  impatient.handler_grace = std::chrono::milliseconds(0);
  Open(impatient);
  auto stuck = std::make_shared<RecordingHandler>();
  auto registration = informer_->AddEventHandler(stuck, durable);
  Sync();
  ASSERT_TRUE(stuck->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  stuck->Block();
  DeletePod("a");
  CatchUp();
  registration->reset();
  Close();
  Open();
  durable.revision = 2;
  auto raised = std::make_shared<RecordingHandler>();
  registration = informer_->AddEventHandler(raised, durable);
  ASSERT_TRUE(registration);
  Sync();
  ASSERT_TRUE(raised->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_EQ(raised->Calls(), (std::vector<std::string>{"delete x/a", "add x/b initial"}));
  stuck->Unblock();
}

// Nor is a change left out because everything is about to be told.
TEST_F(InformerTest, RaisedRevisionHearsOfDeletesBeforeItHasHeardEverything) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  HandlerOptions durable;
  durable.durable_name = "watcher";
  durable.buffer_events = 2;  // one at a time
  for (const uint32_t revision : {1u, 2u}) {
    durable.revision = revision;
    Open();
    auto handler = std::make_shared<RecordingHandler>();
    if (revision == 2) handler->Block();
    const auto registration = informer_->AddEventHandler(handler, durable);
    ASSERT_TRUE(registration);
    Sync();
    if (revision == 2) {
      DeletePod("c");
      CatchUp();
      handler->Unblock();
    }
    ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
    EXPECT_EQ(handler->Count("add"), revision == 1 ? 3u : 2u);
    EXPECT_EQ(handler->Last("x/c") == "deleted", revision == 2);
    Close();
  }
}

// A raised revision that was cut off before it had heard everything has taken nothing from the one
// that it is taken back to.
TEST_F(InformerTest, RevisionThatIsTakenBackHearsWhatChangedMeanwhile) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  HandlerOptions durable;
  durable.durable_name = "watcher";
  Open();
  auto first = std::make_shared<RecordingHandler>();
  auto registration = informer_->AddEventHandler(first, durable);
  Sync();
  ASSERT_TRUE(first->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  Close();
  InformerOptions impatient;
  impatient.handler_grace = std::chrono::milliseconds(0);
  Open(impatient);
  durable.revision = 2;
  durable.buffer_events = 2;  // it has not come to "b" when that changes
  auto stuck = std::make_shared<RecordingHandler>();
  stuck->Block();
  registration = informer_->AddEventHandler(stuck, durable);
  ASSERT_TRUE(registration);
  Sync();
  TouchPod("b");
  CatchUp();
  registration->reset();
  Close();
  DeletePod("c");
  Open();
  durable.revision = 1;
  auto back = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(back, durable));
  Sync();
  EXPECT_TRUE(back->WaitFor(
      [](const auto& h) { return h.Count("update x/b") == 1 && h.Count("delete x/c") == 1; }));
  EXPECT_EQ(back->Calls().size(), 2u);
  stuck->Unblock();
}

TEST_F(InformerTest, BlockedHandlerStallsNobodyAndGetsTheFinalState) {
  for (int i = 0; i < 20; ++i) CreatePod("p" + std::to_string(i));
  Open();
  auto blocked = std::make_shared<RecordingHandler>();
  auto free = std::make_shared<RecordingHandler>();
  HandlerOptions small;
  small.buffer_events = 8;
  const auto registration = informer_->AddEventHandler(blocked, small);
  ASSERT_TRUE(registration);
  ASSERT_TRUE(informer_->AddEventHandler(free));
  Sync();
  ASSERT_TRUE(blocked->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  blocked->Block();
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 20; ++i) TouchPod("p" + std::to_string(i));
  }
  DeletePod("p3");
  CatchUp();
  ASSERT_TRUE(free->WaitFor([](const auto& h) { return h.Last("x/p3") == "deleted"; }));
  EXPECT_LE((*registration)->Stats().buffered, 9u);
  EXPECT_TRUE((*registration)->Stats().spilling);
  EXPECT_GT((*registration)->Stats().merged, 0u);
  EXPECT_EQ((*registration)->Stats().rows, 20u) << "one row a key, however many changes";
  blocked->Unblock();
  const auto truth = simulator_->Snapshot("pods");
  EXPECT_TRUE(blocked->WaitFor([&](const auto& h) {
    for (const auto& [key, state] : truth) {
      if (h.Last(key) != state.second) return false;
    }
    return h.Last("x/p3") == "deleted";
  }));
  ASSERT_TRUE(blocked->WaitFor([&](const auto&) { return !(*registration)->Stats().spilling; }));
  TouchPod("p1");
  EXPECT_TRUE(blocked->WaitFor([&](const auto& h) {
    return h.Last("x/p1") == simulator_->Snapshot("pods").at("x/p1").second;
  }));
}

TEST_F(InformerTest, HandlerThatBlocksDuringTheFirstListCostsNoDiskAndHearsTheRestLater) {
  for (int i = 0; i < 40; ++i) CreatePod("p" + std::to_string(i));
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  handler->Block();
  HandlerOptions small;
  small.buffer_events = 4;
  const auto registration = informer_->AddEventHandler(handler, small);
  ASSERT_TRUE(registration);
  Sync();
  CreatePod("q");
  DeletePod("p9");
  CatchUp();
  EXPECT_EQ((*registration)->Stats().rows, 0u);
  EXPECT_LE((*registration)->Stats().buffered, 4u);
  EXPECT_FALSE((*registration)->HasSynced());
  handler->Unblock();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_EQ(handler->Count("add"), 40u) << "one was gone before it was its turn";
  EXPECT_EQ(handler->Last("x/p9"), "");
  TouchPod("q");
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update x/q") == 1; }));
}

TEST_F(InformerTest, RecreatedObjectBehindABlockIsADeleteAndAnAdd) {
  CreatePod("a");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions small;
  small.buffer_events = 1;
  const auto registration = informer_->AddEventHandler(handler, small);
  Sync();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  handler->Block();
  TouchPod("a");
  TouchPod("a");
  TouchPod("a");
  CatchUp();
  DeletePod("a");
  CreatePod("a");
  CatchUp();
  handler->Unblock();
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add x/a") == 2; }));
  EXPECT_EQ(handler->Count("delete x/a"), 1u);
}

TEST_F(InformerTest, HandlerThatThrowsIsCountedAndGoesOn) {
  CreatePod("a");
  CreatePod("b");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  handler->ThrowOn("x/a");
  const auto registration = informer_->AddEventHandler(handler);
  Sync();
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add") == 2; }));
  EXPECT_TRUE(
      handler->WaitFor([&](const auto&) { return (*registration)->Stats().exceptions == 1; }));
}

TEST_F(InformerTest, FilterTurnsUpdatesIntoAddsAndDeletes) {
  CreatePod("a");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions options;
  options.filter = [](const Object& pod) { return pod.Annotation("touched").has_value(); };
  ASSERT_TRUE(informer_->AddEventHandler(handler, options));
  Sync();
  TouchPod("a");
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add x/a") == 1; }));
  const auto cleared = simulator_->Patch("pods", "x", "a", R"({"metadata":{"annotations":null}})");
  ASSERT_TRUE(cleared);
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("delete x/a") == 1; }));
}

// The object leaves the filter and is deleted while the handler is behind: what it knew must go.
TEST_F(InformerTest, FilteredHandlerHearsTheDeleteOfWhatItKnewHoweverChangesMerge) {
  CreatePod("a");
  TouchPod("a");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions options;
  options.buffer_events = 1;
  options.filter = [](const Object& pod) { return pod.Annotation("touched").has_value(); };
  const auto registration = informer_->AddEventHandler(handler, options);
  ASSERT_TRUE(registration);
  Sync();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  handler->Block();
  TouchPod("a");
  TouchPod("a");
  CatchUp();
  ASSERT_TRUE(simulator_->Patch("pods", "x", "a", R"({"metadata":{"annotations":null}})"));
  DeletePod("a");
  CreatePod("b");
  CatchUp();
  handler->Unblock();
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Last("x/a") == "deleted"; }));
  EXPECT_EQ(handler->Last("x/b"), "");
}

TEST_F(InformerTest, FilterThatThrowsIsCountedAndHoldsForNothing) {
  CreatePod("a");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions options;
  options.filter = [](const Object& pod) -> bool {
    if (pod.name() == "b") throw std::runtime_error("asked to throw");
    return true;
  };
  const auto registration = informer_->AddEventHandler(handler, options);
  Sync();
  CreatePod("b");
  CreatePod("c");
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add x/c") == 1; }));
  EXPECT_EQ(handler->Count("add x/b"), 0u);
  EXPECT_EQ((*registration)->Stats().exceptions, 1u);
}

TEST_F(InformerTest, HandlerOfOneNamespaceHearsOnlyThat) {
  ASSERT_TRUE(simulator_->CreateNamespace("y"));
  ASSERT_TRUE(simulator_->Create("pods", R"({"apiVersion":"v1","kind":"Pod",
      "metadata":{"name":"far","namespace":"y"},"spec":{}})"));
  CreatePod("a");
  Open();
  Sync();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions options;
  options.ns = "x";
  const auto registration = informer_->AddEventHandler(handler, options);
  ASSERT_TRUE(registration);
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  ASSERT_TRUE(simulator_->Patch("pods", "y", "far", R"({"metadata":{"labels":{"k":"v"}}})"));
  TouchPod("a");
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update x/a") == 1; }));
  EXPECT_EQ(handler->Count("add y/"), 0u);
  EXPECT_EQ(handler->Count("update y/"), 0u);
}

TEST_F(InformerTest, ResyncBringsEveryObjectAgainWithoutAskingTheServer) {
  CreatePod("a");
  CreatePod("b");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions options;
  options.resync_period = std::chrono::milliseconds(50);
  ASSERT_TRUE(informer_->AddEventHandler(handler, options));
  Sync();
  const uint64_t lists = Lists();
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update") >= 4; }));
  EXPECT_EQ(Lists(), lists);
}

TEST_F(InformerTest, RemovedHandlerHearsNothingMore) {
  CreatePod("a");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  const auto registration = informer_->AddEventHandler(handler);
  Sync();
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add") == 1; }));
  ASSERT_TRUE(informer_->RemoveEventHandler(*registration));
  TouchPod("a");
  CatchUp();
  EXPECT_EQ(handler->Calls().size(), 1u);
  EXPECT_FALSE(informer_->RemoveEventHandler(*registration));
}

TEST_F(InformerTest, HandlerMayRemoveItself) {
  CreatePod("a");
  CreatePod("b");
  Open();
  SharedInformer::Registration registration;
  std::mutex mutex;
  std::atomic<int> calls{0};
  auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_add = [&](const ObjectPtr&, bool) {
    ++calls;
    std::lock_guard lock(mutex);
    EXPECT_TRUE(informer_->RemoveEventHandler(registration));
  };
  {
    std::lock_guard lock(mutex);
    registration = *informer_->AddEventHandler(handler);
  }
  Sync();
  auto after = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(after));
  // A change that comes before the first state was handed over is merged into it.
  ASSERT_TRUE(after->WaitFor([](const auto& h) { return h.Count("add") == 2; }));
  TouchPod("a");
  EXPECT_TRUE(after->WaitFor([](const auto& h) { return h.Count("update x/a") == 1; }));
  EXPECT_TRUE(after->WaitFor([&](const auto&) { return calls > 0; }));
  informer_->Stop();
  EXPECT_EQ(calls, 1);
}

TEST_F(InformerTest, HandlersThatRemovedThemselvesAreLetGo) {
  CreatePod("a");
  Open();
  Sync();
  auto handler = std::make_shared<EventHandlerFuncs>();
  std::promise<SharedInformer::Registration> registered;
  handler->on_add = [&](const ObjectPtr&, bool) {
    EXPECT_TRUE(informer_->RemoveEventHandler(registered.get_future().get()));
  };
  registered.set_value(*informer_->AddEventHandler(handler));
  const std::weak_ptr<EventHandler> removed = std::exchange(handler, nullptr);
  auto other = std::make_shared<RecordingHandler>();
  EXPECT_TRUE(other->WaitFor([&](const auto&) {
    EXPECT_TRUE(informer_->RemoveEventHandler(*informer_->AddEventHandler(other)));
    return removed.expired();
  }));
}

TEST_F(InformerTest, DurableHandlerAddedAfterTheStartMissesNothing) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  HandlerOptions durable;
  durable.durable_name = "watcher";
  Open();
  auto first = std::make_shared<RecordingHandler>();
  const auto registration = informer_->AddEventHandler(first, durable);
  Sync();
  ASSERT_TRUE(first->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  Close();
  TouchPod("a");
  DeletePod("b");
  Open();
  Sync();
  CreatePod("d");
  TouchPod("a");
  CatchUp();
  auto second = std::make_shared<RecordingHandler>();
  const auto again = informer_->AddEventHandler(second, durable);
  ASSERT_TRUE(again);
  ASSERT_TRUE(second->WaitFor([&](const auto&) { return (*again)->HasSynced(); }));
  EXPECT_EQ(second->Count("update x/a"), 1u) << "merged, from the state that it knew";
  EXPECT_EQ(second->Count("delete x/b"), 1u);
  EXPECT_EQ(second->Count("add x/d"), 1u);
  EXPECT_EQ(second->Calls().size(), 3u);
}

TEST_F(InformerTest, ForgottenHandlerGetsEverythingOnce) {
  CreatePod("a");
  HandlerOptions durable;
  durable.durable_name = "watcher";
  Open();
  auto first = std::make_shared<RecordingHandler>();
  const auto registration = informer_->AddEventHandler(first, durable);
  Sync();
  ASSERT_TRUE(first->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_EQ(informer_->ForgetHandler("watcher").error().code, ErrorCode::kConflict);
  Close();
  Open();
  Sync();
  ASSERT_TRUE(informer_->ForgetHandler("watcher"));
  EXPECT_EQ(informer_->ForgetHandler("watcher").error().code, ErrorCode::kNotFound);
  auto second = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(second, durable));
  EXPECT_TRUE(second->WaitFor([](const auto& h) { return h.Count("add x/a initial") == 1; }));
}

TEST_F(InformerTest, DurableNamesAreCheckedAndTakenOnce) {
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions durable;
  durable.durable_name = "a name";
  const auto refused = informer_->AddEventHandler(handler, durable);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("durable_name \"a name\""), std::string::npos)
      << refused.error().message;
  durable.durable_name = "name";
  EXPECT_TRUE(informer_->AddEventHandler(handler, durable));
  EXPECT_EQ(informer_->AddEventHandler(handler, durable).error().code, ErrorCode::kAlreadyExists);
  informer_->Stop();
  EXPECT_EQ(informer_->AddEventHandler(handler).error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace larder
