// Handlers over several informers: one at a time, removed from all of them, left behind by all.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "tests/informer/tenant_fixture.h"

namespace larder {
namespace {

// Hears of "x" and of "z", each on its own thread. Gathers, if it is told to, and hangs where it is
// told to until it is let go.
class TwoPartHandler final : public EventHandler {
 public:
  explicit TwoPartHandler(std::chrono::nanoseconds max_delay = {}) : max_delay_(max_delay) {}
  void OnAdd(const ObjectPtr&, bool) override {}
  void OnUpdate(const ObjectPtr&, const ObjectPtr& now) override {
    ++updates;
    if (now->ns() == hang_on) Hang();
  }
  void OnDelete(const ObjectPtr&, bool) override {}
  std::chrono::nanoseconds MaxDelay() const override { return max_delay_; }
  Result<void> Flush() override {
    if (hangs) flushed_beside = true;
    if (hang_in_flush) Hang();
    return {};
  }

  void WaitUntilHangs() { hangs.wait(false); }
  void LetGo() {
    let_go_ = true;
    let_go_.notify_all();
  }

  std::string hang_on;
  std::atomic<bool> hang_in_flush{false}, hangs{false}, flushed_beside{false};
  std::atomic<int> updates{0};

 private:
  void Hang() {
    hangs = true;
    hangs.notify_all();
    let_go_.wait(false);
    hangs = false;
  }

  const std::chrono::nanoseconds max_delay_;
  std::atomic<bool> let_go_{false};
};

class ScopedHandlerTest : public TenantTest {
 protected:
  void TearDown() override {
    scoped_.reset();
    TenantTest::TearDown();
  }
  void OpenScoped(std::chrono::milliseconds grace) {
    if (!store_) OpenParts();
    factory_ = std::make_unique<SharedInformerFactory>(Context());
    InformerOptions options = Pods();
    options.handler_grace = grace;
    scoped_ = *factory_->Scoped(options, {"x", "z"});
  }
  std::shared_ptr<ScopedInformer::Registration> Register(
      const std::shared_ptr<EventHandler>& handler) {
    HandlerOptions durable;
    durable.durable_name = "watcher";
    const auto registration = *scoped_->AddEventHandler(handler, durable);
    StartAll();
    EXPECT_TRUE(RecordingHandler().WaitFor([&](const auto&) { return registration->HasSynced(); }));
    return registration;
  }

  std::unique_ptr<ScopedInformer> scoped_;
};

TEST_F(ScopedHandlerTest, NoFlushOfOnePartComesBesideACallOfAnother) {
  OpenScoped(std::chrono::minutes(10));
  const auto handler = std::make_shared<TwoPartHandler>(std::chrono::hours(1));
  handler->hang_on = "x";
  Register(handler);
  Relabel("z", "far", "blue");  // gathered, so that it is to be flushed
  ASSERT_TRUE(RecordingHandler().WaitFor([&](const auto&) { return handler->updates == 1; }));
  Relabel("x", "mine", "blue");
  handler->WaitUntilHangs();
  const auto informers = *factory_->ForNamespaces(Pods(), {"x", "z"});
  auto stopping = std::async(std::launch::async, [this] { return factory_->Shutdown(); });
  while (!informers[1]->IsStopped()) std::this_thread::yield();
  for (int i = 0; i < 20000 && !handler->flushed_beside; ++i) std::this_thread::yield();
  handler->LetGo();
  EXPECT_TRUE(stopping.get().empty());
  EXPECT_FALSE(handler->flushed_beside);
}

TEST_F(ScopedHandlerTest, AHandlerThatHangsInItsFlushCanBeRemoved) {
  OpenScoped(std::chrono::milliseconds(0));
  auto handler = std::make_shared<TwoPartHandler>(std::chrono::milliseconds(1));
  const auto registration = Register(handler);
  handler->hang_in_flush = true;
  Relabel("x", "mine", "blue");
  handler->WaitUntilHangs();
  auto removing =
      std::async(std::launch::async, [&] { return scoped_->RemoveEventHandler(registration); });
  ASSERT_EQ(removing.wait_for(kTenantPatience), std::future_status::ready);
  EXPECT_EQ(removing.get().error().code, ErrorCode::kTimeout);
  handler->LetGo();
}

// Two threads are left behind, one of them waiting for the other: when that returns, the handler
// hears nothing more, and what it did not hear is told to the next process.
TEST_F(ScopedHandlerTest, WhatIsLeftBehindCallsItNoMoreAndAcknowledgesNothing) {
  OpenScoped(std::chrono::milliseconds(0));
  auto handler = std::make_shared<TwoPartHandler>();
  handler->hang_on = "x";
  auto registration = Register(handler);
  Relabel("x", "mine", "blue");
  handler->WaitUntilHangs();
  Relabel("z", "far", "blue");
  ASSERT_TRUE(RecordingHandler().WaitFor([&](const auto&) {
    const auto stats = registration->Stats();
    return stats[0].buffered > 0 && stats[1].buffered > 0;
  }));
  const auto left = factory_->Shutdown();
  EXPECT_FALSE(left.empty());
  registration.reset();
  scoped_.reset();
  factory_.reset();
  Close();
  handler->LetGo();
  const auto alone = [&](const auto&) { return handler.use_count() == 1; };
  EXPECT_TRUE(RecordingHandler().WaitFor(alone));
  EXPECT_EQ(handler->updates, 1);
  OpenScoped(std::chrono::minutes(10));
  const auto next = std::make_shared<RecordingHandler>();
  Register(next);
  EXPECT_TRUE(next->WaitFor(
      [](const auto& h) { return h.Count("update x/mine") == 1 && h.Count("update z/far") == 1; }));
}

TEST_F(ScopedHandlerTest, NoHandlerIsRefused) {
  OpenScoped(std::chrono::minutes(10));
  EXPECT_EQ(scoped_->AddEventHandler(nullptr).error().code, ErrorCode::kInvalidArgument);
}

// The second part refuses it: the first must let go of it.
TEST_F(ScopedHandlerTest, AnEnqueuerThatCouldNotBeAddedMayBeAddedAgain) {
  OpenScoped(std::chrono::minutes(10));
  StartAll();
  const auto queue = *WorkQueue::Open({.name = "work", .store = store_.get()});
  const auto informers = *factory_->ForNamespaces(Pods(), {"x", "z"});
  const auto enqueue_key = [](const ObjectChange& change, const Enqueue& enqueue) {
    enqueue(change.current()->key().ToString(), 0);
  };
  ASSERT_TRUE(informers[1]->AddEnqueuer(queue.get(), {.name = "watcher"}, enqueue_key));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto refused = scoped_->AddEnqueuer(queue.get(), {.name = "watcher"}, enqueue_key);
    EXPECT_EQ(refused.error().code, ErrorCode::kAlreadyExists);
    EXPECT_TRUE(informers[0]->AddEnqueuer(queue.get(), {.name = std::to_string(attempt)}, {}));
  }
  // What changes is kept for it: its name is known.
  Relabel("x", "mine", "blue");
  const auto version = simulator_->Snapshot("pods").at("x/mine").second;
  ASSERT_TRUE(informers[0]->WaitUntil(version, RealClock()->Now() + kTenantPatience, {}));
  while (const auto item = queue->Get({}, std::chrono::milliseconds(200))) queue->Done(*item);
  ASSERT_TRUE(informers[0]->AddEnqueuer(queue.get(), {.name = "watcher"}, enqueue_key));
  EXPECT_EQ(queue->Get({}, kTenantPatience), "x/mine");
  factory_->Shutdown();
}

// One of its parts refuses it: the others must not have forgotten who it was.
TEST_F(TenantTest, AFailedRegistrationLeavesADurableNameAsItWas) {
  HandlerOptions durable;
  durable.durable_name = "watcher";
  const auto open = [&] {
    if (!store_) OpenParts();
    factory_ = std::make_unique<SharedInformerFactory>(Context());
    auto scoped = factory_->Scoped(Pods(), {"x", "z"});
    EXPECT_TRUE(scoped) << scoped.error().ToString();
    return *std::move(scoped);
  };
  {
    const auto pods = open();
    const auto handler = std::make_shared<RecordingHandler>();
    const auto registration = pods->AddEventHandler(handler, durable);
    ASSERT_TRUE(registration);
    StartAll();
    ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  }
  factory_.reset();
  Close();
  const auto pods = open();
  const std::vector<SharedInformer*> parts = *factory_->ForNamespaces(Pods(), {"x", "z"});
  SharedInformer* const first = parts[0];
  ASSERT_EQ(first->options().ns, "x");
  ASSERT_TRUE(parts[1]->AddEventHandler(std::make_shared<RecordingHandler>(), durable));
  EXPECT_EQ(pods->AddEventHandler(std::make_shared<RecordingHandler>(), durable).error().code,
            ErrorCode::kAlreadyExists);
  StartAll();
  Relabel("x", "mine", "blue");
  const auto version = simulator_->Snapshot("pods").at("x/mine").second;
  ASSERT_TRUE(first->WaitUntil(version, RealClock()->Now() + kTenantPatience, {}));
  const auto handler = std::make_shared<RecordingHandler>();
  const auto registration = first->AddEventHandler(handler, durable);
  ASSERT_TRUE(registration);
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_EQ(handler->Calls().size(), 1u);
  EXPECT_EQ(handler->Count("update x/mine"), 1u);
}

// It has the turn for which the thread of the other namespace waits.
TEST_F(TenantTest, AHandlerOfSeveralNamespacesMayRemoveItself) {
  InformerOptions options = Pods();
  options.handler_grace = std::chrono::seconds(2);
  const auto pods = factory_->Scoped(options, {"x", "z"});
  ASSERT_TRUE(pods) << pods.error().ToString();
  std::shared_ptr<ScopedInformer::Registration> registration;
  std::atomic<int> calls{0};
  std::atomic<bool> removed{false};
  auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_add = [&](const ObjectPtr&, bool) {
    if (++calls > 1) return;
    const auto delivers = [](const ListenerStats& stats) { return stats.buffered > 0; };
    EXPECT_TRUE(RecordingHandler().WaitFor([&](const auto&) {
      const auto stats = registration->Stats();
      return std::all_of(stats.begin(), stats.end(), delivers);
    }));
    for (int i = 0; i < 2000; ++i) std::this_thread::yield();
    const auto outcome = (*pods)->RemoveEventHandler(registration);
    EXPECT_TRUE(outcome) << outcome.error().ToString();
    removed = true;
  };
  registration = *(*pods)->AddEventHandler(handler);
  StartAll();
  EXPECT_TRUE(RecordingHandler().WaitFor([&](const auto&) { return removed.load(); }));
  EXPECT_TRUE(factory_->Shutdown().empty());
  EXPECT_EQ(calls, 1);
}

// Its threads swallow what they are told once it is closed: no name may count that as heard.
TEST_F(TenantTest, AHandlerIsWithdrawnFromAllNamespacesBeforeAnyIsWaitedFor) {
  const auto pods = factory_->Scoped(Pods(), {"x", "z"});
  ASSERT_TRUE(pods) << pods.error().ToString();
  HandlerOptions durable;
  durable.durable_name = "watcher";
  std::promise<void> told, release;
  auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_update = [&](const ObjectPtr&, const ObjectPtr&) {
    told.set_value();
    release.get_future().wait();
  };
  const auto registration = (*pods)->AddEventHandler(handler, durable);
  StartAll();
  ASSERT_TRUE(
      RecordingHandler().WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  Relabel("x", "mine", "blue");
  told.get_future().wait();
  auto removing =
      std::async(std::launch::async, [&] { return (*pods)->RemoveEventHandler(*registration); });
  const auto informers = factory_->ForNamespaces(Pods(), {"x", "z"});
  EXPECT_TRUE(RecordingHandler().WaitFor([&](const auto&) {
    return std::all_of(informers->begin(), informers->end(), [](SharedInformer* informer) {
      return informer->Status().handlers.empty();
    });
  }));
  release.set_value();
  EXPECT_TRUE(removing.get());
}

TEST_F(TenantTest, SeveralNamespacesInOneRequestAreSeenAsOne) {
  const auto pods = factory_->Scoped(Pods(), {"x", "z"});
  ASSERT_TRUE(pods) << pods.error().ToString();
  auto handler = std::make_shared<RecordingHandler>();
  const auto registration = (*pods)->AddEventHandler(handler);
  ASSERT_TRUE(registration);
  StartAll();
  EXPECT_TRUE((*pods)->HasSynced());
  EXPECT_EQ(KeysOf((*pods)->List({})->objects), (Keys{"x/mine", "x/other", "z/far"}));
  EXPECT_EQ(KeysOf(*(*pods)->ByIndex("node", "n1")), (Keys{"x/mine", "x/other", "z/far"}));
  EXPECT_FALSE((*pods)->Get({"y", "mine"}));
  ASSERT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("add") == 3; }));
  Relabel("z", "far", "blue");
  EXPECT_TRUE(handler->WaitFor([](const auto& h) { return h.Count("update z/far") == 1; }));
  EXPECT_TRUE((*pods)->RemoveEventHandler(*registration));
}

}  // namespace
}  // namespace larder
