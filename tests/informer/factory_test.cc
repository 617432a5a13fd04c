// The factory: sharing, starting, waiting with a report, shutting down, several clusters.
#include "informer/factory.h"

#include "tests/informer/fixture.h"

namespace larder {
namespace {

using std::chrono::milliseconds;

constexpr auto kFactoryPatience = std::chrono::seconds(30);

class FactoryTest : public InformerTest {
 protected:
  void SetUp() override {
    InformerTest::SetUp();
    OpenParts();
  }
  void TearDown() override {
    factory_.reset();
    InformerTest::TearDown();
  }
  SharedInformerFactory& Make(FactoryOptions options = {}) {
    factory_ = std::make_unique<SharedInformerFactory>(Context(), std::move(options));
    return *factory_;
  }
  static InformerOptions Pods() { return For("pods"); }
  static InformerOptions For(const char* resource) {
    InformerOptions options;
    options.resource = *LookupResource(resource);
    return options;
  }
  static Clock::Steady Soon() { return RealClock()->Now() + kFactoryPatience; }

  std::unique_ptr<SharedInformerFactory> factory_;
};

TEST_F(FactoryTest, OneInformerHoweverManyAsk) {
  CreatePod("a");
  auto& factory = Make();
  const auto first = factory.ForResource(Pods());
  const auto second = factory.ForResource(Pods());
  ASSERT_TRUE(first) << first.error().ToString();
  ASSERT_TRUE(second);
  EXPECT_EQ(*first, *second);
  InformerOptions selected = Pods();
  selected.label_selector = "app=web,tier=a";
  InformerOptions spelled = Pods();
  spelled.label_selector = "tier==a, app in (web)";
  const auto third = factory.ForResource(selected);
  EXPECT_NE(*first, *third);
  EXPECT_EQ(*third, *factory.ForResource(spelled)) << "two spellings of one selector";
  factory.Start();
  ASSERT_TRUE(factory.WaitForCacheSync(Soon(), {}));
  EXPECT_EQ(factory.Status().size(), 2u);
  EXPECT_EQ(Lists(), 2u);
}

TEST_F(FactoryTest, IndexesOfAllWhoAskAreMerged) {
  CreatePod("a", "n7");
  auto& factory = Make();
  InformerOptions by_node = Pods();
  by_node.indexes = {*IndexDefinition::ByField("node", "spec.nodeName")};
  InformerOptions by_both = Pods();
  by_both.indexes = {*IndexDefinition::ByField("node", "spec.nodeName"),
                     IndexDefinition::ByLabel("app")};
  ASSERT_TRUE(factory.ForResource(by_node));
  const auto pods = factory.ForResource(by_both);
  ASSERT_TRUE(pods) << pods.error().ToString();
  factory.Start();
  ASSERT_TRUE(factory.WaitForCacheSync(Soon(), {}));
  EXPECT_EQ((*pods)->GetIndexer().ByIndex("node", "n7")->size(), 1u);
  EXPECT_EQ((*pods)->GetIndexer().ByIndex("app", "web")->size(), 1u);
  InformerOptions other = Pods();
  other.indexes = {*IndexDefinition::ByField("node", "status.phase")};
  const auto refused = factory.ForResource(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kAlreadyExists);
}

TEST_F(FactoryTest, IndexesOfWhoAsksLaterSurviveARestart) {
  CreatePod("a", "n7");
  InformerOptions by_node = Pods();
  by_node.indexes = {*IndexDefinition::ByField("node", "spec.nodeName")};
  InformerOptions by_app = Pods();
  by_app.indexes = {IndexDefinition::ByLabel("app")};
  for (int start = 0; start < 3; ++start) {
    auto& factory = Make();
    ASSERT_TRUE(factory.ForResource(by_node));
    factory.Start();
    ASSERT_TRUE(factory.WaitForCacheSync(Soon(), {}));
    CreatePod("b" + std::to_string(start), "n7");
    // Only now, with the stream under way.
    const auto pods = factory.ForResource(by_app);
    ASSERT_TRUE(pods) << pods.error().ToString();
    Indexer& indexer = (*pods)->GetIndexer();
    if (start == 0) {
      ASSERT_TRUE(indexer.WaitUntilReady(kFactoryPatience));
    }
    for (const Indexer::BuildProgress& index : indexer.Progress()) {
      EXPECT_TRUE(index.ready) << index.index;
      if (start == 0) continue;
      EXPECT_EQ(index.scanned, 0u) << index.index << " was built again";
    }
    const std::string version = std::to_string(simulator_->History().back().version);
    ASSERT_TRUE((*pods)->WaitUntil(version, Soon(), {}));
    EXPECT_EQ(indexer.ByIndex("app", "web")->size(), static_cast<size_t>(start) + 2);
    factory_.reset();
    Close();
    OpenParts();
  }
}

TEST_F(FactoryTest, ContradictingTransformsAreAnError) {
  auto& factory = Make();
  InformerOptions bare = Pods();
  bare.transform.name = "bare@1";
  bare.transform.apply = [](const ObjectPtr& object) -> Result<ObjectPtr> { return object; };
  ASSERT_TRUE(factory.ForResource(bare));
  EXPECT_TRUE(factory.ForResource(bare));
  const auto whole = factory.ForResource(Pods());
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(whole.error().message.find("bare@1"), std::string::npos) << whole.error().message;
  EXPECT_TRUE(factory.ForResource(For("nodes")));
}

TEST_F(FactoryTest, DefaultsApplyWhereTheRequestNamesNone) {
  ASSERT_TRUE(simulator_->CreateNamespace("y"));
  CreatePod("a");
  std::vector<std::string> tweaked;
  auto& factory = Make({.namespaces = {"x"},
                        .label_selector = "app=web",
                        .resync_period = milliseconds(7000),
                        .tweak = [&](InformerOptions& options) {
                          tweaked.push_back(options.resource.ToString());
                          options.reflector.page_size = 3;
                        }});
  const auto pods = factory.ForResource(Pods());
  ASSERT_TRUE(pods);
  EXPECT_EQ((*pods)->options().ns, "x");
  EXPECT_EQ((*pods)->options().label_selector, "app=web");
  EXPECT_EQ((*pods)->options().resync_period, milliseconds(7000));
  EXPECT_EQ((*pods)->options().reflector.page_size, 3u);
  InformerOptions own = Pods();
  own.ns = "y";
  own.label_selector = "app=db";
  EXPECT_EQ((*factory.ForResource(own))->options().ns, "y");
  EXPECT_EQ((*factory.ForResource(For("nodes")))->options().ns, "") << "nodes have no namespace";
  EXPECT_EQ(tweaked, (std::vector<std::string>{"pods", "pods", "nodes"}));
}

TEST_F(FactoryTest, SeveralNamespacesAreSeveralStreams) {
  for (const char* ns : {"y", "z"}) ASSERT_TRUE(simulator_->CreateNamespace(ns));
  CreatePod("a");
  auto& factory = Make({.namespaces = {"y", "x", "y"}});
  EXPECT_FALSE(factory.ForResource(Pods()));
  const auto informers = factory.ForNamespaces(Pods());
  ASSERT_TRUE(informers) << informers.error().ToString();
  ASSERT_EQ(informers->size(), 2u);
  factory.Start();
  ASSERT_TRUE(factory.WaitForCacheSync(Soon(), {}));
  EXPECT_EQ(*(*informers)[0]->GetIndexer().Count(), 1u);
  EXPECT_EQ(*(*informers)[1]->GetIndexer().Count(), 0u);
  EXPECT_EQ(factory.ForNamespaces(For("nodes"))->size(), 1u);
}

TEST_F(FactoryTest, StartMayBeCalledAgainAfterMoreWereAskedFor) {
  auto& factory = Make();
  ASSERT_TRUE(factory.ForResource(Pods()));
  factory.Start();
  ASSERT_TRUE(factory.WaitForCacheSync(Soon(), {}));
  ASSERT_TRUE(factory.ForResource(For("nodes")));
  const auto early = factory.WaitForCacheSync(RealClock()->Now(), {});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kTimeout);
  EXPECT_NE(early.error().message.find("1 of 2 informers are not synced: nodes (not started)"),
            std::string::npos)
      << early.error().message;
  factory.Start();
  factory.Start();
  EXPECT_TRUE(factory.WaitForCacheSync(Soon(), {}));
}

TEST_F(FactoryTest, WaitSaysWhoIsMissingAndWhy) {
  InformerContext context = Context();
  context.cluster_name = "blue";
  SharedInformerFactory factory(context);
  ASSERT_TRUE(factory.ForResource(For("nodes")));
  InformerOptions widgets;
  widgets.resource = *LookupResource("widgets.v1.example.com");
  const auto informer = factory.ForResource(widgets);
  ASSERT_TRUE(informer);
  factory.Start();
  while (!(*informer)->Status().reflector.last_error) std::this_thread::yield();
  const auto synced = factory.WaitForCacheSync(RealClock()->Now() + milliseconds(200), {});
  ASSERT_FALSE(synced);
  EXPECT_EQ(synced.error().code, ErrorCode::kTimeout);
  EXPECT_NE(synced.error().message.find("blue: "), std::string::npos);
  EXPECT_NE(synced.error().message.find("widgets.example.com"), std::string::npos);
  EXPECT_NE(synced.error().message.find("NotFound"), std::string::npos) << synced.error().message;
}

TEST_F(FactoryTest, WaitEndsWhenAskedToStop) {
  auto& factory = Make();
  ASSERT_TRUE(factory.ForResource(Pods()));
  std::stop_source stop;
  stop.request_stop();
  const auto synced = factory.WaitForCacheSync(Soon(), stop.get_token());
  ASSERT_FALSE(synced);
  EXPECT_EQ(synced.error().code, ErrorCode::kCancelled);
}

TEST_F(FactoryTest, ShutdownEndsEverythingAndNothingStartsAfterwards) {
  CreatePod("a");
  auto& factory = Make();
  const auto pods = factory.ForResource(Pods());
  auto handler = std::make_shared<RecordingHandler>();
  ASSERT_TRUE((*pods)->AddEventHandler(handler));
  factory.Start();
  ASSERT_TRUE(factory.WaitForCacheSync(Soon(), {}));
  factory.Shutdown();
  EXPECT_TRUE((*pods)->IsStopped());
  const size_t heard = handler->Calls().size();
  CreatePod("b");
  const auto later = factory.ForResource(For("nodes"));
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, ErrorCode::kCancelled);
  factory.Start();
  factory.Shutdown();
  EXPECT_EQ(handler->Calls().size(), heard);
}

TEST_F(FactoryTest, OneCollectionHasOneInformerInAProcess) {
  auto& factory = Make();
  ASSERT_TRUE(factory.ForResource(Pods()));
  SharedInformerFactory second(Context());
  const auto refused = second.ForResource(Pods());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kAlreadyExists);
  factory_.reset();
  EXPECT_TRUE(second.ForResource(Pods()));
}

TEST_F(FactoryTest, TwoClustersShareOneStoreAndStayApart) {
  CreatePod("a");
  auto other = apiserver::Simulator::Start({.seed = 77});
  ASSERT_TRUE(other);
  ASSERT_TRUE((*other)->CreateNamespace("x"));
  ASSERT_TRUE((*other)->Create("pods", R"({"apiVersion":"v1","kind":"Pod",
      "metadata":{"name":"b","namespace":"x"},"spec":{}})"));
  ASSERT_NE((*other)->ClusterUid(), simulator_->ClusterUid());
  auto transport = MakeTransport(ForUrl((*other)->Url()));
  ASSERT_TRUE(transport);
  auto& blue = Make();
  InformerContext context = Context();
  context.transport = transport->get();
  context.cluster_uid = (*other)->ClusterUid();
  SharedInformerFactory green(context);
  const auto blue_pods = blue.ForResource(Pods());
  const auto green_pods = green.ForResource(Pods());
  ASSERT_TRUE(blue_pods);
  ASSERT_TRUE(green_pods);
  blue.Start();
  green.Start();
  ASSERT_TRUE(blue.WaitForCacheSync(Soon(), {}));
  ASSERT_TRUE(green.WaitForCacheSync(Soon(), {}));
  EXPECT_TRUE((*blue_pods)->GetIndexer().GetByKey({"x", "a"}));
  EXPECT_FALSE((*blue_pods)->GetIndexer().GetByKey({"x", "b"}));
  EXPECT_TRUE((*green_pods)->GetIndexer().GetByKey({"x", "b"}));
  EXPECT_FALSE((*green_pods)->GetIndexer().GetByKey({"x", "a"}));
}

}  // namespace
}  // namespace larder
