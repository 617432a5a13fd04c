// Controllers on a simulated cluster: outcomes, restarts, finalizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>

#include "controller/builder.h"
#include "controller/finalizer.h"
#include "controller/resyncer.h"
#include "schema/transform.h"
#include "storage/measure.h"
#include "tests/controller/fixture.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(ControllerTest, ReconcilesEveryObjectAndEveryChange) {
  CreatePod("a");
  auto manager = RunPods();
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  CreatePod("b");
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/b") == 1; }));
  TouchPod("a");
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 2; }));
  ASSERT_TRUE(cluster().Delete("pods", "default", "b"));
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/b") == 2; }));
}

TEST_F(ControllerTest, ReadsTheStoreAndSeesTheChangeThatCausedTheRun) {
  std::atomic<int> stale{0};
  auto manager = RunPods([&](ReconcileContext& context, const ReconcileRequest& request) {
    const auto pod = context.client().Get("pods", request.key);
    if (!pod) ++stale;
    return Count(request);
  });
  const uint64_t gets = cluster().StatsOf("pods").gets;
  for (int i = 0; i < 50; ++i) CreatePod("p" + std::to_string(i));
  EXPECT_TRUE(Eventually([&] { return runs_.Keys().size() == 50; }));
  EXPECT_EQ(stale, 0);
  EXPECT_EQ(cluster().StatsOf("pods").gets, gets);
}

TEST_F(ControllerTest, ErrorsAndExceptionsAreRetriedWithTheirCount) {
  std::atomic<uint32_t> failures{0};
  auto manager = RunPods([&](ReconcileContext&, const ReconcileRequest& request) {
    const int run = runs_.Add(request.key.ToString());
    if (run == 1) return Result<Outcome>(MakeError(ErrorCode::kUnavailable, "not yet"));
    if (run == 2) throw std::runtime_error("worse");
    failures = request.failures;
    return Result<Outcome>(Outcome::Done());
  });
  CreatePod("a");
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 3; }));
  EXPECT_EQ(failures, 2u);
  EXPECT_TRUE(Eventually([&] {
    const std::string metrics = Metrics(**manager);
    return metrics.find("controller_runtime_reconcile_errors_total{controller=\"pods\"} 2") !=
               std::string::npos &&
           metrics.find(
               "controller_runtime_reconcile_total{controller=\"pods\",result=\"success\"}"
               " 1") != std::string::npos &&
           metrics.find("controller_runtime_reconcile_panics_total{controller=\"pods\"} 1") !=
               std::string::npos;
  })) << Metrics(**manager);
}

TEST_F(ControllerTest, AfterMaxRetriesAKeyIsADeadLetterAcrossRestarts) {
  ManagerOptions options = environment_->Options();
  options.config.max_retries = 3;
  const auto fail = [&](ReconcileContext&, const ReconcileRequest& request) {
    runs_.Add(request.key.ToString());
    return Result<Outcome>(MakeError(ErrorCode::kInternal, "for ever"));
  };
  auto manager = RunPods(fail, options);
  CreatePod("a");
  const auto dead = [&] { return (*manager)->FindController("pods")->queue().DeadLetters(); };
  ASSERT_TRUE(Eventually([&] { return dead().size() == 1; }));
  EXPECT_THAT(dead()[0].last_error, HasSubstr("for ever"));
  const int before = runs_.Of("default/a");
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  manager = RunPods(fail, options);
  ASSERT_TRUE(Eventually([&] { return dead().size() == 1; }));
  EXPECT_EQ(runs_.Of("default/a"), before);
}

TEST_F(ControllerTest, RequeuesAreNotFailures) {
  ManagerOptions options = environment_->Options();
  options.config.max_retries = 2;
  auto manager = RunPods(
      [&](ReconcileContext&, const ReconcileRequest& request) -> Result<Outcome> {
        const int run = runs_.Add(request.key.ToString());
        EXPECT_EQ(request.failures, 0u);
        if (run < 5) return Outcome::Requeue();
        if (run < 8) return Outcome::RequeueAfter(milliseconds(1));
        return Outcome::GiveUp("enough");
      },
      options);
  CreatePod("a");
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 8; }));
  EXPECT_TRUE(Eventually([&] {
    return Metrics(**manager).find(
               "controller_runtime_terminal_reconcile_errors_total{controller=\"pods\"} 1") !=
           std::string::npos;
  }));
  EXPECT_TRUE((*manager)->FindController("pods")->queue().DeadLetters().empty());
  EXPECT_EQ(runs_.Of("default/a"), 8);
}

TEST(Outcome, ATimeThatIsOverIsARequeueWithGrowingDelays) {
  for (const seconds over : {seconds(0), seconds(-5)}) {
    EXPECT_EQ(Outcome::RequeueAfter(over).kind(), Outcome::Kind::kRequeue);
  }
  EXPECT_EQ(Outcome::RequeueAfter(seconds(1)).kind(), Outcome::Kind::kRequeueAfter);
}

TEST_F(ControllerTest, AKeyOfANamespaceThatIsWatchedNoMoreIsDropped) {
  for (const char* ns : {"a", "b"}) {
    ASSERT_TRUE(cluster().CreateNamespace(ns));
    ASSERT_TRUE(cluster().Create(
        "pods", R"({"metadata":{"name":"x","namespace":")" + std::string(ns) + R"("}})"));
  }
  const auto again = [&](ReconcileContext&, const ReconcileRequest& request) -> Result<Outcome> {
    if (runs_.Add(request.key.ToString()) > 1) return Outcome::Done();
    return Outcome::RequeueAfter(seconds(1));
  };
  auto manager = RunPods(again);
  ASSERT_TRUE(Eventually([&] { return runs_.Of("a/x") == 1 && runs_.Of("b/x") == 1; }));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  ManagerOptions options = environment_->Options();
  options.config.ns = "b";
  manager = RunPods(again, options);
  EXPECT_TRUE(Eventually([&] { return runs_.Of("b/x") == 2; }));
  WorkQueue& queue = (*manager)->FindController("pods")->queue();
  EXPECT_TRUE(Eventually([&] { return queue.Counters().items == 0; }));
  EXPECT_EQ(runs_.Of("a/x"), 1);
}

TEST_F(ControllerTest, ARunThatTakesTooLongIsStoppedAndRetried) {
  auto manager = Run([&](Manager& target) {
    return ControllerBuilder(target)
        .For("pods")
        .WithOptions({.reconcile_timeout = milliseconds(20)})
        .Complete(
            [&](ReconcileContext& context, const ReconcileRequest& request) -> Result<Outcome> {
              if (runs_.Add(request.key.ToString()) > 1) return Outcome::Done();
              if (context.clock()->SleepFor(seconds(60), context.stop())) return Outcome::Done();
              return MakeError(ErrorCode::kCancelled, "told to stop");
            });
  });
  CreatePod("a");
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 2; }));
}

TEST_F(ControllerTest, AReconcileTimeoutThatIsForEverStopsNobody) {
  auto manager = Run([&](Manager& target) {
    return ControllerBuilder(target)
        .For("pods")
        .WithOptions({.reconcile_timeout = std::chrono::nanoseconds::max()})
        .Complete([&](ReconcileContext& context, const ReconcileRequest& request) {
          // Whoever watches the time is told of each run.
          context.clock()->SleepFor(milliseconds(20), context.stop());
          if (!context.stop().stop_requested()) runs_.Add(request.key.ToString());
          return Result<Outcome>(Outcome::Done());
        });
  });
  CreatePod("a");
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
}

TEST_F(ControllerTest, ARestartReconcilesExactlyWhatChangedOrIsPending) {
  // LARDER_RESTART_PODS=100000 for the long form.
  const char* count = std::getenv("LARDER_RESTART_PODS");
  const size_t pods = count ? std::stoul(count) : 3'000;
  ASSERT_TRUE(cluster().Load(pods));
  const auto keys = cluster().Snapshot("pods");
  const std::string pending = keys.begin()->first;
  std::atomic<bool> hold{true};
  auto manager = RunPods([&](ReconcileContext& context, const ReconcileRequest& request) {
    if (hold && request.key.ToString() == pending) {
      return Result<Outcome>(Outcome::RequeueAfter(milliseconds(5)));
    }
    static_cast<void>(context);
    return Count(request);
  });
  ASSERT_TRUE(Eventually([&] { return runs_.Keys().size() == pods - 1; }));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  hold = false;
  // 50 of them change while nobody looks; one of these goes, and one comes.
  std::set<std::string> expected = {pending};
  int changed = 0;
  for (auto it = std::next(keys.begin(), 100); changed < 50; ++it, ++changed) {
    const ObjectKey key = *ObjectKey::Parse(it->first);
    expected.insert(it->first);
    if (changed == 0) {
      ASSERT_TRUE(cluster().Delete("pods", key.ns, key.name));
    } else {
      ASSERT_TRUE(
          cluster().Patch("pods", key.ns, key.name, R"({"metadata":{"labels":{"new":"1"}}})"));
    }
  }
  CreatePod("fresh");
  expected.insert("default/fresh");
  const uint64_t sent = cluster().StatsOf("pods").objects;
  manager = RunPods();
  ASSERT_TRUE(Eventually([&] { return runs_.Keys().size() >= expected.size(); }));
  // Whatever else were queued would be before this one.
  CreatePod("last");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/last") == 1; }));
  expected.insert("default/last");
  EXPECT_EQ(runs_.Keys(), expected);
  // At most the one object by which a resume checks the server's version.
  EXPECT_LE(cluster().StatsOf("pods").objects - sent, 1u);
}

TEST_F(ControllerTest, ANewNameOrARaisedRevisionGetsAllKeysOnceBehindLiveChanges) {
  for (int i = 0; i < 20; ++i) CreatePod("p" + std::to_string(i));
  const auto run = [&](const std::string& name, uint32_t revision, std::shared_ptr<Gate> gate) {
    return Run([&, gate](Manager& target) {
      return ControllerBuilder(target)
          .Named(name)
          .For("pods")
          .WithOptions({.revision = revision})
          .Complete([&, gate](ReconcileContext&, const ReconcileRequest& request) {
            if (gate) gate->Wait();
            return Count(request);
          });
    });
  };
  auto manager = run("one", 1, nullptr);
  ASSERT_TRUE(Eventually([&] { return runs_.Keys().size() == 20; }));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  manager = run("one", 1, nullptr);
  CreatePod("live");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/live") == 1; }));
  EXPECT_EQ(runs_.Keys().size(), 1u);
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  // Raised: everything once more, but what changes meanwhile goes first.
  auto gate = std::make_shared<Gate>();
  manager = run("one", 2, gate);
  TouchPod("live");
  ASSERT_TRUE(Eventually([&] {
    Controller* controller = (*manager)->FindController("one");
    const auto items = controller->queue().Items();
    return std::any_of(items.begin(), items.end(), [](const QueueItemInfo& item) {
      return item.item == "default/live" && item.priority == 0;
    });
  }));
  gate->Open();
  ASSERT_TRUE(Eventually([&] { return runs_.Keys().size() == 21; }));
  // One was taken before the gate; the live one is the next.
  const auto order = runs_.Order();
  EXPECT_LE(std::find(order.begin(), order.end(), "default/live") - order.begin(), 1);
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  manager = run("two", 1, nullptr);
  EXPECT_TRUE(Eventually([&] { return runs_.Keys().size() == 21; }));
}

TEST_F(ControllerTest, AResyncQueuesEveryKeyAndIsRememberedAcrossRestarts) {
  for (int i = 0; i < 5; ++i) CreatePod("p" + std::to_string(i));
  ManagerOptions options = environment_->Options();
  options.config.resync_period = std::chrono::hours(1);
  auto manager = RunPods(options);
  ASSERT_TRUE(Eventually([&] { return runs_.Keys().size() == 5; }));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  // As if the last one were long ago.
  {
    auto store = Store::Open({.path = options.config.store});
    ASSERT_TRUE(store);
    Transaction transaction = (*store)->Begin();
    transaction.PutNote("controller/pods/resynced", "1000");
    ASSERT_TRUE((*store)->Commit(std::move(transaction), Durability::kSync));
  }
  manager = RunPods(options);
  EXPECT_TRUE(Eventually([&] { return runs_.Keys().size() == 5; }));
}

TEST_F(ControllerTest, AResyncThatCannotBeRememberedIsNotRepeatedAtOnce) {
  CreatePod("a");
  auto manager = RunPods();
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  // Notes that say that it is due, and cannot be written.
  const std::string path = environment_->directory() + "/notes";
  {
    auto store = Store::Open({.path = path});
    ASSERT_TRUE(store);
    Transaction transaction = (*store)->Begin();
    transaction.PutNote("controller/pods/resynced", "1000");
    ASSERT_TRUE((*store)->Commit(std::move(transaction), Durability::kSync));
  }
  auto notes = Store::OpenReadOnly({.path = path});
  ASSERT_TRUE(notes) << notes.error().ToString();
  InformerOptions asked;
  asked.resource = *LookupResource("pods");
  const auto pods = (*manager)->informers()->ForResource(asked);
  ASSERT_TRUE(pods) << pods.error().ToString();
  internal::Resyncer resyncer(notes->get(), RealClock());
  resyncer.Add({(*manager)->FindController("pods"), {*pods}, {}, std::chrono::hours(1)});
  const auto before = RealClock()->WallNow();
  EXPECT_GE(resyncer.RunDue(), before + std::chrono::minutes(1));
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 2; }));
}

TEST_F(ControllerTest, AResyncIsRememberedAfterItsKeys) {
  constexpr size_t kPods = 20;
  for (size_t i = 0; i < kPods; ++i) CreatePod("p" + std::to_string(i));
  auto manager = Run([](Manager& target) { return target.Watch("pods"); });
  InformerOptions asked;
  asked.resource = *LookupResource("pods");
  SharedInformer* const pods = *(*manager)->informers()->ForResource(asked);
  for (const Durability durability : {Durability::kRelaxed, Durability::kSync}) {
    const std::string name = durability == Durability::kSync ? "synced" : "relaxed";
    const auto measured = *MeasuredStore::Open({.path = environment_->directory() + "/" + name});
    Store& store = measured->store();
    Transaction transaction = store.Begin();
    transaction.PutNote("controller/" + name + "/resynced", "1000");
    ASSERT_TRUE(store.Commit(std::move(transaction), Durability::kSync));
    // A queue that writes nothing by itself.
    WorkQueueOptions options;
    options.name = name;
    options.store = &store;
    options.durability = durability;
    options.flush_interval = milliseconds(0);
    prometheus::Registry registry;
    Controller::Definition definition;
    definition.name = name;
    Controller::Environment environment;
    environment.registry = &registry;
    Controller controller(std::move(definition), *WorkQueue::Open(std::move(options)), environment);
    internal::Resyncer resyncer(&store, RealClock());
    resyncer.Add({&controller, {pods}, {}, std::chrono::hours(1)});
    const uint64_t syncs = measured->Counters().syncs;
    resyncer.RunDue();
    EXPECT_NE(*store.GetNote("controller/" + name + "/resynced"), "1000") << name;
    std::set<std::string> stored;
    ASSERT_TRUE(store.ScanQueue(name, {}, [&](const StoredQueueItem& item) {
      stored.insert(item.item);
      return true;
    }));
    EXPECT_EQ(stored.size(), kPods) << name;
    EXPECT_LT(measured->Counters().syncs - syncs, kPods / 2) << name;
  }
}

TEST_F(ControllerTest, AResyncPeriodThatIsForEverNeverComes) {
  ManagerOptions options = environment_->Options();
  options.config.resync_period = std::chrono::nanoseconds::max();
  CreatePod("a");
  auto manager = RunPods(options);
  // A resync would be behind each of these, and looks every 10 ms.
  for (int i = 0; i < 20; ++i) {
    const std::string name = "p" + std::to_string(i);
    CreatePod(name);
    ASSERT_TRUE(Eventually([&] { return runs_.Of("default/" + name) >= 1; }));
    RealClock()->SleepFor(milliseconds(5), {});
  }
  EXPECT_EQ(runs_.Of("default/a"), 1);
}

TEST_F(ControllerTest, AFinalizerKeepsAnObjectUntilItIsCleanedUp) {
  std::atomic<int> cleaned{0};
  auto manager =
      RunPods([&](ReconcileContext& context, const ReconcileRequest& request) -> Result<Outcome> {
        LARDER_ASSIGN_OR_RETURN(ObjectPtr pod, context.client().Find("pods", request.key));
        if (!pod) return Outcome::Done();
        LARDER_ASSIGN_OR_RETURN(const Finalizing state,
                                HandleFinalizer(context, "pods", pod, "example.com/mine", [&] {
                                  ++cleaned;
                                  return Result<void>();
                                }));
        if (state == Finalizing::kLive) runs_.Add(request.key.ToString());
        return Outcome::Done();
      });
  CreatePod("a");
  ASSERT_TRUE(Eventually([&] {
    const auto pod = cluster().Get("pods", "default", "a");
    return pod && HasFinalizer(**pod, "example.com/mine");
  }));
  ASSERT_TRUE(cluster().Delete("pods", "default", "a"));
  EXPECT_TRUE(Eventually([&] { return !cluster().Get("pods", "default", "a"); }));
  EXPECT_GE(cleaned, 1);
}

TEST_F(ControllerTest, AFinalizerLeavesWhatTheStoreDoesNotHold) {
  // One store without the data, one with nothing but metadata.
  for (const bool metadata_only : {false, true}) {
    const std::string name = metadata_only ? "metadata" : "transform";
    SourceOptions source;
    source.metadata_only = metadata_only;
    if (!metadata_only) source.transform = *DropPaths({"data"});
    const auto reconcile = [](ReconcileContext& context,
                              const ReconcileRequest& request) -> Result<Outcome> {
      LARDER_ASSIGN_OR_RETURN(ObjectPtr object,
                              context.client().Find(MetadataOf("configmaps"), request.key));
      if (!object) return Outcome::Done();
      LARDER_RETURN_IF_ERROR(HandleFinalizer(context, "configmaps", object, "example.com/mine",
                                             [] { return Result<void>(); }));
      return Outcome::Done();
    };
    auto manager = Run(
        [&](Manager& target) {
          return ControllerBuilder(target).For("configmaps", source).Complete(reconcile);
        },
        environment_->Options(name));
    ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"namespace":"default","name":")" +
                                                   name +
                                                   R"(","finalizers":["example.com/other"]},)"
                                                   R"("data":{"key":"value"}})"));
    const auto read = [&] { return *cluster().Get("configmaps", "default", name); };
    ASSERT_TRUE(Eventually([&] { return HasFinalizer(*read(), "example.com/mine"); })) << name;
    EXPECT_EQ(read()->ToMutable()["data"]["key"], "value") << name;
    EXPECT_TRUE(HasFinalizer(*read(), "example.com/other"));
    ASSERT_TRUE(cluster().Delete("configmaps", "default", name));
    ASSERT_TRUE(Eventually([&] { return !HasFinalizer(*read(), "example.com/mine"); })) << name;
    EXPECT_EQ(read()->ToMutable()["data"]["key"], "value") << name;
  }
}

TEST_F(ControllerTest, ApplyWritesTheIntentAndWaitForCacheShowsIt) {
  auto manager = RunPods();
  CachedClient& client = (*manager)->client();
  Json intent;
  intent["metadata"]["name"] = "applied";
  intent["metadata"]["namespace"] = "default";
  intent["metadata"]["labels"]["app"] = "web";
  const auto written = client.Apply("pods", intent, "me");
  ASSERT_TRUE(written) << written.error().ToString();
  ASSERT_TRUE(client.WaitForCache("pods", **written, RealClock()->Now() + seconds(30)));
  const auto read = client.Get("pods", {"default", "applied"});
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)->Label("app"), "web");
  EXPECT_TRUE(client.Delete("pods", {"default", "applied"}));
  EXPECT_TRUE(client.Delete("pods", {"default", "applied"}));  // gone is fine
}

TEST_F(ControllerTest, TheBuilderSaysWhatIsMissing) {
  auto manager = Manager::Create(environment_->Options());
  ASSERT_TRUE(manager);
  Manager& target = **manager;
  const auto nothing = Counting();
  EXPECT_THAT(ControllerBuilder(target).Complete(nothing).error().message, HasSubstr("For()"));
  EXPECT_THAT(ControllerBuilder(target).For("pods").For("nodes").Complete(nothing).error().message,
              HasSubstr("two For()"));
  EXPECT_THAT(ControllerBuilder(target)
                  .For("pods")
                  .Watches("nodes", nullptr)
                  .Complete(nothing)
                  .error()
                  .message,
              HasSubstr("mapping function"));
  EXPECT_THAT(ControllerBuilder(target).For("pods").Complete(ReconcileFunction()).error().message,
              HasSubstr("no reconciler"));
  ASSERT_TRUE(ControllerBuilder(target).For("pods").Complete(nothing));
  const auto again = ControllerBuilder(target).For("pods").Complete(nothing);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
}

TEST_F(ControllerTest, AnUnknownResourceEndsRunWithItsName) {
  const auto manager = environment_->Run([&](Manager& target) {
    return ControllerBuilder(target).Named("c").For("gizmos.v1.example.com").Complete(Counting());
  });
  ASSERT_FALSE(manager);
  EXPECT_THAT(manager.error().message, HasSubstr("gizmos"));
  EXPECT_THAT(manager.error().message, HasSubstr("controller c"));
}

}  // namespace
}  // namespace larder
