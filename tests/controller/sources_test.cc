// What queues a controller's keys: its own resource, what it owns, what a mapping says.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "controller/builder.h"
#include "controller/owner.h"
#include "schema/resource.h"
#include "schema/transform.h"
#include "tests/controller/fixture.h"

namespace larder {
namespace {

TEST(OwnerReference, OfAnObjectThatWasReadAsMetadataOnlyIsRefused) {
  const ObjectPtr owner =
      *Object::Parse(R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",)"
                     R"("metadata":{"name":"a","namespace":"x","uid":"u","resourceVersion":"7"}})");
  Json owned = {{"metadata", {{"name", "b"}, {"namespace", "x"}}}};
  const Json before = owned;
  for (auto* const refer : {&SetControllerReference, &AddOwnerReference}) {
    const Result<void> refused = refer(owned, *owner);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(owned, before);
  }
}

TEST_F(ControllerTest, PredicatesDecideWhichChangesCount) {
  auto manager = Run([&](Manager& target) {
    return ControllerBuilder(target)
        .For("pods", {.predicates = {LabelChanged("app")}})
        .WithEventFilter(Not(InNamespace("kube-system")))
        .Complete(Counting());
  });
  CreatePod("a");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  TouchPod("a");
  ASSERT_TRUE(cluster().Patch("pods", "default", "a", R"({"metadata":{"labels":{"app":"x"}}})"));
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 2; }));
  ASSERT_TRUE(cluster().Create("pods", R"({"metadata":{"name":"k","namespace":"kube-system"}})"));
  CreatePod("z");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/z") == 1; }));
  EXPECT_EQ(runs_.Of("kube-system/k"), 0);
  EXPECT_EQ(runs_.Of("default/a"), 2);
}

TEST_F(ControllerTest, OwnedAndMappedObjectsQueueTheirKeys) {
  CreatePod("a");
  CreatePod("b");
  auto manager = Run([&](Manager& target) {
    return ControllerBuilder(target)
        .For("pods")
        .Owns("configmaps")
        .Watches("services",
                 [&target](const Object& service) {
                   std::vector<ObjectKey> keys;
                   Query query;
                   query.ns = std::string(service.ns());
                   const auto pods = target.client().List("pods", query);
                   for (const ObjectPtr& pod : *pods) {
                     keys.push_back(pod->key());
                   }
                   return keys;
                 })
        .Complete(Counting());
  });
  ASSERT_TRUE(Eventually([&] { return runs_.Keys().size() == 2; }));
  const ObjectPtr pod = *cluster().Get("pods", "default", "a");
  Json owned;
  owned["metadata"]["name"] = "of-a";
  owned["metadata"]["namespace"] = "default";
  ASSERT_TRUE(SetControllerReference(owned, *pod));
  ASSERT_TRUE((*manager)->client().Create("configmaps", owned));
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 2; }));
  EXPECT_EQ(runs_.Of("default/b"), 1);
  const auto found = (*manager)->client().ListOwned("configmaps", *pod);
  ASSERT_TRUE(found) << found.error().ToString();
  EXPECT_EQ(found->size(), 1u);
  ASSERT_TRUE(cluster().Create("services", R"({"metadata":{"name":"s","namespace":"default"}})"));
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 3 && runs_.Of("default/b") == 2; }));
}

// Without a key nothing of Secrets outlives the process: that one is gone shows in no comparison.
TEST_F(ControllerTest, AnOwnedSecretThatIsDeletedWhileTheProcessIsDownIsNoticed) {
  CreatePod("a");
  const ObjectPtr pod = *cluster().Get("pods", "default", "a");
  Json owned;
  owned["metadata"]["name"] = "of-a";
  owned["metadata"]["namespace"] = "default";
  ASSERT_TRUE(SetControllerReference(owned, *pod));
  ASSERT_TRUE(cluster().Create("secrets", owned.dump()));
  const auto run = [&] {
    return Run([&](Manager& target) {
      return ControllerBuilder(target).For("pods").Owns("secrets").Complete(Counting());
    });
  };
  auto manager = run();
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") > 0; }));
  manager.reset();
  runs_.Clear();
  ASSERT_TRUE(cluster().Delete("secrets", "default", "of-a"));
  manager = run();
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
}

TEST_F(ControllerTest, AMappingReadsWhatAnotherControllerWatchesFromTheStore) {
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"c","namespace":"default"}})"));
  ASSERT_TRUE(cluster().Create("services", R"({"metadata":{"name":"s","namespace":"default"}})"));
  // Of the mapping.
  std::atomic<uint64_t> lists{0};
  const auto run = [&](uint32_t revision) {
    return Run([&, revision](Manager& target) -> Result<void> {
      LARDER_RETURN_IF_ERROR(ControllerBuilder(target)
                                 .Named("first")
                                 .For("pods")
                                 .Watches("configmaps",
                                          [this, &target, &lists](const Object&) {
                                            std::vector<ObjectKey> keys;
                                            const uint64_t before =
                                                cluster().StatsOf("services").lists;
                                            const auto services = target.client().List("services");
                                            lists += cluster().StatsOf("services").lists - before;
                                            if (!services) return keys;
                                            for (const ObjectPtr& one : *services)
                                              keys.push_back(one->key());
                                            return keys;
                                          })
                                 .WithOptions({.revision = revision})
                                 .Complete(Counting()));
      return ControllerBuilder(target)
          .Named("second")
          .For("services")
          .Complete([](ReconcileContext&, const ReconcileRequest&) -> Result<Outcome> {
            return Outcome::Done();
          });
    });
  };
  auto manager = run(1);
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  lists = 0;
  // The mapping runs on what is stored.
  manager = run(2);
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/s") == 1; }));
  EXPECT_EQ(lists, 0U);
}

TEST_F(ControllerTest, TheDeleteOfAnObjectThatChangedWhileNobodyWatchedIsMappedAsItWasStored) {
  const auto run = [&] {
    return Run([&](Manager& target) {
      return ControllerBuilder(target)
          .For("pods")
          .Watches("configmaps",
                   [](const Object& config) {
                     return std::vector<ObjectKey>{
                         {"default", std::string(config.Annotation("of").value_or("none"))}};
                   })
          .Complete(Counting());
    });
  };
  ASSERT_TRUE(cluster().Create(
      "configmaps",
      R"({"metadata":{"name":"c","namespace":"default","annotations":{"of":"before"}}})"));
  auto manager = run();
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/before") == 1; }));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  ASSERT_TRUE(cluster().Patch("configmaps", "default", "c",
                              R"({"metadata":{"annotations":{"of":"meanwhile"}}})"));
  ASSERT_TRUE(cluster().Delete("configmaps", "default", "c"));
  manager = run();
  EXPECT_TRUE(Eventually([&] {
    return runs_.Keys() == std::set<std::string>{"default/before", "default/meanwhile"};
  }));
}

TEST_F(ControllerTest, TwoWatchesOfOneResourceBothQueueTheirKeys) {
  const auto to = [](const std::string& name) {
    return [name](const Object&) { return std::vector<ObjectKey>{{"default", name}}; };
  };
  const auto run = [&] {
    return Run([&](Manager& target) {
      return ControllerBuilder(target)
          .For("pods")
          .Watches("configmaps", to("one"))
          .Watches("configmaps", to("two"))
          .Complete(Counting());
    });
  };
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"c","namespace":"default"}})"));
  auto manager = run();
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/one") == 1; }));
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/two") == 1; }));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  // Both names are known: nothing comes again.
  manager = run();
  CreatePod("a");
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  EXPECT_EQ(runs_.Keys().size(), 3u);
  EXPECT_EQ(runs_.Of("default/one") + runs_.Of("default/two"), 2);
}

TEST_F(ControllerTest, ASourceThatIsGoneLeavesNoRows) {
  WorkQueue queue;  // of somebody who has an enqueuer beside the manager's
  const auto configmaps = [](Manager& manager) {
    InformerOptions asked;
    asked.resource = *LookupResource("configmaps");
    return *manager.informers()->ForResource(asked);
  };
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(
        ControllerBuilder(target).Named("old").For("configmaps").Complete(Counting()));
    return ControllerBuilder(target)
        .For("pods")
        .Watches("configmaps", Itself())
        .Owns("configmaps")
        .Complete(Counting());
  });
  ASSERT_TRUE((*manager)->WaitUntilWorking(RealClock()->Now() + std::chrono::seconds(30)));
  ASSERT_TRUE(configmaps(**manager)->AddEnqueuer(&queue, {.name = "mine"},
                                                 [](const ObjectChange&, const Enqueue&) {}));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"c","namespace":"default"}})"));
  manager = Run([&](Manager& target) {
    return ControllerBuilder(target).For("pods").Owns("configmaps").Complete(Counting());
  });
  ASSERT_TRUE((*manager)->WaitUntilWorking(RealClock()->Now() + std::chrono::seconds(30)));
  SharedInformer* const informer = configmaps(**manager);
  EXPECT_EQ(informer->AbsentEnqueuers(), std::vector<std::string>{"mine"});
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"d","namespace":"default"}})"));
  ASSERT_TRUE(Eventually([&] {
    return (*manager)->client().Get("configmaps", {"default", "d"}).has_value();
  }));
  EXPECT_EQ(*(*manager)->store().DeltaHandlers(informer->GetIndexer().collection().id),
            std::vector<std::string>{"~enqueuer/mine"});
}

TEST_F(ControllerTest, AMappedKeyThatIsTooLongIsDropped) {
  const auto create = [&](const std::string& name, size_t bytes) {
    ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"namespace":"default","name":")" +
                                                   name + R"(","annotations":{"of":")" +
                                                   std::string(bytes, 'x') + R"("}}})"));
  };
  create("stored", 70'000);
  auto manager = Run([&](Manager& target) {
    return ControllerBuilder(target)
        .For("pods")
        .Watches("configmaps",
                 [](const Object& config) {
                   return std::vector<ObjectKey>{{"default", std::string(*config.Annotation("of"))},
                                                 {"default", std::string(config.name())}};
                 })
        .Complete(Counting());
  });
  create("longer", 200'000);
  create("last", 1);
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/last") == 1; }));
  EXPECT_TRUE(Eventually([&] {
    return runs_.Keys() ==
           std::set<std::string>{"default/x", "default/last", "default/longer", "default/stored"};
  }));
  EXPECT_EQ((*manager)->FindController("pods")->queue().Counters().items, 0u);
}

// One that finds nothing, because the index is not built yet, would be done with its object.
TEST_F(ControllerTest, AMappingIsCalledWhenTheIndexesThatItReadsAreBuilt) {
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"c","namespace":"default"}})"));
  ASSERT_TRUE(cluster().Create("services", R"({"metadata":{"name":"s","namespace":"default"}})"));
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(target.Watch("services"));
    LARDER_RETURN_IF_ERROR(target.Watch("configmaps"));
    return ControllerBuilder(target).For("pods").Complete(Counting());
  });
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  Gate gate;
  std::atomic<bool> mapped{false};
  auto made = Manager::Create(environment_->Options());
  ASSERT_TRUE(made) << made.error().ToString();
  Manager& target = **made;
  const auto slow = [&gate](const Object&) {
    gate.Wait();
    return std::vector<std::string>{"all"};
  };
  ASSERT_TRUE(
      target.Watch("services", {.indexes = {IndexDefinition::ByFunction("slow", 1, slow)}}));
  ASSERT_TRUE(ControllerBuilder(target)
                  .For("pods")
                  .Watches("configmaps",
                           [&](const Object&) {
                             mapped = true;
                             Query query;
                             query.index = {"slow", "all"};
                             std::vector<ObjectKey> keys;
                             const auto services = target.client().List("services", query);
                             if (!services) return keys;
                             for (const ObjectPtr& one : *services) keys.push_back(one->key());
                             return keys;
                           })
                  .Complete(Counting()));
  testing::RunningManager running(*std::move(made));
  ASSERT_TRUE(Eventually([&] { return running->port() != 0; }));
  EXPECT_TRUE(Eventually([&] {
    return mapped || HttpGet(running->port(), "/readyz").find("being built: services (slow)") !=
                         std::string::npos;
  }));
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/s") == 1; }));
  EXPECT_EQ(HttpGet(running->port(), "/readyz"), "ok");
}

// Configmaps are mapped to all services.
Result<void> MapConfigmapsToServices(Manager& target, ReconcileFunction reconcile,
                                     SourceOptions services = {}) {
  LARDER_RETURN_IF_ERROR(target.Watch("services", std::move(services)));
  return ControllerBuilder(target)
      .For("pods")
      .Watches("configmaps",
               [&target](const Object&) {
                 std::vector<ObjectKey> keys;
                 const auto found = target.client().List("services");
                 if (!found) return keys;
                 for (const ObjectPtr& one : *found) keys.push_back(one->key());
                 return keys;
               })
      .Complete(std::move(reconcile));
}

TEST_F(ControllerTest, AMappingIsCalledWhenTheCollectionsThatItReadsAreListed) {
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"c","namespace":"default"}})"));
  ASSERT_TRUE(cluster().Create("services", R"({"metadata":{"name":"s","namespace":"default"}})"));
  auto manager = Run([&](Manager& target) -> Result<void> {
    LARDER_RETURN_IF_ERROR(target.Watch("configmaps"));
    return ControllerBuilder(target).For("pods").Complete(Counting());
  });
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  // A new mapping of what is stored, which reads what is not.
  manager = Run([&](Manager& target) { return MapConfigmapsToServices(target, Counting()); });
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/s") == 1; }));
}

TEST_F(ControllerTest, AMappingOfWhatChangedMeanwhileWaitsForWhatIsListedAnew) {
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"c","namespace":"default"}})"));
  ASSERT_TRUE(cluster().Create("services", R"({"metadata":{"name":"s","namespace":"default"}})"));
  auto manager = Run([&](Manager& target) { return MapConfigmapsToServices(target, Counting()); });
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/s") == 1; }));
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  runs_.Clear();
  ASSERT_TRUE(cluster().Patch("configmaps", "default", "c", R"({"data":{"new":"1"}})"));
  const std::string changed((*cluster().Get("configmaps", "default", "c"))->resource_version());
  cluster().AddFault(
      {.type = apiserver::FaultType::kError, .resource = "services", .times = -1, .code = 503});
  auto made = Manager::Create(environment_->Options());
  ASSERT_TRUE(made) << made.error().ToString();
  // Another transform: another collection, which is empty.
  ASSERT_TRUE(MapConfigmapsToServices(**made, Counting(), {.transform = *DropPaths({"spec"})}));
  testing::RunningManager running(*std::move(made));
  ASSERT_TRUE(Eventually([&] {
    const auto stored = running->client().Get("configmaps", {"default", "c"});
    return running->informers() != nullptr && stored && (*stored)->resource_version() == changed;
  }));
  EXPECT_EQ(runs_.Of("default/s"), 0);
  cluster().ClearFaults();
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/s") == 1; }));
}

TEST_F(ControllerTest, AStopEndsTheWaitForAnIndex) {
  ASSERT_TRUE(cluster().Create("services", R"({"metadata":{"name":"s","namespace":"default"}})"));
  auto manager = Run([](Manager& target) { return target.Watch("services"); });
  ASSERT_TRUE(manager->Stop());
  manager.reset();
  Gate gate;
  std::atomic<bool> waits{false};
  auto made = Manager::Create(environment_->Options());
  ASSERT_TRUE(made) << made.error().ToString();
  const auto slow = [&](const Object&) {
    waits = true;
    gate.Wait();
    return std::vector<std::string>{"all"};
  };
  ASSERT_TRUE(
      (*made)->Watch("services", {.indexes = {IndexDefinition::ByFunction("slow", 1, slow)}}));
  testing::RunningManager running(*std::move(made));
  EXPECT_TRUE(Eventually([&] { return waits.load(); }));
  EXPECT_TRUE(running.Stop());
  EXPECT_FALSE(running->WaitForSync(RealClock()->Now()));
  gate.Open();  // for whom the builder waits before it ends
}

// The committer ends after the work, and takes what it has with it.
TEST_F(ControllerTest, AMappingThatRunsWhileTheManagerStopsReadsFromTheStore) {
  CreatePod("a");
  auto gate = std::make_shared<Gate>();
  std::atomic<bool> hold{true};
  std::atomic<bool> entered{false};
  const auto everything = [](const Object&) { return std::vector<std::string>{"all"}; };
  const auto run = [&] {
    return Run([&](Manager& target) {
      return ControllerBuilder(target)
          .For("pods", {.indexes = {IndexDefinition::ByFunction("everything", 1, everything)}})
          .Watches("configmaps",
                   [&, gate](const Object&) {
                     entered = true;
                     if (hold) gate->Wait();
                     Query query;
                     query.index = {"everything", "all"};
                     std::vector<ObjectKey> keys;
                     const auto pods = target.client().List("pods", query);
                     EXPECT_TRUE(pods) << pods.error().ToString();
                     if (!pods) return keys;
                     for (const ObjectPtr& pod : *pods) keys.push_back(pod->key());
                     return keys;
                   })
          .Complete(Counting());
    });
  };
  auto manager = run();
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  ASSERT_TRUE(cluster().Create("configmaps", R"({"metadata":{"name":"c","namespace":"default"}})"));
  ASSERT_TRUE(Eventually([&] { return entered.load(); }));
  {
    std::jthread stopper([&] { EXPECT_TRUE(manager->Stop()); });
    // Informers that end are given to nobody.
    EXPECT_TRUE(Eventually([&] {
      InformerOptions another;
      another.resource = *LookupResource("pods");
      const auto asked = (*manager)->informers()->ForResource(another);
      return !asked && asked.error().code == ErrorCode::kCancelled;
    }));
    hold = false;
    gate->Open();
  }
  manager.reset();
  EXPECT_EQ(runs_.Of("default/a"), 1);
  runs_.Clear();
  manager = run();
  EXPECT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
}

}  // namespace
}  // namespace larder
