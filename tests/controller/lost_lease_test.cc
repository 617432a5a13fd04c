// What a manager does when its work must end: the lease is lost, or running out, and something
// ignores its stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "controller/manager.h"
#include "tests/controller/fixture.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class LostLeaseTest : public ControllerTest {
 protected:
  // The server does not answer renewals any more.
  void HoldRenewals() {
    cluster().AddFault({.type = apiserver::FaultType::kDelay,
                        .resource = "leases.coordination.k8s.io",
                        .times = -1,
                        .delay_ms = 5'000});
  }
  void RefuseRenewals() {
    cluster().AddFault({.type = apiserver::FaultType::kError,
                        .resource = "leases.coordination.k8s.io",
                        .times = -1,
                        .code = 500});
  }
  // Counts its run, and does not end before the gate is open.
  ReconcileFunction IgnoringItsStop(std::shared_ptr<Gate> gate) {
    return [this, gate = std::move(gate)](ReconcileContext&, const ReconcileRequest& request) {
      runs_.Add(request.key.ToString());
      gate->Wait();
      return Result<Outcome>(Outcome::Done());
    };
  }
  void EndStuck();
};

// Neither the request that hangs nor the wait for a reconcile that does not end may take the work
// past the lease, which another can hold from then on.
TEST_F(LostLeaseTest, ALeaseThatRunsOutBehindARequestThatHangsStopsTheWorkInTime) {
  ManagerOptions options = ElectionOptions("one");
  options.config.lease_duration = seconds(3);
  options.config.renew_deadline = seconds(2);
  options.config.retry_period = milliseconds(900);
  auto gate = std::make_shared<Gate>();
  std::atomic<bool> stuck{false};
  options.on_stuck = [&, gate] {
    stuck = true;
    gate->Open();
  };
  std::atomic<bool> told{false};
  auto manager = RunPods(
      [&, gate](ReconcileContext& context, const ReconcileRequest& request) -> Result<Outcome> {
        runs_.Add(request.key.ToString());
        told = !context.clock()->SleepFor(seconds(60), context.stop());
        gate->Wait();
        return MakeError(ErrorCode::kCancelled, "told to stop");
      },
      options);
  CreatePod("a");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  HoldRenewals();
  ASSERT_TRUE(Eventually([&] { return !(*manager)->IsLeader(); }));
  EXPECT_TRUE(testing::Environment::Eventually([&] { return told.load(); }, milliseconds(500)));
  // A second less a tenth of it is left of the lease, of which some has passed.
  EXPECT_TRUE(testing::Environment::Eventually([&] { return stuck.load(); }, milliseconds(1'200)));
  const Result<void> ended = manager->Join();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().message, HasSubstr("lost the lease default/lock"));
}

TEST_F(LostLeaseTest, ALostLeaseAsksReconcilesToEndBeforeItWaitsForAResync) {
  ManagerOptions options = ElectionOptions("one");
  options.config.resync_period = milliseconds(20);
  auto gate = std::make_shared<Gate>();
  std::atomic<bool> hold{false};
  std::atomic<bool> held{false};
  std::atomic<bool> told{false};
  const Predicate slow = [&, gate](const ObjectChange&) {
    if (hold) {
      held = true;
      gate->Wait();
    }
    return true;
  };
  CreatePod("a");
  auto manager = Run(
      [&](Manager& target) {
        return ControllerBuilder(target)
            .For("pods", {.predicates = {slow}})
            .Complete(
                [&](ReconcileContext& context, const ReconcileRequest& request) -> Result<Outcome> {
                  runs_.Add(request.key.ToString());
                  told = !context.clock()->SleepFor(seconds(60), context.stop());
                  return MakeError(ErrorCode::kCancelled, "told to stop");
                });
      },
      options);
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  hold = true;
  ASSERT_TRUE(Eventually([&] { return held.load(); }));
  RefuseRenewals();
  EXPECT_TRUE(testing::Environment::Eventually([&] { return told.load(); }, seconds(5)));
  gate->Open();
  EXPECT_FALSE(manager->Join());
}

TEST_F(LostLeaseTest, ALostLeaseStopsTheWorkAndEndsRun) {
  std::atomic<bool> told{false};
  auto manager = Run(
      [&](Manager& target) {
        return ControllerBuilder(target).For("pods").Complete(
            [&](ReconcileContext& context, const ReconcileRequest& request) -> Result<Outcome> {
              runs_.Add(request.key.ToString());
              told = !context.clock()->SleepFor(seconds(60), context.stop());
              const auto written = context.client().Delete("pods", request.key);
              EXPECT_FALSE(written);
              return MakeError(ErrorCode::kCancelled, "told to stop");
            });
      },
      ElectionOptions("one"));
  CreatePod("a");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  RefuseRenewals();
  const Result<void> ended = manager->Join();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().message, HasSubstr("lost the lease default/lock"));
  EXPECT_TRUE(told);
  EXPECT_TRUE(cluster().Get("pods", "default", "a"));
}

// A resync that does not end is work that does not end: it is not waited for longer than the lease.
TEST_F(LostLeaseTest, AResyncThatHangsKeepsNoWorkBeyondTheLease) {
  ManagerOptions options = ElectionOptions("one");
  options.config.lease_duration = seconds(3);
  options.config.renew_deadline = seconds(2);
  options.config.resync_period = milliseconds(20);
  Gate resync;
  auto reconcile = std::make_shared<Gate>();
  std::atomic<bool> hold{false};
  std::atomic<bool> held{false};
  std::atomic<bool> stuck{false};
  options.on_stuck = [&, reconcile] {
    stuck = true;
    reconcile->Open();
  };
  const Predicate slow = [&](const ObjectChange&) {
    if (hold) {
      held = true;
      resync.Wait();
    }
    return true;
  };
  CreatePod("a");
  auto manager = Run(
      [&](Manager& target) {
        return ControllerBuilder(target)
            .For("pods", {.predicates = {slow}})
            .Complete(IgnoringItsStop(reconcile));
      },
      options);
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  hold = true;
  ASSERT_TRUE(Eventually([&] { return held.load(); }));
  RefuseRenewals();
  ASSERT_TRUE(Eventually([&] { return !(*manager)->IsLeader(); }));
  // A second less a tenth of it is left of the lease.
  EXPECT_TRUE(testing::Environment::Eventually([&] { return stuck.load(); }, milliseconds(1'200)));
  resync.Open();
  reconcile->Open();
  EXPECT_FALSE(manager->Join());
}

// The time that reconciles have to end when they are asked to is no longer than the lease.
TEST_F(LostLeaseTest, AStopLeavesNoWorkBeyondALeaseThatIsNotRenewedAnyMore) {
  ManagerOptions options = ElectionOptions("one");
  options.config.lease_duration = seconds(2);
  options.config.renew_deadline = milliseconds(1'700);
  options.config.shutdown_timeout = milliseconds(1);
  auto gate = std::make_shared<Gate>();
  std::atomic<bool> stuck{false};
  options.on_stuck = [&, gate] {
    stuck = true;
    gate->Open();
  };
  auto manager = RunPods(IgnoringItsStop(gate), options);
  CreatePod("a");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  HoldRenewals();
  RealClock()->SleepFor(milliseconds(1'300), {});
  std::jthread stopper([&] { static_cast<void>(manager->Stop()); });
  // 0.7 s are left of the lease, and less if the last renewal was before the fault.
  EXPECT_TRUE(testing::Environment::Eventually([&] { return stuck.load(); }, milliseconds(1'200)));
}

// A log whose reader is gone, or a disk that does not answer.
class SinkThatHangs final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (message.level != spdlog::level::critical) return;
    std::cerr << std::string_view(message.payload.data(), message.payload.size()) << std::endl;
    Gate().Wait();
  }
  void flush_() override {}
};

void LostLeaseTest::EndStuck() {
  // For a process that does not end.
  const std::jthread guard([](const std::stop_token& stop) {
    RealClock()->SleepFor(seconds(20), stop);
    std::_Exit(3);
  });
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<SinkThatHangs>()));
  ManagerOptions options = environment_->Options();
  options.config.shutdown_timeout = milliseconds(1);
  auto manager = RunPods(IgnoringItsStop(std::make_shared<Gate>()), options);
  CreatePod("a");
  Eventually([&] { return runs_.Of("default/a") == 1; });
  static_cast<void>(manager->Stop());
}

TEST_F(LostLeaseTest, TheProcessEndsThoughTheLogHangs) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(EndStuck(), ::testing::ExitedWithCode(1),
              "a reconcile does not end controller=pods key=default/a");
}

}  // namespace
}  // namespace larder
