// Leader election: client-go's timing, and never two leaders.
#include "controller/leader_elector.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "apiserver/simulator.h"
#include "client/config.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

class LeaderElectorTest : public ::testing::Test {
 protected:
  // A candidate with a clock of its own, and a network that can be slow or down.
  struct Candidate final : HttpTransport {
    Candidate(const std::string& url, const std::string& name)
        : real(*MakeTransport(ForUrl(url))), elector(*this, Options(name)) {}

    LeaderElectionOptions Options(const std::string& name) {
      LeaderElectionOptions options;
      options.ns = "kube-system";
      options.name = "lock";
      options.identity = name;
      options.clock = &clock;
      options.random_seed = 1;
      return options;
    }
    Result<Response> Do(const Request& request, const std::stop_token& stop) override {
      ++requests;
      timeout = request.timeout;
      if (before) before();
      if (down) return MakeError(ErrorCode::kUnavailable, "no network");
      auto response = real->Do(request, stop);
      if (after) after();
      if (lose_answers) return MakeError(ErrorCode::kTimeout, "the answer was lost");
      return response;
    }
    Result<std::unique_ptr<BodyStream>> Open(const Request&, const std::stop_token&) override {
      return MakeError(ErrorCode::kUnsupported, "not needed");
    }
    bool Try() { return elector.TryAcquireOrRenew({}); }

    FakeClock clock;
    std::unique_ptr<HttpTransport> real;
    bool down = false;
    bool lose_answers = false;
    int requests = 0;
    milliseconds timeout{0};  // of the last request
    std::function<void()> before;
    std::function<void()> after;
    LeaderElector elector;
  };

  void SetUp() override {
    auto started = apiserver::Simulator::Start({});
    ASSERT_TRUE(started) << started.error().ToString();
    simulator_ = *std::move(started);
    a_ = std::make_unique<Candidate>(simulator_->Url(), "a");
    b_ = std::make_unique<Candidate>(simulator_->Url(), "b");
  }
  void Advance(nanoseconds duration) {
    a_->clock.Advance(duration);
    b_->clock.Advance(duration);
  }
  Json Lease() const {
    return (*simulator_->Get("leases.coordination.k8s.io", "kube-system", "lock"))->ToMutable();
  }

  void Patch(const std::string& patch) {
    ASSERT_TRUE(simulator_->Patch("leases.coordination.k8s.io", "kube-system", "lock", patch));
  }

  std::unique_ptr<apiserver::Simulator> simulator_;
  std::unique_ptr<Candidate> a_;
  std::unique_ptr<Candidate> b_;
};

TEST_F(LeaderElectorTest, KeepsWhatOthersPutOnTheLease) {
  const auto kept = [&] {
    const Json lease = Lease();
    return lease.at("metadata").value("labels", Json::object()).value("team", "") == "x" &&
           lease.at("spec").value("strategy", "") == "OldestEmulationVersion";
  };
  ASSERT_TRUE(a_->Try());
  Patch(R"({"metadata":{"labels":{"team":"x"}},"spec":{"strategy":"OldestEmulationVersion"}})");
  ASSERT_TRUE(a_->Try());  // after a conflict
  EXPECT_TRUE(kept()) << Lease().dump();
  ASSERT_TRUE(a_->Try());  // over its own
  EXPECT_TRUE(kept()) << Lease().dump();
  a_->elector.Release();
  ASSERT_TRUE(b_->Try());
  EXPECT_TRUE(kept()) << Lease().dump();
}

struct CapturedLog {
  CapturedLog() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before); }

  std::ostringstream text;
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
};

TEST_F(LeaderElectorTest, WhatKeepsItFromTheLeaseIsInTheLogOnceAndAgainAfterAWhile) {
  CapturedLog log;
  const auto tries = [&](int count) {
    log.text.str("");
    for (int i = 0; i < count; ++i) {
      a_->Try();
      a_->clock.Advance(seconds(2));
    }
    const std::string text = log.text.str();
    size_t warnings = 0;
    for (size_t at = text.find("warning"); at != text.npos; at = text.find("warning", at + 1)) {
      ++warnings;
    }
    return warnings;
  };
  simulator_->AddFault({.type = apiserver::FaultType::kError, .times = -1, .code = 403});
  EXPECT_EQ(tries(10), 1U);
  ASSERT_FALSE(a_->elector.Ready());
  EXPECT_EQ(a_->elector.Ready().error().code, ErrorCode::kForbidden);
  EXPECT_EQ(tries(10), 1U) << "twenty seconds later";
  a_->down = true;
  EXPECT_EQ(tries(5), 1U) << "another failure";
  EXPECT_TRUE(a_->elector.Ready()) << "a server that is away makes nobody unready";
  a_->down = false;
  simulator_->ClearFaults();
  ASSERT_TRUE(b_->Try());
  EXPECT_EQ(tries(5), 0U) << "a standby is nothing to warn of";
  EXPECT_TRUE(a_->elector.Ready());
  EXPECT_EQ(a_->elector.Leader(), "b");
}

TEST_F(LeaderElectorTest, TheFirstCreatesTheLeaseAndTheOtherWaits) {
  EXPECT_TRUE(a_->Try());
  EXPECT_TRUE(a_->elector.IsLeader());
  EXPECT_FALSE(b_->Try());
  EXPECT_EQ(b_->elector.Leader(), "a");
  const Json spec = Lease()["spec"];
  EXPECT_EQ(spec["holderIdentity"], "a");
  EXPECT_EQ(spec["leaseDurationSeconds"], 15);
  EXPECT_EQ(spec["leaseTransitions"], 0);
}

TEST_F(LeaderElectorTest, RenewsWithOneRequestAndKeepsTheAcquireTime) {
  ASSERT_TRUE(a_->Try());
  const Json first = Lease()["spec"];
  Advance(seconds(2));
  const int before = a_->requests;
  ASSERT_TRUE(a_->Try());
  EXPECT_EQ(a_->requests, before + 1);
  const Json second = Lease()["spec"];
  EXPECT_EQ(first["acquireTime"], second["acquireTime"]);
  EXPECT_NE(first["renewTime"], second["renewTime"]);
}

TEST_F(LeaderElectorTest, LeadsNoLongerThanTheRenewDeadlineByTheClockAlone) {
  ASSERT_TRUE(a_->Try());
  a_->down = true;
  Advance(milliseconds(9'999));
  EXPECT_TRUE(a_->elector.IsLeader());
  Advance(milliseconds(1));
  EXPECT_FALSE(a_->elector.IsLeader());
}

TEST_F(LeaderElectorTest, AnotherTakesOverOnlyAfterTheLeaseDuration) {
  ASSERT_TRUE(a_->Try());
  ASSERT_FALSE(b_->Try());
  Advance(milliseconds(14'999));
  EXPECT_FALSE(b_->Try());
  Advance(milliseconds(1));
  EXPECT_TRUE(b_->Try());
  EXPECT_FALSE(a_->elector.IsLeader());
  EXPECT_FALSE(a_->Try());
  EXPECT_EQ(a_->elector.Leader(), "b");
  EXPECT_EQ(Lease()["spec"]["leaseTransitions"], 1);
}

TEST_F(LeaderElectorTest, TimeIsCountedFromBeforeTheRequest) {
  // A look and a write, 4 s each: 2 s of leading are left when the answer comes.
  a_->after = [this] { Advance(seconds(4)); };
  ASSERT_TRUE(a_->Try());
  Advance(milliseconds(1'999));
  EXPECT_TRUE(a_->elector.IsLeader());
  Advance(milliseconds(1));
  EXPECT_FALSE(a_->elector.IsLeader());
}

TEST_F(LeaderElectorTest, AnAnswerThatComesTooLateDoesNotMakeALeader) {
  a_->after = [this] { Advance(seconds(11)); };
  EXPECT_FALSE(a_->Try());
  EXPECT_FALSE(a_->elector.IsLeader());
}

TEST_F(LeaderElectorTest, ARenewalIsGivenNoMoreTimeThanIsLeft) {
  ASSERT_TRUE(a_->Try());
  EXPECT_EQ(a_->timeout, seconds(5));
  a_->down = true;
  Advance(seconds(4));
  EXPECT_FALSE(a_->Try());
  EXPECT_EQ(a_->timeout, seconds(5));
  Advance(seconds(5));
  a_->Try();
  EXPECT_EQ(a_->timeout, seconds(1));
  EXPECT_EQ(a_->elector.LeadsUntil(), a_->clock.Now() + seconds(1));
}

TEST_F(LeaderElectorTest, ReleaseLetsTheNextOneIn) {
  ASSERT_TRUE(a_->Try());
  ASSERT_FALSE(b_->Try());
  a_->elector.Release();
  EXPECT_FALSE(a_->elector.IsLeader());
  EXPECT_TRUE(b_->Try());
}

TEST_F(LeaderElectorTest, ReleaseLetsTheNextOneInWhenTheLastRenewalsAnswerWasLost) {
  ASSERT_TRUE(a_->Try());
  Advance(seconds(2));
  a_->lose_answers = true;
  ASSERT_FALSE(a_->Try());
  a_->lose_answers = false;
  ASSERT_TRUE(a_->elector.IsLeader());
  ASSERT_FALSE(b_->Try());
  a_->elector.Release();
  EXPECT_TRUE(b_->Try());
}

TEST_F(LeaderElectorTest, ReleaseLeavesAnothersLeaseAlone) {
  ASSERT_TRUE(a_->Try());
  Patch(R"({"spec":{"holderIdentity":"b"}})");
  a_->elector.Release();
  EXPECT_EQ(Lease()["spec"]["holderIdentity"], "b");
}

TEST_F(LeaderElectorTest, ALeaseThatIsDeletedIsMadeAnewByOneOfThem) {
  ASSERT_TRUE(a_->Try());
  ASSERT_TRUE(simulator_->Delete("leases.coordination.k8s.io", "kube-system", "lock"));
  // Somebody deleted it: b may take it while a does not know. a's next renewal says so; until then
  // both would lead, which is what deleting a lease asks for, here as in client-go.
  EXPECT_TRUE(a_->Try());
  EXPECT_FALSE(b_->Try());
}

TEST_F(LeaderElectorTest, AcquireAndHoldFollowTheClock) {
  std::jthread candidate([this](const std::stop_token& stop) {
    if (a_->elector.Acquire(stop)) static_cast<void>(a_->elector.Hold(stop));
  });
  const auto until = [](const std::function<bool()>& condition) {
    const auto deadline = RealClock()->Now() + seconds(30);
    while (!condition() && RealClock()->Now() < deadline) {
      RealClock()->SleepFor(milliseconds(1), {});
    }
    return condition();
  };
  ASSERT_TRUE(until([this] { return a_->elector.IsLeader() && a_->clock.Waiters() > 0; }));
  // Three periods: renewed each time, a leader throughout.
  for (int i = 0; i < 6; ++i) {
    const int before = a_->requests;
    a_->clock.Advance(seconds(2));
    ASSERT_TRUE(until([&] { return a_->requests > before && a_->clock.Waiters() > 0; }));
    EXPECT_TRUE(a_->elector.IsLeader());
  }
}

TEST_F(LeaderElectorTest, HoldEndsWhenTheLeaseCannotBeRenewed) {
  ASSERT_TRUE(a_->Try());
  a_->down = true;
  Result<void> held;
  std::atomic<bool> ended{false};
  std::jthread holder([&](const std::stop_token& stop) {
    held = a_->elector.Hold(stop);
    ended = true;
  });
  const auto deadline = RealClock()->Now() + seconds(30);
  while (!ended && RealClock()->Now() < deadline) {
    if (a_->clock.Waiters() > 0) a_->clock.Advance(seconds(1));
    RealClock()->SleepFor(milliseconds(1), {});
  }
  holder.request_stop();
  holder.join();
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, ErrorCode::kUnavailable);
}

// Any order of tries, pauses, slow requests, lost answers and clocks that run at different speeds.
TEST_F(LeaderElectorTest, NeverTwoLeadersWhateverHappens) {
  constexpr int kSteps = 6'000;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
  auto c = std::make_unique<Candidate>(simulator_->Url(), "c");
  const std::vector<std::pair<Candidate*, double>> all = {
      {a_.get(), 1.0}, {b_.get(), 1.15}, {c.get(), 0.9}};
  int led = 0;
  int changes = 0;
  const Candidate* last = nullptr;
  const auto pass = [&](milliseconds time) {
    for (const auto& [candidate, speed] : all) {
      candidate->clock.Advance(std::chrono::duration_cast<nanoseconds>(time * speed));
    }
    int leaders = 0;
    for (const auto& [candidate, speed] : all) {
      if (!candidate->elector.IsLeader()) continue;
      ++leaders;
      if (candidate != last) ++changes;
      last = candidate;
    }
    ASSERT_LE(leaders, 1);
    led += leaders;
  };
  for (const auto& [candidate, speed] : all) {
    const auto slow = [&] {
      if (chance(10)) pass(milliseconds(random() % 12'000));
    };
    candidate->before = slow;
    candidate->after = slow;
  }
  // Each candidate tries about every two seconds, but may sleep through minutes.
  for (int step = 0; step < kSteps && !HasFatalFailure(); ++step) {
    Candidate* candidate = all[random() % all.size()].first;
    candidate->down = chance(5);
    candidate->lose_answers = chance(5);
    candidate->Try();
    pass(milliseconds(chance(3) ? random() % 60'000 : random() % 1'500));
    if (chance(1)) candidate->elector.Release();
  }
  EXPECT_GT(led, kSteps / 4);
  EXPECT_GT(changes, 20);
}

}  // namespace
}  // namespace larder
