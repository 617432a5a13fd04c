// What a controller does with a run that failed, without a cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>

#include "client/config.h"
#include "controller/controller.h"
#include "controller/reconciler.h"
#include "tests/controller/fixture.h"

namespace larder {
namespace {

using std::chrono::seconds;

class SettleTest : public ::testing::Test {
 protected:
  class Function final : public Reconciler {
   public:
    explicit Function(ReconcileFunction function) : function_(std::move(function)) {}
    Result<Outcome> Reconcile(ReconcileContext& context, const ReconcileRequest& request) override {
      return function_(context, request);
    }

   private:
    const ReconcileFunction function_;
  };

  void Make(ReconcileFunction reconcile) {
    Controller::Definition definition;
    definition.name = "test";
    definition.options.max_concurrent_reconciles = 1;
    definition.reconciler = std::make_shared<Function>(std::move(reconcile));
    WorkQueueOptions options;
    options.max_retries = max_retries_;
    options.clock = clock_;
    Controller::Environment environment;
    environment.client = &client_;
    environment.registry = &registry_;
    environment.clock = clock_;
    environment.leads = [this] { return leads_.load(); };
    controller_ = std::make_unique<Controller>(
        std::move(definition), std::make_unique<WorkQueue>(std::move(options)), environment);
  }
  static bool Eventually(const std::function<bool()>& condition) {
    return testing::Environment::Eventually(condition);
  }

  RunCounts runs_;
  std::atomic<bool> leads_{true};
  std::optional<uint32_t> max_retries_;
  Clock* clock_ = RealClock();
  std::unique_ptr<HttpTransport> transport_ = *MakeTransport(ForUrl("http://127.0.0.1:1"));
  CachedClient client_{*transport_};
  prometheus::Registry registry_;
  std::unique_ptr<Controller> controller_;  // last: its runs use all of these
};

TEST_F(SettleTest, AWriteThatIsRefusedBecauseTheLeaseIsLostIsNoFailureOfTheKey) {
  max_retries_ = 0;
  std::atomic<uint32_t> failures{99};
  Make([&](ReconcileContext&, const ReconcileRequest& request) -> Result<Outcome> {
    if (runs_.Add(request.key.ToString()) == 1) {
      leads_ = false;
      return MakeError(ErrorCode::kCancelled, "not written: the lease is not ours");
    }
    failures = request.failures;
    return Outcome::Done();
  });
  ASSERT_TRUE(controller_->Trigger({"default", "a"}));
  controller_->Start();
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 2; }));
  EXPECT_EQ(failures, 0u);
  EXPECT_TRUE(controller_->queue().DeadLetters().empty());
}

TEST_F(SettleTest, AFailedRunKeepsItsPriorityWhateverWasAddedMeanwhile) {
  Make([&](ReconcileContext&, const ReconcileRequest& request) -> Result<Outcome> {
    if (runs_.Add(request.key.ToString()) > 1 || request.key.name != "live") return Outcome::Done();
    // As a resync does.
    EXPECT_TRUE(controller_->queue().AddWithPriority("default/live", -100));
    return MakeError(ErrorCode::kUnavailable, "not yet");
  });
  WorkQueue& queue = controller_->queue();
  ASSERT_TRUE(queue.AddWithPriority("default/live", 0));
  for (const char* key : {"default/a", "default/b"}) ASSERT_TRUE(queue.AddWithPriority(key, -50));
  controller_->Start();
  EXPECT_TRUE(Eventually([&] { return runs_.Order().size() == 4; }));
  EXPECT_THAT(runs_.Order(),
              ::testing::ElementsAre("default/live", "default/live", "default/a", "default/b"));
}

TEST_F(SettleTest, ARetryComesNoSoonerThanTheServerAskedFor) {
  FakeClock clock;
  clock_ = &clock;
  Make([&](ReconcileContext&, const ReconcileRequest& request) -> Result<Outcome> {
    if (runs_.Add(request.key.ToString()) > 1) return Outcome::Done();
    return tl::unexpected(Error{ErrorCode::kTooManyRequests, "busy", seconds(30), {}});
  });
  ASSERT_TRUE(controller_->Trigger({"default", "a"}));
  controller_->Start();
  const auto waits = [&] {
    const auto items = controller_->queue().Items();
    return items.size() == 1 && !items[0].in_process && items[0].pending == PendingPhase::kDelayed;
  };
  ASSERT_TRUE(Eventually(waits));
  clock.Advance(seconds(29));
  EXPECT_TRUE(waits());
  EXPECT_EQ(runs_.Of("default/a"), 1);
  clock.Advance(seconds(1));
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 2; }));
  controller_.reset();  // before its clock goes
}

}  // namespace
}  // namespace larder
