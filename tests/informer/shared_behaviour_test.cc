// What users of client-go's shared informer rely on; docs/informers.md says which of its tests each
// answers to.
#include <atomic>
#include <future>
#include <random>

#include "tests/informer/fixture.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Informer and network on one clock that the test moves.
class ResyncTest : public InformerTest {
 protected:
  void OpenOnFakeClock(milliseconds period = milliseconds(0)) {
    OpenParts();
    auto transport = MakeTransport(ForUrl(simulator_->Url()), &clock_);
    ASSERT_TRUE(transport);
    transport_ = *std::move(transport);
    InformerOptions options;
    options.resource = *LookupResource("pods");
    options.resync_period = period;
    options.clock = &clock_;
    auto informer = SharedInformer::Open(Context(), std::move(options));
    ASSERT_TRUE(informer);
    informer_ = *std::move(informer);
  }
  SharedInformer::Registration Add(const std::shared_ptr<RecordingHandler>& handler,
                                   milliseconds period) {
    HandlerOptions options;
    options.resync_period = period;
    return *informer_->AddEventHandler(handler, options);
  }
  void SyncAll(const std::vector<SharedInformer::Registration>& registrations) {
    informer_->Start();
    for (const auto& registration : registrations) {
      ASSERT_TRUE(waiter_.WaitFor(
          [&](const auto&) { return registration->HasSynced() && informer_->HasSynced(); }));
    }
  }

  FakeClock clock_;
  RecordingHandler waiter_;
};

TEST_F(ResyncTest, EachHandlerResyncsAtItsOwnPeriod) {
  CreatePod("a");
  CreatePod("b");
  OpenOnFakeClock();
  auto often = std::make_shared<RecordingHandler>();
  auto seldom = std::make_shared<RecordingHandler>();
  auto never = std::make_shared<RecordingHandler>();
  SyncAll({Add(often, seconds(10)), Add(seldom, seconds(30)), Add(never, seconds(0))});
  // A tenth of jitter: due after eleven seconds for certain, and not before ten.
  clock_.Advance(seconds(9));
  clock_.Advance(seconds(2));
  ASSERT_TRUE(often->WaitFor([](const auto& h) { return h.Count("update") == 2; }));
  EXPECT_EQ(seldom->Count("update"), 0u);
  clock_.Advance(seconds(11));
  ASSERT_TRUE(often->WaitFor([](const auto& h) { return h.Count("update") == 4; }));
  clock_.Advance(seconds(11));
  ASSERT_TRUE(often->WaitFor([](const auto& h) { return h.Count("update") == 6; }));
  ASSERT_TRUE(seldom->WaitFor([](const auto& h) { return h.Count("update") == 2; }));
  EXPECT_EQ(never->Count("update"), 0u);
}

TEST_F(ResyncTest, HandlerWithoutAPeriodTakesTheInformers) {
  CreatePod("a");
  OpenOnFakeClock(seconds(10));
  auto handler = std::make_shared<RecordingHandler>();
  SyncAll({Add(handler, seconds(0))});
  clock_.Advance(seconds(11));
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update x/a") == 1; }));
}

TEST_F(ResyncTest, ResyncOfAFilteredHandlerBringsOnlyWhatHolds) {
  CreatePod("a");
  CreatePod("b");
  OpenOnFakeClock();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions options;
  options.resync_period = seconds(10);
  options.filter = [](const Object& pod) { return pod.name() == "b"; };
  const auto registration = *informer_->AddEventHandler(handler, options);
  SyncAll({registration});
  clock_.Advance(seconds(11));
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return registration->Stats().resyncs == 1; }));
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update x/b") == 1; }));
  EXPECT_EQ(handler->Count("update x/a"), 0u);
}

// More objects than one piece of a resync: it is read between the changes, each key once, in order.
TEST_F(ResyncTest, ResyncOfManyObjectsIsStreamedBetweenChanges) {
  ASSERT_TRUE(simulator_->Load(700));
  OpenOnFakeClock();
  auto handler = std::make_shared<RecordingHandler>();
  const auto registration = Add(handler, seconds(10));
  SyncAll({registration});
  handler->Block();
  clock_.Advance(seconds(11));
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return registration->Stats().resyncs == 1; }));
  EXPECT_LE(registration->Stats().buffered, 128u);
  CreatePod("new");
  CatchUp();
  handler->Unblock();
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update") >= 700; }));
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add x/new") == 1; }));
  const auto calls = handler->Calls();
  const auto added = std::find(calls.begin(), calls.end(), "add x/new");
  EXPECT_TRUE(std::none_of(calls.begin(), added, [](const std::string& call) {
    return call.rfind("update x/new", 0) == 0;
  })) << "no update before the add";
}

TEST_F(InformerTest, IndexesMayBeAddedAfterTheStart) {
  CreatePod("a", "n1");
  CreatePod("b", "n2");
  Open();
  Sync();
  ASSERT_TRUE(informer_->AddIndexers({*IndexDefinition::ByField("node", "spec.nodeName")}));
  CreatePod("c", "n2");
  CatchUp();
  ASSERT_TRUE(informer_->GetIndexer().WaitUntilReady(seconds(30)));
  EXPECT_EQ(informer_->GetIndexer().ByIndex("node", "n2")->size(), 2u);
  EXPECT_EQ(informer_->GetIndexer().ListIndexFuncValues("node")->size(), 2u);
}

TEST_F(InformerTest, HandlersAddedWhileItStartsMissNothing) {
  for (int i = 0; i < 200; ++i) CreatePod("p" + std::to_string(i));
  Open();
  std::vector<std::shared_ptr<RecordingHandler>> handlers(8);
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([this] { informer_->Start(); });
    for (auto& handler : handlers) {
      handler = std::make_shared<RecordingHandler>();
      threads.emplace_back([&] { EXPECT_TRUE(informer_->AddEventHandler(handler)); });
    }
  }
  for (const auto& handler : handlers) {
    EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add") == 200; }));
  }
}

TEST_F(InformerTest, LostConnectionsAreNoNewsToHandlers) {
  for (const char* name : {"a", "b", "c"}) CreatePod(name);
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  const auto registration = *informer_->AddEventHandler(handler);
  Sync();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return registration->HasSynced(); }));
  // The version expires while the connection is down: a relist must bring what was missed.
  const int down =
      simulator_->AddFault({.type = apiserver::FaultType::kDrop, .resource = "pods", .times = -1});
  simulator_->DropConnections();
  TouchPod("a");
  DeletePod("b");
  CreatePod("d");
  simulator_->ExpireHistory("pods");
  ASSERT_TRUE(simulator_->RemoveFault(down));
  ASSERT_TRUE(handler->WaitFor([](const auto& h) {
    return h.Count("update x/a") == 1 && h.Last("x/b") == "deleted" && h.Count("add x/d") == 1;
  }));
  EXPECT_EQ(handler->Calls().size(), 6u) << "c was not touched";
  EXPECT_EQ(handler->Count("delete x/b inferred"), 1u);
  EXPECT_EQ(handler->Count("add x/d initial"), 0u);
}

TEST_F(InformerTest, WatchErrorHandlerIsToldOfFailures) {
  simulator_->AddFault(
      {.type = apiserver::FaultType::kError, .resource = "pods", .times = 2, .code = 403});
  Open();
  std::mutex mutex;
  std::vector<ErrorCode> codes;
  informer_->SetWatchErrorHandler([&](const Error& error) {
    std::lock_guard lock(mutex);
    codes.push_back(error.code);
    if (codes.size() == 1) throw std::runtime_error("asked to throw");
  });
  Sync();
  std::lock_guard lock(mutex);
  ASSERT_FALSE(codes.empty());
  EXPECT_EQ(codes[0], ErrorCode::kForbidden);
  EXPECT_EQ(informer_->Status().reflector.last_error->code, ErrorCode::kForbidden);
}

TEST_F(InformerTest, StartAndStopMayComeFromManyThreads) {
  for (int round = 0; round < 5; ++round) {
    Open();
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) threads.emplace_back([this] { informer_->Start(); });
      for (int i = 0; i < 2; ++i) threads.emplace_back([this] { informer_->Stop(); });
      threads.emplace_back([this] {
        const auto added = informer_->AddEventHandler(std::make_shared<RecordingHandler>());
        EXPECT_TRUE(added || added.error().code == ErrorCode::kCancelled);
      });
    }
    informer_->Stop();
    EXPECT_TRUE(informer_->IsStopped());
    Close();
  }
}

TEST_F(InformerTest, ForeignRegistrationIsRefused) {
  Open();
  const auto mine = *informer_->AddEventHandler(std::make_shared<RecordingHandler>());
  InformerOptions other;
  other.resource = *LookupResource("nodes");
  auto nodes = SharedInformer::Open(Context(), other);
  ASSERT_TRUE(nodes);
  EXPECT_EQ((*nodes)->RemoveEventHandler(mine).error().code, ErrorCode::kNotFound);
  EXPECT_EQ((*nodes)->RemoveEventHandler(nullptr).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(informer_->RemoveEventHandler(mine));
}

// It is not ours, and goes on.
TEST_F(InformerTest, ForeignRegistrationIsNotReleased) {
  CreatePod("a");
  Open();
  Sync();
  InformerOptions other;
  other.resource = *LookupResource("pods");
  other.label_selector = "app=web";
  const auto foreign = *SharedInformer::Open(Context(), other);
  HandlerOptions durable;
  durable.durable_name = "watcher";
  for (SharedInformer* informer : {informer_.get(), foreign.get()}) informer->Start();
  // Both know the name, so that neither would be refused for that.
  const auto handler = std::make_shared<RecordingHandler>();
  const auto ours = *informer_->AddEventHandler(handler, durable);
  const auto theirs = *foreign->AddEventHandler(handler, durable);
  ASSERT_TRUE(
      handler->WaitFor([&](const auto&) { return ours->HasSynced() && theirs->HasSynced(); }));
  EXPECT_EQ(informer_->ReleaseEventHandler(theirs).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(informer_->ReleaseEventHandler(nullptr).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(informer_->RemoveEventHandler(nullptr).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(theirs->HasEnded());
}

// A handler without a name has a number of its process, which nobody asks for again.
TEST_F(InformerTest, RowsThatAreNobodysAreRemovedAtTheNextStart) {
  CreatePod("a");
  HandlerOptions durable;
  durable.durable_name = "watcher";
  Open();
  const auto handler = std::make_shared<RecordingHandler>();
  const auto registration = informer_->AddEventHandler(handler, durable);
  Sync();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  const CollectionId collection = informer_->GetIndexer().collection().id;
  ASSERT_TRUE(informer_->ReleaseEventHandler(*registration));
  TouchPod("a");
  CatchUp();
  {
    Transaction transaction = store_->Begin();
    transaction.PutDelta(collection, "~7", {"x", "a"}, "left by a process that was killed");
    ASSERT_TRUE(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  ASSERT_EQ(store_->DeltaHandlers(collection)->size(), 2u);
  Close();
  Open();
  EXPECT_EQ(*store_->DeltaHandlers(collection), std::vector<std::string>{"watcher"});
}

TEST_F(InformerTest, OneHandlerRegisteredTwiceHearsTwice) {
  CreatePod("a");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  const auto first = *informer_->AddEventHandler(handler);
  const auto second = *informer_->AddEventHandler(handler);
  Sync();
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add x/a") == 2; }));
  ASSERT_TRUE(informer_->RemoveEventHandler(first));
  TouchPod("a");
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update x/a") == 1; }));
  CatchUp();
  EXPECT_EQ(informer_->Status().handlers.size(), 1u);
  EXPECT_TRUE(second->HasSynced());
}

// Handlers come and go at random while events flow; one that stays hears everything.
TEST_F(InformerTest, HandlersComeAndGoWhileEventsFlow) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (int i = 0; i < 20; ++i) CreatePod("p" + std::to_string(i));
  Open();
  auto steady = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(steady));
  Sync();
  {
    std::atomic<bool> done{false};
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        std::minstd_rand random(seed + t);
        while (!done) {
          auto handler = std::make_shared<RecordingHandler>();
          HandlerOptions options;
          options.buffer_events = 1 + random() % 4;
          const auto added = informer_->AddEventHandler(handler, options);
          ASSERT_TRUE(added);
          if (random() % 2 == 0) {
            EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add") >= 20; }));
          }
          EXPECT_TRUE(informer_->RemoveEventHandler(*added));
        }
      });
    }
    for (int i = 0; i < 200; ++i) TouchPod("p" + std::to_string(i % 20));
    CatchUp();
    done = true;
  }
  const auto truth = simulator_->Snapshot("pods");
  EXPECT_TRUE(steady->WaitFor([&](const auto& h) {
    return std::all_of(truth.begin(), truth.end(), [&](const auto& entry) {
      return h.Last(entry.first) == entry.second.second;
    });
  }));
  EXPECT_EQ(informer_->Status().handlers.size(), 1u);
  size_t rows = 0;
  ASSERT_TRUE(store_->ScanDeltas(informer_->GetIndexer().collection().id, "~2", {},
                                 [&](const ObjectKey&, std::string_view) { return ++rows > 0; }));
  EXPECT_EQ(rows, 0u) << "a removed handler leaves nothing behind";
}

TEST_F(InformerTest, StateBeforeWhileAndAfter) {
  CreatePod("a");
  Open();
  EXPECT_FALSE(informer_->IsStarted());
  EXPECT_FALSE(informer_->HasSynced());
  EXPECT_FALSE(informer_->IsStopped());
  EXPECT_EQ(informer_->LastSyncResourceVersion(), "");
  auto handler = std::make_shared<RecordingHandler>();
  const auto registration = *informer_->AddEventHandler(handler);
  EXPECT_FALSE(registration->HasSynced());
  Sync();
  EXPECT_TRUE(informer_->IsStarted());
  EXPECT_FALSE(informer_->IsStopped());
  EXPECT_NE(informer_->LastSyncResourceVersion(), "");
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return registration->HasSynced(); }));
  informer_->Stop();
  EXPECT_TRUE(informer_->IsStopped());
  EXPECT_EQ(informer_->AddEventHandler(handler).error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(informer_->RemoveEventHandler(registration)) << "also after the stop";
  EXPECT_TRUE(informer_->GetStore().GetByKey({"x", "a"})) << "what is stored stays readable";
}

TEST_F(InformerTest, NothingIsHeardAfterStop) {
  CreatePod("a");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(handler));
  Sync();
  for (int i = 0; i < 50; ++i) TouchPod("a");
  informer_->Stop();
  const size_t heard = handler->Calls().size();
  TouchPod("a");
  informer_->Stop();
  EXPECT_EQ(handler->Calls().size(), heard);
}

TEST_F(InformerTest, TransformThatFailsSkipsNothing) {
  CreatePod("a");
  CreatePod("b");
  std::atomic<bool> broken{true};
  InformerOptions options;
  options.transform.name = "sometimes@1";
  options.transform.apply = [&](const ObjectPtr& pod) -> Result<ObjectPtr> {
    if (broken && pod->name() == "b") throw std::runtime_error("asked to throw");
    return pod;
  };
  Open(std::move(options));
  informer_->Start();
  const RecordingHandler waiter;
  ASSERT_TRUE(waiter.WaitFor(
      [&](const auto&) { return informer_->Status().reflector.last_error.has_value(); }));
  EXPECT_FALSE(informer_->HasSynced());
  broken = false;
  const auto synced = informer_->WaitForSync(RealClock()->Now() + seconds(30), {});
  ASSERT_TRUE(synced) << synced.error().ToString();
  EXPECT_EQ(*informer_->GetIndexer().Count(), 2u);
  informer_->Stop();
}

// The clock stands still: whoever looked again after a while would look once.
class StandingClockTest : public ResyncTest {
 protected:
  std::future<Result<void>> BeginWait() {
    auto synced = std::async(std::launch::async,
                             [this] { return informer_->WaitForSync(Clock::Steady::max(), {}); });
    EXPECT_TRUE(waiter_.WaitFor([this](const auto&) { return clock_.Waiters() > 0; }));
    return synced;
  }
};

TEST_F(StandingClockTest, WaitForSyncIsWokenWhenItIsInSync) {
  CreatePod("a");
  OpenOnFakeClock();
  auto synced = BeginWait();
  informer_->Start();
  ASSERT_EQ(synced.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_TRUE(synced.get());
  EXPECT_TRUE(informer_->HasSynced());
}

// No list tells a resumed one: it is in sync with the first event of its watch.
TEST_F(StandingClockTest, WaitForSyncIsWokenWhenAWatchIsAccepted) {
  Open();
  Sync();
  Close();
  OpenOnFakeClock();
  auto synced = BeginWait();
  informer_->Start();
  ASSERT_TRUE(
      waiter_.WaitFor([this](const auto&) { return informer_->Status().reflector.watches > 0; }));
  EXPECT_FALSE(informer_->HasSynced());
  CreatePod("a");
  const bool woken = synced.wait_for(seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(woken);
  if (!woken) informer_->Stop();
  EXPECT_EQ(synced.get().has_value(), woken);
}

TEST_F(StandingClockTest, WaitForSyncIsWokenByStop) {
  OpenOnFakeClock();
  auto synced = BeginWait();
  informer_->Stop();
  ASSERT_EQ(synced.wait_for(seconds(30)), std::future_status::ready);
  const Result<void> outcome = synced.get();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kCancelled);
}

TEST_F(StandingClockTest, WaitUntilIsWokenByStop) {
  OpenOnFakeClock();
  std::stop_source give_up;
  auto reached = std::async(std::launch::async, [&] {
    return informer_->WaitUntil("999999999", Clock::Steady::max(), give_up.get_token());
  });
  ASSERT_TRUE(waiter_.WaitFor([this](const auto&) { return clock_.Waiters() > 0; }));
  informer_->Stop();
  const bool woken = reached.wait_for(seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(woken);
  give_up.request_stop();
  EXPECT_EQ(reached.get().error().code, ErrorCode::kCancelled);
}

TEST_F(InformerTest, WaitUntilServesOnesOwnWrite) {
  Open();
  Sync();
  CreatePod("mine");
  const auto made = simulator_->Get("pods", "x", "mine");
  ASSERT_TRUE(made);
  const std::string version((*made)->resource_version());
  ASSERT_TRUE(informer_->WaitUntil(version, RealClock()->Now() + seconds(30), {}));
  EXPECT_TRUE(informer_->GetIndexer().GetByKey({"x", "mine"}));
  const auto early = informer_->WaitUntil("999999999", RealClock()->Now(), {});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kTimeout);
}

TEST_F(InformerTest, HandlersThatCannotWorkAreRefused) {
  Open();
  EXPECT_EQ(informer_->AddEventHandler(nullptr).error().code, ErrorCode::kInvalidArgument);
  HandlerOptions options;
  options.resync_period = std::chrono::milliseconds(-1);
  const auto refused = informer_->AddEventHandler(std::make_shared<RecordingHandler>(), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("resync_period is -1 ms"), std::string::npos);
}

}  // namespace
}  // namespace larder
