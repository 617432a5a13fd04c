// The manager: starting, ending, leading.
#include "controller/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "tests/controller/fixture.h"
#include "tests/queue/damage.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

// Which cluster it is.
void ServeKubeSystem(httplib::Server& server) {
  server.Get("/api/v1/namespaces/kube-system", [](const auto&, httplib::Response& response) {
    response.set_content(R"({"kind":"Namespace","metadata":{"name":"kube-system","uid":"u"}})",
                         "application/json");
  });
}

class ManagerTest : public ControllerTest {
 protected:
  // One that runs when the manager is stopped, and is done a little later.
  void ExpectARunningReconcileFinishes(const ManagerOptions& options) {
    auto gate = std::make_shared<Gate>();
    std::atomic<bool> finished{false};
    auto manager = RunPods(
        [&, gate](ReconcileContext& context, const ReconcileRequest& request) {
          runs_.Add(request.key.ToString());
          gate->Wait();
          finished = !context.stop().stop_requested();
          return Result<Outcome>(Outcome::Done());
        },
        options);
    CreatePod("a");
    ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
    std::jthread opener([&] {
      // While Stop waits; nothing depends on which of the two comes first.
      RealClock()->SleepFor(milliseconds(50), {});
      gate->Open();
    });
    EXPECT_TRUE(manager->Stop());
    EXPECT_TRUE(finished);
  }
};

TEST_F(ManagerTest, IsReadyWhenItsStoresAreInSync) {
  auto manager = RunPods();
  EXPECT_EQ(HttpGet((*manager)->port(), "/readyz"), "ok");
  EXPECT_EQ(HttpGet((*manager)->port(), "/healthz"), "ok");
  const std::string verbose = HttpGet((*manager)->port(), "/readyz?verbose");
  EXPECT_THAT(verbose, HasSubstr("[+]informers ok"));
  EXPECT_THAT(verbose, HasSubstr("[+]store ok"));
  const std::string metrics = Metrics(**manager);
  for (const char* name : {"controller_runtime_max_concurrent_reconciles{controller=\"pods\"} 1",
                           "controller_runtime_active_workers", "workqueue_depth{name=\"pods\"}"}) {
    EXPECT_THAT(metrics, HasSubstr(name));
  }
}

TEST_F(ManagerTest, StartsAndWaitsWhileTheServerIsAway) {
  cluster().AddFault({.type = apiserver::FaultType::kError, .times = -1, .code = 503});
  auto manager = Manager::Create(environment_->Options());
  ASSERT_TRUE(manager) << manager.error().ToString();
  ASSERT_TRUE(ControllerBuilder(**manager).For("pods").Complete(Counting()));
  testing::RunningManager running(*std::move(manager));
  ASSERT_TRUE(Eventually([&] { return running->port() != 0; }));
  ASSERT_TRUE(Eventually([&] { return HttpGet(running->port(), "/healthz") == "ok"; }));
  EXPECT_THAT(HttpGet(running->port(), "/readyz"), HasSubstr("[-]informers failed"));
  CreatePod("a");
  cluster().ClearFaults();
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  EXPECT_EQ(HttpGet(running->port(), "/readyz"), "ok");
}

TEST_F(ManagerTest, WhatKeepsItFromStartingIsNamedInReadyz) {
  const apiserver::User user{.name = "me", .token = "t"};
  apiserver::User no_namespaces = user;
  no_namespaces.forbidden = {"namespaces"};
  cluster().SetUsers({no_namespaces});
  ManagerOptions options = environment_->Options();
  options.client->token = "t";
  auto made = Manager::Create(options);
  ASSERT_TRUE(made) << made.error().ToString();
  testing::RunningManager running(*std::move(made));
  ASSERT_TRUE(Eventually([&] { return running->port() != 0; }));
  EXPECT_TRUE(Eventually([&] {
    return HttpGet(running->port(), "/readyz").find("not reached yet: Forbidden") !=
           std::string::npos;
  })) << HttpGet(running->port(), "/readyz");
}

TEST_F(ManagerTest, AResourceThatIsForbiddenIsNamedAndStopsNoOther) {
  const apiserver::User user{.name = "me", .token = "t"};
  apiserver::User no_configmaps = user;
  no_configmaps.forbidden = {"configmaps"};
  cluster().SetUsers({no_configmaps});
  ManagerOptions options = environment_->Options();
  options.client->token = "t";
  auto manager = Run(
      [&](Manager& to) -> Result<void> {
        LARDER_RETURN_IF_ERROR(ControllerBuilder(to).For("configmaps").Complete(Counting()));
        return ControllerBuilder(to).For("pods").Complete(Counting());
      },
      options);
  const auto ready = [&] { return HttpGet((*manager)->port(), "/readyz"); };
  CreatePod("a");
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"c","namespace":"default"}})"));
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  EXPECT_EQ(runs_.Of("default/c"), 0);
  EXPECT_THAT(ready(), HasSubstr("[-]informers failed: NotReady: configmaps: "));
  EXPECT_THAT(ready(), HasSubstr("Forbidden"));
  EXPECT_THAT(ready(), Not(HasSubstr("pods: ")));
  cluster().SetUsers({user});
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/c") == 1; }));
  EXPECT_TRUE(Eventually([&] { return ready() == "ok"; }));
  // Taken away later: what is stored grows old, and says so.
  apiserver::User no_pods = user;
  no_pods.forbidden = {"pods"};
  cluster().SetUsers({no_pods});
  cluster().DropConnections();
  EXPECT_TRUE(Eventually([&] { return ready().find("pods: Forbidden") != std::string::npos; }));
}

TEST_F(ManagerTest, ALeaseThatIsForbiddenIsNamedInReadyz) {
  const apiserver::User user{.name = "me", .token = "t"};
  apiserver::User no_leases = user;
  no_leases.forbidden = {"leases.coordination.k8s.io"};
  cluster().SetUsers({no_leases});
  ManagerOptions options = ElectionOptions("one");
  options.client->token = "t";
  auto manager = RunPods(options);
  const auto ready = [&] { return HttpGet((*manager)->port(), "/readyz"); };
  EXPECT_TRUE(Eventually([&] {
    return ready().find("[-]lease failed: Forbidden: ") != std::string::npos;
  })) << ready();
  cluster().SetUsers({user});
  EXPECT_TRUE(Eventually([&] { return ready() == "ok"; })) << ready();
  EXPECT_TRUE((*manager)->WaitUntilWorking(RealClock()->Now() + seconds(30)));
}

// A server that is away is nothing that a restart of this pod mends.
TEST_F(ManagerTest, StaysReadyWhileTheServerIsAway) {
  auto manager = RunPods();
  cluster().AddFault({.type = apiserver::FaultType::kError, .times = -1, .code = 503});
  cluster().DropConnections();
  ASSERT_TRUE(Eventually([&] {
    return (*manager)->informers()->Status().front().status.reflector.error.has_value();
  }));
  EXPECT_EQ(HttpGet((*manager)->port(), "/readyz"), "ok");
}

TEST_F(ManagerTest, AQueueThatCannotBeLoadedIsNamedInReadyz) {
  CreatePod("a");
  const ManagerOptions options = environment_->Options();
  auto manager = RunPods(options);
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  EXPECT_THAT(HttpGet((*manager)->port(), "/readyz?verbose"), HasSubstr("[+]queue/pods ok"));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  testing::PutDamagedQueueRecord(options.config.store, "pods", "default/b", 1);
  manager = RunPods(options);
  EXPECT_TRUE(Eventually([&] {
    return HttpGet((*manager)->port(), "/readyz").find("[-]queue/pods failed: Corruption: ") !=
           std::string::npos;
  }));
}

TEST_F(ManagerTest, TheStoresKeyMayComeFromAVariable) {
  ManagerOptions options = environment_->Options();
  options.config.encryption_key_variable = "LARDER_TEST_NOT_SET";
  const auto refused = Manager::Create(options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("LARDER_TEST_NOT_SET"));
}

TEST_F(ManagerTest, LetsRunningReconcilesFinish) {
  ExpectARunningReconcileFinishes(environment_->Options());
}

TEST_F(ManagerTest, AShutdownTimeoutThatIsForEverLetsReconcilesFinish) {
  ManagerOptions options = environment_->Options();
  options.config.shutdown_timeout = std::chrono::hours(2'562'047);
  ExpectARunningReconcileFinishes(options);
}

TEST_F(ManagerTest, AsksReconcilesToEndAfterTheDeadlineAndKeepsTheirKeys) {
  ManagerOptions options = environment_->Options();
  options.config.shutdown_timeout = milliseconds(20);
  auto manager = RunPods(
      [&](ReconcileContext& context, const ReconcileRequest& request) -> Result<Outcome> {
        runs_.Add(request.key.ToString());
        if (context.clock()->SleepFor(seconds(60), context.stop())) return Outcome::Done();
        return MakeError(ErrorCode::kCancelled, "told to stop");
      },
      options);
  CreatePod("a");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  EXPECT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  std::atomic<uint32_t> failures{99};
  manager = RunPods([&](ReconcileContext&, const ReconcileRequest& request) {
    failures = request.failures;
    return Count(request);
  });
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  EXPECT_EQ(failures, 0u);  // to be interrupted is no failure
}

TEST_F(ManagerTest, AReconcileThatIgnoresItsStopIsReported) {
  ManagerOptions options = environment_->Options();
  options.config.shutdown_timeout = milliseconds(1);
  auto gate = std::make_shared<Gate>();
  std::atomic<bool> stuck{false};
  options.on_stuck = [&, gate] {
    stuck = true;
    gate->Open();
  };
  auto manager = RunPods(
      [&, gate](ReconcileContext&, const ReconcileRequest& request) {
        runs_.Add(request.key.ToString());
        gate->Wait();
        return Result<Outcome>(Outcome::Done());
      },
      options);
  CreatePod("a");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  EXPECT_TRUE(manager->Stop());
  EXPECT_TRUE(stuck);
}

TEST_F(ManagerTest, RunsRunnablesAndEndsWhenOneFails) {
  std::atomic<bool> ran{false};
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(target.Add(Runnable{"quiet", [&](const std::stop_token& stop) {
                                                 ran = true;
                                                 RealClock()->SleepFor(seconds(60), stop);
                                                 return Result<void>();
                                               }}));
    return target.Add(Runnable{"broken", [&](const std::stop_token&) -> Result<void> {
                                 Eventually([&] { return ran.load(); });
                                 return MakeError(ErrorCode::kIo, "no disk");
                               }});
  });
  const Result<void> ended = manager->Join();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().message, HasSubstr("runnable broken: no disk"));
  EXPECT_TRUE(ran);
}

TEST_F(ManagerTest, ARunnableThatThrowsAnythingEndsTheManagerWithAnError) {
  auto manager = Run([](Manager& target) {
    return target.Add(Runnable{"odd", [](const std::stop_token&) -> Result<void> { throw 1; }});
  });
  const Result<void> ended = manager->Join();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().message, HasSubstr("runnable odd: it threw"));
}

TEST_F(ManagerTest, SeveralNamespacesAreWatchedAndNoOther) {
  for (const char* ns : {"a", "b"}) {
    ASSERT_TRUE(cluster().CreateNamespace(ns));
    ASSERT_TRUE(cluster().Create(
        "pods", R"({"metadata":{"name":"x","namespace":")" + std::string(ns) + R"("}})"));
  }
  CreatePod("x");
  ManagerOptions options = environment_->Options();
  options.config.ns = "a,b";
  options.config.resync_period = milliseconds(50);
  auto manager = RunPods(options);
  // With those of the resyncs.
  EXPECT_TRUE(Eventually([&] { return runs_.Of("a/x") >= 2 && runs_.Of("b/x") >= 2; }));
  const auto pods = (*manager)->client().List("pods");
  ASSERT_TRUE(pods) << pods.error().ToString();
  EXPECT_EQ(pods->size(), 2U);
  EXPECT_EQ(runs_.Of("default/x"), 0);
  options.config.ns = "a, b";
  const auto refused = Manager::Create(options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("namespace is \" b\""));
}

TEST_F(ManagerTest, ADiscoveryThatFailsIsAskedAgain) {
  // A server that knows which cluster it is, and is too busy to say what it has.
  httplib::Server server;
  std::atomic<int> asked{0};
  ServeKubeSystem(server);
  server.Get("/apis.*", [&](const httplib::Request&, httplib::Response& response) {
    ++asked;
    response.status = 503;
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::jthread serving([&] { server.listen_after_bind(); });
  ManagerOptions options = environment_->Options();
  options.client = ForUrl("http://127.0.0.1:" + std::to_string(port));
  auto made = Manager::Create(options);
  ASSERT_TRUE(made) << made.error().ToString();
  ASSERT_TRUE(ControllerBuilder(**made).For("widgets.example.com").Complete(Counting()));
  {
    testing::RunningManager running(*std::move(made));
    EXPECT_TRUE(Eventually([&] { return asked >= 3 || running.Ended(); }));
    EXPECT_FALSE(running.Ended());
    EXPECT_THAT(HttpGet(running->port(), "/readyz"), HasSubstr("not reached yet: Unavailable"));
    EXPECT_TRUE(running.Stop());
  }
  server.stop();
}

TEST_F(ManagerTest, AGroupThatIsDownIsWaitedFor) {
  httplib::Server server;
  std::atomic<bool> down{true}, listed{false};
  std::atomic<int> asked{0};
  ServeKubeSystem(server);
  server.Get("/apis", [&](const auto&, httplib::Response& response) {
    ++asked;
    const std::string what = down ? R"("freshness":"Stale")" : R"("resources":[
      {"resource":"widgets","responseKind":{"kind":"Widget"}}])";
    response.set_content(R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":
      {"name":"example.com"},"versions":[{"version":"v1",)" +
                             what + "}]}]}",
                         "application/json");
  });
  server.Get("/apis/example.com/v1/widgets", [&](const auto&, const auto&) { listed = true; });
  FakeClock clock;
  ManagerOptions options = environment_->Options();
  options.clock = &clock;
  options.client =
      ForUrl("http://127.0.0.1:" + std::to_string(server.bind_to_any_port("127.0.0.1")));
  std::jthread serving([&] { server.listen_after_bind(); });
  auto made = Manager::Create(options);
  ASSERT_TRUE(made) << made.error().ToString();
  ASSERT_TRUE(ControllerBuilder(**made).For("widgets.example.com").Complete(Counting()));
  {
    testing::RunningManager running(*std::move(made));
    const auto in_time = [&](const std::function<bool()>& condition) {
      return Eventually([&] {
        clock.Advance(seconds(1));
        return condition();
      });
    };
    EXPECT_TRUE(in_time([&] { return asked >= 2; }));
    EXPECT_THAT(HttpGet(running->port(), "/readyz"), HasSubstr("discovery of example.com/v1"));
    down = false;
    EXPECT_TRUE(in_time([&] { return listed.load(); }));
    EXPECT_FALSE(running.Ended());
    EXPECT_TRUE(running.Stop());
  }
  server.stop();
}

TEST_F(ManagerTest, WatchesServeReadsWithoutAController) {
  CreatePod("a");
  auto manager = Run([](Manager& target) { return target.Watch("pods"); });
  const uint64_t gets = cluster().StatsOf("pods").gets;
  EXPECT_TRUE((*manager)->client().Get("pods", {"default", "a"}));
  EXPECT_FALSE((*manager)->client().Get("pods", {"default", "b"}));
  EXPECT_EQ(cluster().StatsOf("pods").gets, gets);
  // What is not watched is asked of the server.
  EXPECT_TRUE((*manager)->client().Get("namespaces", {"", "default"}));
}

TEST_F(ManagerTest, OnlyTheLeaderReconcilesAndTheStandbyTakesOverFromAWarmStore) {
  CreatePod("a");
  const auto run = [&](const std::string& name) {
    return Run(
        [&](Manager& target) {
          return ControllerBuilder(target).For("pods").Complete(
              [&, name](ReconcileContext&, const ReconcileRequest& request) {
                runs_.Add(name + ":" + request.key.ToString());
                return Result<Outcome>(Outcome::Done());
              });
        },
        ElectionOptions(name));
  };
  auto first = run("one");
  ASSERT_TRUE((*first)->WaitUntilWorking(RealClock()->Now() + seconds(30)));
  auto second = run("two");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("one:default/a") == 1; }));
  CreatePod("b");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("one:default/b") == 1; }));
  EXPECT_TRUE((*first)->IsLeader());
  EXPECT_FALSE((*second)->IsLeader());
  EXPECT_EQ(runs_.Of("two:default/a"), 0);
  // The standby's store is warm, and its writes are refused.
  EXPECT_TRUE((*second)->client().Get("pods", {"default", "b"}) || Eventually([&] {
                return (*second)->client().Get("pods", {"default", "b"}).has_value();
              }));
  const auto refused = (*second)->client().Delete("pods", {"default", "b"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(Metrics(**first), HasSubstr("leader_election_master_status{name=\"lock\"} 1"));
  EXPECT_THAT(Metrics(**second), HasSubstr("leader_election_master_status{name=\"lock\"} 0"));
  const uint64_t lists = cluster().StatsOf("pods").lists;
  ASSERT_TRUE(first->Stop());
  ASSERT_TRUE(Eventually([&] { return runs_.Of("two:default/b") == 1; }));
  EXPECT_EQ(cluster().StatsOf("pods").lists, lists);
}

// The retries and delays of the one that led meanwhile are in its store.
TEST_F(ManagerTest, AfterAnotherOneLedEveryKeyIsReconciledOnce) {
  CreatePod("a");
  const auto run = [&](const std::string& name) {
    ManagerOptions options = ElectionOptions(name);
    options.config.resync_period = seconds(0);
    return RunPods(
        [&, name](ReconcileContext&, const ReconcileRequest& request) -> Result<Outcome> {
          runs_.Add(name + ":" + request.key.ToString());
          return name == "two" ? Outcome::RequeueAfter(std::chrono::hours(1)) : Outcome::Done();
        },
        options);
  };
  // Until it is up to its time of leading.
  const auto lead = [&] {
    auto manager = run("one");
    EXPECT_TRUE((*manager)->WaitUntilWorking(RealClock()->Now() + seconds(30)));
    EXPECT_TRUE(Eventually([&] {
      const Json lease =
          (*cluster().Get("leases.coordination.k8s.io", "default", "lock"))->ToMutable();
      return *(*manager)->store().GetNote("controller/pods/led") ==
             fmt::format("{} {}", lease["metadata"]["uid"].get<std::string>(),
                         lease["spec"]["leaseTransitions"].get<int>());
    }));
    return manager;
  };
  auto first = lead();
  ASSERT_TRUE(Eventually([&] { return runs_.Of("one:default/a") == 1; }));
  auto second = run("two");
  ASSERT_TRUE(first->Stop());
  first.reset();
  ASSERT_TRUE(Eventually([&] { return runs_.Of("two:default/a") == 1; }));
  ASSERT_TRUE(second->Stop());
  second.reset();
  first = lead();
  ASSERT_TRUE(Eventually([&] { return runs_.Of("one:default/a") == 2; }));
  ASSERT_TRUE(first->Stop());
  first.reset();
  // Nobody led in between: it goes on where it was.
  first = lead();
  EXPECT_TRUE(
      Eventually([&] { return (*first)->FindController("pods")->queue().Counters().items == 0; }));
  EXPECT_EQ(runs_.Of("one:default/a"), 2);
}

TEST_F(ManagerTest, WhatChangesAfterATakeoverGoesBeforeWhatAStandbyQueued) {
  auto gate = std::make_shared<Gate>();
  const auto run = [&](const std::string& name) {
    return RunPods(
        [&, name, gate](ReconcileContext&, const ReconcileRequest& request) {
          if (name == "two") {
            runs_.Add(request.key.ToString());
            gate->Wait();
          }
          return Result<Outcome>(Outcome::Done());
        },
        ElectionOptions(name));
  };
  auto first = run("one");
  ASSERT_TRUE((*first)->WaitUntilWorking(RealClock()->Now() + seconds(30)));
  auto second = run("two");
  WorkQueue& queue = (*second)->FindController("pods")->queue();
  for (int i = 0; i < 5; ++i) CreatePod("p" + std::to_string(i));
  ASSERT_TRUE(Eventually([&] { return queue.Len() == 5; }));
  ASSERT_TRUE(first->Stop());
  ASSERT_TRUE(Eventually([&] { return runs_.Order().size() == 1; }));  // and waits at the gate
  CreatePod("live");
  ASSERT_TRUE(Eventually([&] { return queue.Len() == 5; }));
  gate->Open();
  ASSERT_TRUE(Eventually([&] { return runs_.Order().size() == 6; }));
  EXPECT_EQ(runs_.Order()[1], "default/live");
}

TEST_F(ManagerTest, ReplicasWithTheSameIdAreStillTwoCandidates) {
  const auto run = [&](const std::string& store) {
    ManagerOptions options = ElectionOptions(store);
    options.config.leader_election_id = "the same";
    return RunPods(options);
  };
  auto first = run("one");
  ASSERT_TRUE((*first)->WaitUntilWorking(RealClock()->Now() + seconds(30)));
  auto second = run("two");
  // Who does not lead looks at the lease; who leads writes it without a look.
  const auto looks = [&] { return cluster().StatsOf("leases.coordination.k8s.io").gets; };
  const uint64_t before = looks();
  ASSERT_TRUE(Eventually([&] { return looks() >= before + 3 || (*second)->IsLeader(); }));
  EXPECT_FALSE((*second)->IsLeader());
  EXPECT_TRUE((*first)->IsLeader());
}

TEST_F(ManagerTest, AResyncIsLeftWhereItIsWhenTheManagerStops) {
  for (int i = 0; i < 100; ++i) CreatePod("p" + std::to_string(i));
  ManagerOptions options = environment_->Options();
  options.config.resync_period = milliseconds(50);
  std::atomic<bool> slow{false};
  std::atomic<int> looked{0};
  auto manager = Run(
      [&](Manager& target) {
        return ControllerBuilder(target)
            .For("pods", {.predicates = {[&](const ObjectChange&) {
                            if (slow) {
                              ++looked;
                              RealClock()->SleepFor(milliseconds(50), {});
                            }
                            return true;
                          }}})
            .Complete(Counting());
      },
      options);
  ASSERT_TRUE(Eventually([&] { return runs_.Keys().size() == 100; }));
  slow = true;
  ASSERT_TRUE(Eventually([&] { return looked > 0; }));
  const int before = looked;
  EXPECT_TRUE(manager->Stop());
  EXPECT_LT(looked - before, 50);
}

TEST_F(ManagerTest, AControllerThatNeedsNoLeaseResyncsWithoutIt) {
  auto leader = Run([](Manager& target) { return target.Watch("pods"); }, ElectionOptions("one"));
  ASSERT_TRUE((*leader)->WaitUntilWorking(RealClock()->Now() + seconds(30)));
  CreatePod("a");
  ManagerOptions options = ElectionOptions("two");
  options.config.resync_period = milliseconds(20);
  auto standby = Run(
      [&](Manager& target) {
        return ControllerBuilder(target)
            .For("pods")
            .WithOptions({.needs_leader_election = false})
            .Complete(Counting());
      },
      options);
  EXPECT_TRUE(
      testing::Environment::Eventually([&] { return runs_.Of("default/a") >= 3; }, seconds(10)));
  EXPECT_FALSE((*standby)->IsLeader());
}

}  // namespace
}  // namespace larder
