// Handlers that do not return when they are to end.
#include <atomic>
#include <future>
#include <thread>

#include "informer/factory.h"
#include "tests/informer/fixture.h"

namespace larder {
namespace {

// Does not return from OnUpdate before it is let go.
class StubbornHandler final : public EventHandler {
 public:
  void OnAdd(const ObjectPtr&, bool) override {}
  void OnUpdate(const ObjectPtr&, const ObjectPtr&) override {
    entered_ = true;
    entered_.notify_all();
    released_.wait(false);
  }
  void OnDelete(const ObjectPtr&, bool) override {}

  void WaitUntilEntered() const { entered_.wait(false); }
  void Release() {
    released_ = true;
    released_.notify_all();
  }

 private:
  std::atomic<bool> entered_{false};
  std::atomic<bool> released_{false};
};

HandlerOptions Named(const std::string& name) {
  HandlerOptions options;
  options.durable_name = name;
  return options;
}

class StopTest : public InformerTest {
 protected:
  void OpenWithGrace(std::chrono::milliseconds grace) {
    InformerOptions options;
    options.handler_grace = grace;
    Open(std::move(options));
  }
  // An informer with one pod and a handler that is stuck in its change.
  SharedInformer::Registration GetStuck(const std::string& name) {
    CreatePod("a");
    const auto registration = informer_->AddEventHandler(handler_, Named(name));
    EXPECT_TRUE(registration);
    Sync();
    const auto synced = [&](const auto&) { return (*registration)->HasSynced(); };
    EXPECT_TRUE(RecordingHandler().WaitFor(synced));
    TouchPod("a");
    handler_->WaitUntilEntered();
    return *registration;
  }
  // Lets it return, and waits until its thread has let go of it.
  void ReleaseAndWait() {
    const std::weak_ptr<StubbornHandler> left = handler_;
    handler_->Release();
    handler_.reset();
    EXPECT_TRUE(RecordingHandler().WaitFor([&](const auto&) { return left.expired(); }));
  }

  std::shared_ptr<StubbornHandler> handler_ = std::make_shared<StubbornHandler>();
};

TEST_F(StopTest, StopNamesAHandlerThatDoesNotReturnAndGoesOn) {
  OpenWithGrace(std::chrono::milliseconds(0));
  GetStuck("watcher");
  EXPECT_EQ(informer_->Stop(), std::vector<std::string>{"watcher"});
  EXPECT_TRUE(informer_->Stop().empty()) << "stopped already";
  // All that it was part of goes away while it is still busy, and can be opened again.
  Close();
  Open();
  auto next = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(next, Named("watcher")));
  EXPECT_TRUE(next->WaitFor([](const auto& h) { return h.Count("update x/a") == 1; }))
      << "what it did not return from is not acknowledged";
  Close();
  ReleaseAndWait();
}

TEST_F(StopTest, AHandlerThatReturnsWithinTheGraceIsWaitedFor) {
  OpenWithGrace(std::chrono::minutes(10));
  GetStuck("watcher");
  auto stopping = std::async(std::launch::async, [this] { return informer_->Stop(); });
  while (!informer_->IsStopped()) std::this_thread::yield();
  handler_->Release();
  EXPECT_TRUE(stopping.get().empty());
  Close();
  Open();
  auto next = std::make_shared<RecordingHandler>();
  const auto registration = informer_->AddEventHandler(next, Named("watcher"));
  ASSERT_TRUE(registration);
  Sync();
  ASSERT_TRUE(next->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_TRUE(next->Calls().empty()) << "it was acknowledged";
}

// Whoever of them sees the end of its thread first, one alone may join it.
TEST_F(StopTest, AHandlerMayBeRemovedWhileTheInformerStops) {
  OpenWithGrace(std::chrono::minutes(10));
  const auto registration = GetStuck("watcher");
  auto stopping = std::async(std::launch::async, [this] { return informer_->Stop(); });
  while (!informer_->IsStopped()) std::this_thread::yield();
  auto removing =
      std::async(std::launch::async, [&] { return informer_->RemoveEventHandler(registration); });
  while (!informer_->Status().handlers.empty()) std::this_thread::yield();
  handler_->Release();
  EXPECT_TRUE(stopping.get().empty());
  EXPECT_TRUE(removing.get());
}

// The one that has no patience left decides for both.
TEST_F(StopTest, WhoWaitsForAHandlerHearsThatAnotherLeftItBehind) {
  OpenWithGrace(std::chrono::minutes(10));
  auto registration = GetStuck("watcher");
  auto removing =
      std::async(std::launch::async, [&] { return informer_->RemoveEventHandler(registration); });
  while (!informer_->Status().handlers.empty()) std::this_thread::yield();
  EXPECT_FALSE(registration->Stop(RealClock()->Now()));
  EXPECT_EQ(removing.get().error().code, ErrorCode::kTimeout);
  registration.reset();
  ReleaseAndWait();
}

// Nothing is kept for it any more, so it must not count as known; and the end of its last call must
// take nothing from the next one of its name.
TEST_F(StopTest, ARemovedNameIsForgottenBeforeItsHandlerReturns) {
  OpenWithGrace(std::chrono::minutes(10));
  const auto registration = GetStuck("watcher");
  auto removing =
      std::async(std::launch::async, [&] { return informer_->RemoveEventHandler(registration); });
  while (!informer_->Status().handlers.empty()) std::this_thread::yield();
  auto next = std::make_shared<RecordingHandler>();
  const auto again = informer_->AddEventHandler(next, Named("watcher"));
  ASSERT_TRUE(again);
  ASSERT_TRUE(next->WaitFor([&](const auto&) { return (*again)->HasSynced(); }));
  EXPECT_EQ(next->Calls(), std::vector<std::string>{"add x/a initial"});
  handler_->Release();
  EXPECT_TRUE(removing.get());
  Close();
  TouchPod("a");
  Open();
  auto last = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(last, Named("watcher")));
  Sync();
  ASSERT_TRUE(last->WaitFor([](const auto& h) { return !h.Calls().empty(); }));
  EXPECT_EQ(last->Count("update x/a"), 1u) << last->Calls().front();
}

// That one knows more by now, and is behind.
TEST_F(StopTest, ARemovedHandlerAcknowledgesNothingForTheNextOfItsName) {
  OpenWithGrace(std::chrono::minutes(10));
  const auto registration = GetStuck("watcher");
  TouchPod("a");
  CreatePod("b");
  CatchUp();
  auto removing =
      std::async(std::launch::async, [&] { return informer_->RemoveEventHandler(registration); });
  while (!informer_->Status().handlers.empty()) std::this_thread::yield();
  std::string known, old;
  std::promise<void> entered, release;
  auto next = std::make_shared<EventHandlerFuncs>();
  next->on_add = [&](const ObjectPtr& object, bool) {
    if (object->name() == "a") known = object->resource_version();
  };
  next->on_update = [&](const ObjectPtr& before, const ObjectPtr& now) {
    if (now->name() == "a") {
      old = before->resource_version();
    } else {
      entered.set_value();
      release.get_future().wait();
    }
  };
  HandlerOptions options = Named("watcher");
  options.buffer_events = 0;  // all that changes waits on disk
  const auto again = informer_->AddEventHandler(next, options);
  ASSERT_TRUE(again);
  const RecordingHandler poll;
  ASSERT_TRUE(poll.WaitFor([&](const auto&) { return (*again)->HasSynced(); }));
  TouchPod("b");
  entered.get_future().wait();
  TouchPod("a");
  CatchUp();
  handler_->Release();
  EXPECT_TRUE(removing.get());
  release.set_value();
  EXPECT_TRUE(poll.WaitFor([&](const auto&) { return (*again)->Stats().rows == 0; }));
  informer_->Stop();
  EXPECT_EQ(old, known);
}

// It is removed all the same; what changes is kept, because its name is still known.
TEST_F(StopTest, ANameThatCouldNotBeForgottenMissesNothing) {
  OpenWithGrace(std::chrono::minutes(10));
  const auto registration = GetStuck("watcher");
  handler_->Release();
  ASSERT_TRUE(
      RecordingHandler().WaitFor([&](const auto&) { return registration->Stats().rows == 0; }));
  disk_.FailLogWritesWith("durable-names");
  const auto removed = informer_->RemoveEventHandler(registration);
  disk_.FailLogWritesWith("");
  ASSERT_FALSE(removed);
  EXPECT_TRUE(informer_->Status().handlers.empty());
  TouchPod("a");
  CatchUp();
  auto next = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(next, Named("watcher")));
  ASSERT_TRUE(next->WaitFor([](const auto& h) { return !h.Calls().empty(); }));
  EXPECT_EQ(next->Count("update x/a"), 1u) << next->Calls().front();
}

TEST_F(StopTest, ARemovedHandlerThatDoesNotReturnHearsNothingMore) {
  OpenWithGrace(std::chrono::milliseconds(0));
  auto registration = GetStuck("watcher");
  const auto removed = informer_->RemoveEventHandler(registration);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::kTimeout);
  EXPECT_NE(removed.error().message.find("watcher"), std::string::npos);
  EXPECT_EQ(informer_->RemoveEventHandler(registration).error().code, ErrorCode::kNotFound);
  // The name is free, and forgotten.
  auto next = std::make_shared<RecordingHandler>();
  ASSERT_TRUE(informer_->AddEventHandler(next, Named("watcher")));
  EXPECT_TRUE(next->WaitFor([](const auto& h) { return h.Count("add x/a") == 1; }));
  TouchPod("a");
  EXPECT_TRUE(next->WaitFor([](const auto& h) { return h.Count("update x/a") == 1; }));
  registration.reset();
  ReleaseAndWait();
  EXPECT_TRUE(informer_->Stop().empty());
}

TEST_F(StopTest, ShutdownOfAFactoryNamesWhoDidNotReturn) {
  CreatePod("a");
  OpenParts();
  auto factory = std::make_unique<SharedInformerFactory>(Context());
  InformerOptions pods;
  pods.resource = *LookupResource("pods");
  pods.handler_grace = std::chrono::milliseconds(0);
  const auto informer = factory->ForResource(pods);
  ASSERT_TRUE(informer);
  auto registration = (*informer)->AddEventHandler(handler_, Named("watcher"));
  factory->Start();
  EXPECT_TRUE(
      RecordingHandler().WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  TouchPod("a");
  handler_->WaitUntilEntered();
  EXPECT_EQ(factory->Shutdown(), std::vector<std::string>{"watcher of pods"});
  registration->reset();
  factory.reset();
  Close();
  ReleaseAndWait();
}

// The first hangs for good; the second is busy when the factory shuts down, and would return once
// it is to end.
TEST_F(StopTest, AHandlerThatHangsTakesNoOtherInformersGrace) {
  CreatePod("a");
  ASSERT_TRUE(simulator_->Create(
      "configmaps",
      R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"x"}})"));
  OpenParts();
  auto factory = std::make_unique<SharedInformerFactory>(Context());
  InformerOptions options;
  options.resource = *LookupResource("pods");
  options.handler_grace = std::chrono::milliseconds(300);
  SharedInformer* const pods = *factory->ForResource(options);
  options.resource = *LookupResource("configmaps");
  SharedInformer* const maps = *factory->ForResource(options);
  auto hangs = pods->AddEventHandler(handler_, Named("hangs"));
  std::promise<void> entered, ended;
  auto slow = std::make_shared<EventHandlerFuncs>();
  slow->on_add = [&](const ObjectPtr&, bool) {
    entered.set_value();
    while (!pods->IsStopped()) std::this_thread::yield();
    // Its own informer, too: nobody waits for the first one's handler before.
    const auto patience = RealClock()->Now() + std::chrono::seconds(20);
    while (!maps->IsStopped() && RealClock()->Now() < patience) std::this_thread::yield();
  };
  ASSERT_TRUE(maps->AddEventHandler(slow, Named("slow")));
  factory->Start();
  entered.get_future().wait();
  ASSERT_TRUE(RecordingHandler().WaitFor([&](const auto&) { return (*hangs)->HasSynced(); }));
  TouchPod("a");
  handler_->WaitUntilEntered();
  EXPECT_EQ(factory->Shutdown(), std::vector<std::string>{"hangs of pods"});
  hangs->reset();
  factory.reset();
  Close();
  ReleaseAndWait();
}

}  // namespace
}  // namespace larder
