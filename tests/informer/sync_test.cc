// Listing, watching, resuming: what is stored and what is asked of the server.
#include <algorithm>
#include <stdexcept>

#include "tests/informer/fixture.h"

namespace larder {
namespace {

InformerOptions ByNode() {
  InformerOptions options;
  options.indexes = {*IndexDefinition::ByField("node", "spec.nodeName")};
  return options;
}

TEST_F(InformerTest, ServesWhatTheServerHasByKeyAndIndex) {
  CreatePod("a", "n1");
  CreatePod("b", "n2");
  Open(ByNode());
  Sync();
  const auto a = informer_->GetIndexer().GetByKey({"x", "a"});
  ASSERT_TRUE(a) << a.error().ToString();
  EXPECT_EQ((*a)->kind(), "Pod");
  const auto on_n2 = informer_->GetIndexer().ByIndex("node", "n2");
  ASSERT_TRUE(on_n2);
  ASSERT_EQ(on_n2->size(), 1u);
  EXPECT_EQ((*on_n2)[0]->name(), "b");
}

TEST_F(InformerTest, ListsWhenItIsItsTurnAndStopsWhileItWaits) {
  CreatePod("a");
  OpenParts();
  ListGate gate(1);
  InformerContext context = Context();
  context.list_gate = &gate;
  InformerOptions options;
  options.resource = *LookupResource("pods");
  for (const bool stopped : {true, false}) {
    auto opened = SharedInformer::Open(context, options);
    ASSERT_TRUE(opened) << opened.error().ToString();
    informer_ = *std::move(opened);
    auto pass = gate.Enter({});
    informer_->Start();
    while (informer_->Status().reflector.state != ReflectorState::kListing) {
      std::this_thread::yield();
    }
    EXPECT_EQ(Lists(), 0u);
    if (stopped) {
      informer_->Stop();
      informer_.reset();
      continue;
    }
    pass->reset();
    Sync();
    EXPECT_EQ(Lists(), 1u);
  }
  EXPECT_TRUE(gate.Enter({})) << "given back when the list was done";
}

TEST_F(InformerTest, FollowsCreatesUpdatesAndDeletes) {
  CreatePod("a");
  Open(ByNode());
  Sync();
  CreatePod("b", "n7");
  TouchPod("a");
  DeletePod("a");
  CatchUp();
  EXPECT_FALSE(informer_->GetIndexer().GetByKey({"x", "a"}));
  EXPECT_EQ(informer_->GetIndexer().ByIndex("node", "n7")->size(), 1u);
  EXPECT_EQ(informer_->GetIndexer().ByIndex("node", "n1")->size(), 0u);
}

TEST_F(InformerTest, ResumesFromItsVersionWithoutAList) {
  for (int i = 0; i < 50; ++i) CreatePod("p" + std::to_string(i));
  Open();
  Sync();
  CatchUp();
  Close();
  TouchPod("p1");
  DeletePod("p2");
  CreatePod("q");
  simulator_->ResetStats();
  Open();
  Sync();
  CatchUp();
  const ReflectorStatus reflector = informer_->Status().reflector;
  EXPECT_EQ(reflector.lists, 0u);
  EXPECT_EQ(reflector.objects, 3u);
  // The check for a rewound version asks for one object; nothing else is transferred.
  EXPECT_LE(simulator_->StatsOf("pods").objects, 1u);
  EXPECT_EQ(*informer_->GetIndexer().Count(), 50u);
  EXPECT_TRUE(informer_->GetIndexer().GetByKey({"x", "q"}));
  EXPECT_FALSE(informer_->GetIndexer().GetByKey({"x", "p2"}));
}

// The versions of the restored server are past the stored one: only what it holds gives it away.
class RestoredServerTest : public InformerTest {
 protected:
  // `lose` makes changes while a backup exists already, and whether the informer hears of them from
  // its list or from its watch is its own to say.
  void ExpectNoticed(const std::function<void()>& lose) {
    for (int i = 0; i < 20; ++i) CreatePod("p" + std::to_string(i));
    simulator_->SaveState();
    lose();
    CatchUp();
    Close();
    ASSERT_TRUE(simulator_->RestoreState());
    for (int i = 0; i < 50; ++i) CreatePod("new-" + std::to_string(i));
    Open();
    informer_->Start();
    const auto patience = RealClock()->Now() + std::chrono::minutes(1);
    while (informer_->Status().reflector.lists == 0 && RealClock()->Now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(informer_->Status().reflector.restarts["rewound"], 1U);
    CatchUp();
    EXPECT_EQ(*informer_->GetIndexer().Count(), 70U);
    EXPECT_FALSE(informer_->GetIndexer().GetByKey({"x", "lost"}));
    EXPECT_TRUE(informer_->GetIndexer().GetByKey({"x", "p1"}));
  }
  void OpenAndSync() {
    Open();
    Sync();
  }
};

TEST_F(RestoredServerTest, IsNoticedByAnObjectOfTheList) {
  ExpectNoticed([this] {
    DeletePod("p1");
    CreatePod("lost");
    OpenAndSync();
  });
}

TEST_F(RestoredServerTest, IsNoticedByAnObjectThatWasAdded) {
  ExpectNoticed([this] {
    OpenAndSync();
    DeletePod("p1");
    CreatePod("lost");
  });
}

TEST_F(RestoredServerTest, IsNoticedByAnObjectThatWasChanged) {
  ExpectNoticed([this] {
    OpenAndSync();
    CreatePod("lost");
    TouchPod("p2");
  });
}

TEST_F(RestoredServerTest, IsNoticedByAnObjectThatWasDeleted) {
  ExpectNoticed([this] {
    OpenAndSync();
    CreatePod("lost");
    DeletePod("p1");
  });
}

TEST_F(InformerTest, RelistAfterExpiredHistoryTouchesOnlyWhatChanged) {
  for (int i = 0; i < 60; ++i) CreatePod("p" + std::to_string(i));
  Open();
  Sync();
  Close();
  TouchPod("p1");
  DeletePod("p2");
  CreatePod("q");
  simulator_->ExpireHistory("pods");
  Open();
  Sync();
  CatchUp();
  const CollectionSyncStats sync = informer_->Status().sync;
  EXPECT_EQ(sync.added, 1u);
  EXPECT_EQ(sync.updated, 1u);
  EXPECT_EQ(sync.deleted, 1u);
  EXPECT_EQ(sync.unchanged, 58u);
  EXPECT_EQ(*informer_->GetIndexer().Count(), 60u);
}

TEST_F(InformerTest, StoreEqualsTheServerAfterHeavyChurnAndRestarts) {
  ASSERT_TRUE(simulator_->Load(300));
  for (int round = 0; round < 4; ++round) {
    Open(ByNode());
    Sync();
    simulator_->RunChurn(300, {.rate = 1,
                               .create = 1,
                               .update = 3,
                               .remove = 1,
                               .seed = static_cast<uint64_t>(round),
                               .limit = 0});
    if (round % 2 == 0) CatchUp();
    Close();
    simulator_->RunChurn(100, {.rate = 1,
                               .create = 1,
                               .update = 3,
                               .remove = 1,
                               .seed = static_cast<uint64_t>(100 + round),
                               .limit = 0});
    if (round == 2) simulator_->ExpireHistory("pods");
  }
  Open(ByNode());
  Sync();
  CatchUp();
  std::map<std::string, std::pair<std::string, std::string>> stored;
  ASSERT_TRUE(informer_->GetIndexer().ForEach({}, [&](const ObjectPtr& pod) {
    stored[pod->key().ToString()] = {std::string(pod->uid()), std::string(pod->resource_version())};
    return true;
  }));
  EXPECT_EQ(stored, simulator_->Snapshot("pods"));
}

TEST_F(InformerTest, ChangedSelectorIsAnotherCollection) {
  CreatePod("a");
  Open();
  Sync();
  const CollectionId all = informer_->GetIndexer().collection().id;
  Close();
  InformerOptions none;
  none.label_selector = "app=nothing";
  Open(std::move(none));
  Sync();
  EXPECT_NE(informer_->GetIndexer().collection().id, all);
  EXPECT_EQ(*informer_->GetIndexer().Count(), 0u);
}

TEST_F(InformerTest, AnotherClusterAtTheSameAddressIsNoticed) {
  CreatePod("a");
  Open();
  Sync();
  Close();
  const std::string before = simulator_->ClusterUid();
  ASSERT_TRUE(simulator_->SetClusterUid("11111111-2222-3333-4444-555555555555"));
  // The owner still believes in the old one, as after a restart that could not ask.
  auto store = Store::Open({.path = (directory_ / "store").string()});
  ASSERT_TRUE(store);
  auto transport = MakeTransport(ForUrl(simulator_->Url()));
  HotTier hot({});
  InformerOptions options;
  options.resource = *LookupResource("pods");
  auto informer = SharedInformer::Open({store->get(), &hot, transport->get(), before}, options);
  ASSERT_TRUE(informer);
  std::mutex mutex;
  std::condition_variable noticed;
  bool told = false;
  (*informer)->SetAnotherClusterHandler([&] {
    // It may stop the informer, and throw.
    (*informer)->Stop();
    std::lock_guard lock(mutex);
    told = true;
    noticed.notify_all();
    throw std::runtime_error("asked to throw");
  });
  (*informer)->Start();
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(noticed.wait_for(lock, std::chrono::seconds(20), [&] { return told; }));
  }
  EXPECT_FALSE((*informer)->HasSynced());
  EXPECT_TRUE((*informer)->IsStopped());
  (*informer)->Stop();
}

TEST_F(InformerTest, TransformIsAppliedBeforeStoring) {
  CreatePod("a");
  InformerOptions options;
  options.transform.name = "no-spec@1";
  options.transform.apply = [](const ObjectPtr& pod) -> Result<ObjectPtr> {
    Json json = pod->ToMutable();
    json.erase("spec");
    return Object::FromJson(json);
  };
  Open(std::move(options));
  Sync();
  const auto a = informer_->GetIndexer().GetByKey({"x", "a"});
  ASSERT_TRUE(a);
  EXPECT_EQ((*a)->json().find(R"("nodeName":"n1")"), std::string_view::npos);
}

}  // namespace
}  // namespace larder
