// The names and values of an informer's metrics.
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "tests/informer/fixture.h"

namespace larder {
namespace {

// The real clock, with a calendar that can be moved.
class ShiftedClock final : public Clock {
 public:
  Steady Now() const override { return RealClock()->Now(); }
  Wall WallNow() const override {
    return RealClock()->WallNow() + std::chrono::seconds(shift_seconds_.load());
  }
  bool WaitUntil(Mutex& mutex, std::condition_variable_any& condition, Steady deadline,
                 const std::stop_token& stop) override LARDER_REQUIRES(mutex) {
    return RealClock()->WaitUntil(mutex, condition, deadline, stop);
  }
  void Shift(std::chrono::seconds by) { shift_seconds_ += by.count(); }

 private:
  std::atomic<int64_t> shift_seconds_{0};
};

class MetricsTest : public InformerTest {
 protected:
  void SetUp() override {
    InformerTest::SetUp();
    registry_ = &prometheus_;
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(prometheus_.Collect()); }
  // The value of the sample whose line begins so; -9: there is none.
  double Value(const std::string& sample) const {
    const std::string text = "\n" + Text();
    const size_t at = text.find("\n" + sample + " ");
    return at == std::string::npos ? -9 : std::stod(text.substr(at + sample.size() + 2));
  }

  void OpenOnTheClock() {
    CreatePod("a");
    options_.clock = &clock_;
    Open(options_);
    Sync();
  }
  bool IsCurrentSoon() {
    return RecordingHandler().WaitFor(
        [&](const auto&) { return informer_->SyncLag().count() == 0; });
  }

  ShiftedClock clock_;
  InformerOptions options_;  // with that clock
  prometheus::Registry prometheus_;
};

TEST_F(MetricsTest, CountsObjectsBytesEventsAndHandlers) {
  CreatePod("a");
  CreatePod("b");
  Open();
  auto handler = std::make_shared<RecordingHandler>();
  HandlerOptions options;
  options.durable_name = "watcher";
  options.buffer_events = 2;
  const auto registration = informer_->AddEventHandler(handler, options);
  ASSERT_TRUE(registration);
  Sync();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  handler->Block();
  for (int i = 0; i < 5; ++i) {
    TouchPod("a");
    CatchUp();
  }
  DeletePod("b");
  CatchUp();
  informer_->PublishMetrics();
  EXPECT_EQ(Value(R"(cache_size{collection="pods"})"), 1) << Text();
  EXPECT_EQ(Value(R"(larder_informer_bytes{collection="pods"})"),
            static_cast<double>((*informer_->GetStore().GetByKey({"x", "a"}))->json().size()));
  EXPECT_EQ(Value(R"(larder_informer_events_total{collection="pods",type="added"})"), 2);
  EXPECT_EQ(Value(R"(larder_informer_events_total{collection="pods",type="deleted"})"), 1);
  EXPECT_GE(Value(R"(larder_informer_events_total{collection="pods",type="updated"})"), 1);
  EXPECT_GE(Value(R"(larder_handler_waiting{collection="pods",handler="watcher"})"), 2);
  EXPECT_EQ(Value(R"(larder_handler_spilling{collection="pods",handler="watcher"})"), 1);
  EXPECT_GE(Value(R"(larder_handler_lag_seconds{collection="pods",handler="watcher"})"), 0);
  EXPECT_GE(Value(R"(larder_handler_merges_total{collection="pods",handler="watcher"})"), 2);
  EXPECT_GE(Value("cache_hits_total"), 1);
  EXPECT_GE(Value("cache_misses_total"), 0);
  EXPECT_EQ(Value(R"(larder_reflector_watches_total{collection="pods"})"), 1);
  EXPECT_EQ(Value(R"(larder_reflector_lists_total{collection="pods",reason="first"})"), 1);
  EXPECT_GE(Value(R"(larder_informer_cursor_age_seconds{collection="pods"})"), 0);
  handler->Unblock();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return !(*registration)->Stats().spilling; }));
  ASSERT_TRUE(handler->WaitFor([&](const auto&) {
    return Value(R"(larder_handler_waiting{collection="pods",handler="watcher"})") == 0;
  })) << "published by itself";
  ASSERT_TRUE(informer_->RemoveEventHandler(*registration));
  informer_->PublishMetrics();
  EXPECT_EQ(Value(R"(larder_handler_waiting{collection="pods",handler="watcher"})"), -9);
}

TEST_F(MetricsTest, SizeIsKnownAfterARestartWithoutCounting) {
  for (int i = 0; i < 5; ++i) CreatePod("p" + std::to_string(i));
  Open();
  Sync();
  DeletePod("p1");
  CatchUp();
  const CollectionSyncStats before = informer_->Status().sync;
  EXPECT_EQ(before.objects, 4u);
  Close();
  Open();
  const CollectionSyncStats after = informer_->Status().sync;
  EXPECT_EQ(after.objects, before.objects);
  EXPECT_EQ(after.bytes, before.bytes);
  uint64_t bytes = 0;
  ASSERT_TRUE(informer_->GetStore().ForEach({}, [&](const ObjectPtr& object) {
    bytes += object->json().size();
    return true;
  }));
  EXPECT_EQ(after.bytes, bytes);
}

TEST_F(MetricsTest, SyncLagGrowsFromTheLastMomentThatTheCacheWasCurrent) {
  OpenOnTheClock();
  ASSERT_TRUE(IsCurrentSoon());
  Close();
  clock_.Shift(std::chrono::seconds(90));
  Open(options_);
  EXPECT_GE(informer_->SyncLag(), std::chrono::seconds(90)) << "also while nothing ran";
  EXPECT_GE(informer_->CursorAge(), std::chrono::seconds(90));
  informer_->PublishMetrics();
  EXPECT_GE(Value(R"(cache_sync_lag{collection="pods"})"), 90);
  Sync();
  ASSERT_TRUE(IsCurrentSoon());
  informer_->PublishMetrics();
  EXPECT_EQ(Value(R"(cache_sync_lag{collection="pods"})"), 0);
}

TEST_F(MetricsTest, SyncLagGrowsWhileACommitIsUnderWay) {
  OpenOnTheClock();
  ASSERT_TRUE(IsCurrentSoon());
  disk_.HoldLogWriteWith("held-back");
  CreatePod("held-back");
  disk_.AwaitHeld();
  clock_.Shift(std::chrono::seconds(90));
  EXPECT_GE(informer_->SyncLag(), std::chrono::seconds(90));
  disk_.LetGo();
  EXPECT_TRUE(IsCurrentSoon());
}

}  // namespace
}  // namespace larder
