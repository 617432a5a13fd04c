// What tenants and scoped informers see, and above all what they do not.
#include <algorithm>
#include <set>

#include "tests/informer/tenant_fixture.h"

namespace larder {
namespace {

TenantOptions Red() {
  TenantOptions options;
  options.name = "red";
  options.namespaces = {"x", "y"};
  options.label_selector = "team=red";
  return options;
}

// With a wider informer and without one: the tenant sees the same.
class TenantSeesTest : public TenantTest, public ::testing::WithParamInterface<bool> {
 protected:
  ScopedInformer& OpenPods() {
    if (GetParam()) {
      EXPECT_TRUE(factory_->ForResource(Pods()));
    }
    const auto pods = Make(Red()).ForResource(Pods());
    EXPECT_TRUE(pods) << pods.error().ToString();
    return **pods;
  }
};
INSTANTIATE_TEST_SUITE_P(SharedAndAlone, TenantSeesTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Shared" : "Alone"; });

TEST_P(TenantSeesTest, OnlyItsOwnByKeyListIndexAndCount) {
  ScopedInformer& pods = OpenPods();
  StartAll();
  EXPECT_TRUE(pods.Get({"x", "mine"}));
  for (const ObjectKey& hidden : {ObjectKey{"x", "other"}, {"z", "far"}, {"x", "nothing"}}) {
    const auto got = pods.Get(hidden);
    ASSERT_FALSE(got) << hidden.ToString();
    EXPECT_EQ(got.error().message, "no object " + hidden.ToString()) << "no telling apart";
  }
  EXPECT_EQ(KeysOf(pods.List({})->objects), (Keys{"x/mine", "y/mine"}));
  EXPECT_EQ(KeysOf(pods.List({.ns = "y"})->objects), Keys{"y/mine"});
  EXPECT_TRUE(pods.List({.ns = "z"})->objects.empty());
  EXPECT_EQ(*pods.Count(), 2u);
  EXPECT_EQ(*pods.Count({.ns = "z"}), 0u);
  EXPECT_EQ(KeysOf(*pods.ByIndex("node", "n1")), Keys{"x/mine"});
  EXPECT_EQ(pods.IndexKeys("node", "n1")->size(), 1u);
  EXPECT_EQ(*pods.ListIndexFuncValues("node"), (std::vector<std::string>{"n1", "n2"}));
  EXPECT_TRUE(pods.List({.labels = *LabelSelector::Parse("team=blue")})->objects.empty())
      << "a query narrows and never widens";
}

TEST_P(TenantSeesTest, PagesRunThroughAllNamespaces) {
  for (int i = 0; i < 5; ++i) {
    Put("x", "p" + std::to_string(i), "red", "n1");
    Put("y", "p" + std::to_string(i), "red", "n1");
  }
  ScopedInformer& pods = OpenPods();
  StartAll();
  std::vector<std::string> keys;
  Query query;
  query.limit = 3;
  for (int page = 0; page < 20; ++page) {
    const auto got = pods.List(query);
    ASSERT_TRUE(got) << got.error().ToString();
    EXPECT_LE(got->objects.size(), 3u);
    for (const auto& object : got->objects) keys.push_back(object->key().ToString());
    if (got->continue_token.empty()) break;
    query.continue_token = got->continue_token;
  }
  EXPECT_EQ(keys.size(), 12u);
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  query.continue_token = "nonsense";
  EXPECT_EQ(pods.List(query).error().code, ErrorCode::kInvalidArgument);
}

TEST_P(TenantSeesTest, HandlersHearEnteringAndLeavingAndNothingElse) {
  ScopedInformer& pods = OpenPods();
  auto handler = std::make_shared<RecordingHandler>();
  const auto registration = pods.AddEventHandler(handler);
  ASSERT_TRUE(registration) << registration.error().ToString();
  StartAll();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_EQ(handler->Count("add"), 2u);
  Relabel("x", "other", "red");  // enters
  Relabel("x", "mine", "blue");  // leaves
  Relabel("z", "far", "green");  // never was here
  Put("z", "new", "red", "n1");  // nor this
  ASSERT_TRUE(simulator_->Delete("pods", "z", "far"));
  ASSERT_TRUE(simulator_->Delete("pods", "x", "mine"));  // gone for the tenant already
  Put("y", "last", "red", "n9");
  ASSERT_TRUE(handler->WaitFor([](const auto& h) {
    return h.Count("add y/last") == 1 && h.Count("add x/other") == 1 &&
           h.Last("x/mine") == "deleted";
  }));
  Settle();
  EXPECT_EQ(handler->Count("delete x/mine"), 1u);
  for (const std::string& call : handler->Calls()) {
    EXPECT_EQ(call.find(" z/"), std::string::npos) << call;
  }
  EXPECT_EQ(handler->Calls().size(), 5u);
}

TEST_P(TenantSeesTest, LastStateOfWhatLeftIsTheLastItWasAllowedToSee) {
  ScopedInformer& pods = OpenPods();
  std::mutex mutex;
  std::vector<std::string> teams;
  auto handler = std::make_shared<EventHandlerFuncs>();
  handler->on_delete = [&](const ObjectPtr& last, bool) {
    std::lock_guard lock(mutex);
    teams.emplace_back(*last->Label("team"));
  };
  const auto registration = pods.AddEventHandler(handler);
  ASSERT_TRUE(registration);
  StartAll();
  const RecordingHandler waiter;
  ASSERT_TRUE(waiter.WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  Relabel("x", "mine", "secret");
  ASSERT_TRUE(simulator_->Delete("pods", "y", "mine"));
  EXPECT_TRUE(waiter.WaitFor([&](const auto&) {
    std::lock_guard lock(mutex);
    return teams.size() == 2;
  }));
  EXPECT_EQ(teams, (std::vector<std::string>{"red", "red"}));
}

TEST_P(TenantSeesTest, QueueGetsItemsOfItsOwnObjectsOnly) {
  ScopedInformer& pods = OpenPods();
  auto queue = tenant_->OpenQueue({.name = "work"});
  ASSERT_TRUE(queue) << queue.error().ToString();
  EnqueuerOptions options;
  options.name = "work";
  ASSERT_TRUE(pods.AddEnqueuer(queue->get(), options,
                               [](const ObjectChange& change, const Enqueue& enqueue) {
                                 enqueue(change.current()->key().ToString(), 0);
                               }));
  StartAll();
  Relabel("x", "mine", "blue");
  Relabel("z", "far", "green");
  Put("y", "last", "red", "n1");
  std::set<std::string> items;
  while (items.count("y/last") == 0 || items.size() < 3) {
    const auto item = (*queue)->Get({}, kTenantPatience);
    ASSERT_TRUE(item);
    items.insert(*item);
    (*queue)->Done(*item);
  }
  EXPECT_EQ(items, (Keys{"x/mine", "y/last", "y/mine"}));
  auto blue = Tenant::Create(factory_.get(), {.name = "blue", .all_namespaces = true});
  ASSERT_TRUE(blue);
  EXPECT_TRUE((*blue)->OpenQueue({.name = "work"})) << "another tenant's is another queue";
  factory_->Shutdown();
}

TEST_F(TenantTest, SharesTheStreamOfAWiderInformer) {
  ASSERT_TRUE(factory_->ForResource(Pods()));
  const auto pods = Make(Red()).ForResource(Pods());
  ASSERT_TRUE(pods);
  StartAll();
  EXPECT_EQ(factory_->Status().size(), 1u);
  EXPECT_EQ(Lists(), 1u);
  EXPECT_EQ(KeysOf((*pods)->List({})->objects), (Keys{"x/mine", "y/mine"}));
  ASSERT_EQ(tenant_->Status().informers.size(), 1u);
  EXPECT_TRUE(tenant_->Status().informers[0].shared);
}

TEST_F(TenantTest, AFieldThatIsAbsentHasTheServersDefaultInASharedStream) {
  ASSERT_TRUE(factory_->ForResource(Pods()));
  ASSERT_TRUE(simulator_->Create(
      "pods", R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"host","namespace":"x"},)"
              R"("spec":{"hostNetwork":true}})"));
  const auto pods =
      Make({.name = "t", .namespaces = {"x"}, .field_selector = "spec.hostNetwork=false"})
          .ForResource(Pods());
  ASSERT_TRUE(pods);
  StartAll();
  EXPECT_EQ(factory_->Status().size(), 1u);
  EXPECT_EQ(KeysOf((*pods)->List({})->objects), (Keys{"x/mine", "x/other"}));
  EXPECT_TRUE((*pods)->Get({"x", "mine"}));
  EXPECT_FALSE((*pods)->Get({"x", "host"}));
}

TEST_F(TenantTest, WithoutAWiderOneOnlyItsOwnIsTransferred) {
  ASSERT_TRUE(Make(Red()).ForResource(Pods()));
  StartAll();
  EXPECT_EQ(factory_->Status().size(), 2u) << "one stream a namespace";
  EXPECT_LE(simulator_->StatsOf("pods").objects, 2u);
}

TEST_F(TenantTest, InformerThatLacksWhatASelectorLooksAtIsNotShared) {
  InformerOptions bare = Pods();
  bare.indexes.clear();
  bare.transform.name = "no-labels@1";
  bare.transform.apply = [](const ObjectPtr& pod) -> Result<ObjectPtr> {
    Json json = pod->ToMutable();
    json["metadata"].erase("labels");
    return Object::FromJson(json);
  };
  ASSERT_TRUE(factory_->ForResource(bare));
  InformerOptions asked = bare;
  asked.label_selector = "team!=blue";
  EXPECT_EQ(*factory_->FindWider(asked), nullptr);
  asked = bare;
  asked.ns = "x";
  EXPECT_NE(*factory_->FindWider(asked), nullptr);
  InformerOptions metadata = Pods();
  metadata.metadata_only = true;
  ASSERT_TRUE(factory_->ForResource(metadata));
  metadata.field_selector = "spec.nodeName!=n1";
  EXPECT_EQ(*factory_->FindWider(metadata), nullptr);
  metadata.field_selector = "metadata.name=mine";
  EXPECT_NE(*factory_->FindWider(metadata), nullptr);
}

// What its own stream is selected by may be cut out of what is stored: the server has judged it.
TEST_F(TenantTest, SeesItsOwnWhereATransformCutsWhatItsSelectorsLookAt) {
  InformerOptions bare = Pods();
  bare.indexes.clear();
  bare.transform.name = "no-labels@1";
  bare.transform.apply = [](const ObjectPtr& pod) -> Result<ObjectPtr> {
    Json json = pod->ToMutable();
    json["metadata"].erase("labels");
    return Object::FromJson(json);
  };
  TenantOptions options = Red();
  options.field_selector = "spec.nodeName!=n9";
  Put("x", "elsewhere", "red", "n9");
  const auto pods = Make(options).ForResource(bare);
  ASSERT_TRUE(pods) << pods.error().ToString();
  // Others, with less and with more rights, have what is theirs and nothing else.
  TenantOptions blue_options = Red();
  blue_options.name = "blue";
  blue_options.label_selector = "team=blue";
  const auto blue = Tenant::Create(factory_.get(), blue_options);
  const auto blues = (*blue)->ForResource(bare);
  const auto all = Tenant::Create(factory_.get(), {.name = "all", .all_namespaces = true});
  const auto everything = (*all)->ForResource(bare);
  const auto handler = std::make_shared<RecordingHandler>();
  const auto registration = (*pods)->AddEventHandler(handler);
  ASSERT_TRUE(registration);
  StartAll();
  ASSERT_TRUE(handler->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  EXPECT_EQ(handler->Count("add"), 2u);
  EXPECT_EQ(KeysOf((*pods)->List({})->objects), (Keys{"x/mine", "y/mine"}));
  EXPECT_TRUE((*pods)->Get({"x", "mine"}));
  for (const ObjectKey& hidden : {ObjectKey{"x", "other"}, {"x", "elsewhere"}, {"z", "far"}}) {
    EXPECT_FALSE((*pods)->Get(hidden)) << hidden.ToString();
  }
  EXPECT_EQ(KeysOf((*blues)->List({})->objects), Keys{"x/other"});
  EXPECT_EQ(*(*everything)->Count(), 5u);
  for (const auto& informer : tenant_->Status().informers) EXPECT_FALSE(informer.shared);
  // What leaves is deleted for it, what enters is added.
  Relabel("x", "mine", "blue");
  Relabel("x", "other", "red");
  EXPECT_TRUE(handler->WaitFor(
      [](const auto& h) { return h.Last("x/mine") == "deleted" && h.Count("add x/other") == 1; }));
  EXPECT_EQ(handler->Calls().size(), 4u);
  factory_->Shutdown();
}

TEST_F(TenantTest, SeesItsOwnWhereOnlyMetadataIsStored) {
  InformerOptions metadata = Pods();
  metadata.indexes.clear();
  metadata.metadata_only = true;
  ASSERT_TRUE(factory_->ForResource(metadata)) << "a wider one that cannot tell";
  TenantOptions options = Red();
  options.field_selector = "spec.nodeName=n1";
  const auto pods = Make(options).ForResource(metadata);
  ASSERT_TRUE(pods) << pods.error().ToString();
  StartAll();
  EXPECT_EQ(KeysOf((*pods)->List({})->objects), Keys{"x/mine"});
  EXPECT_EQ(*(*pods)->Count(), 1u);
  EXPECT_FALSE((*pods)->Get({"y", "mine"}));
  EXPECT_FALSE((*pods)->Get({"x", "other"}));
}

// One of two namespaces of a stream that has both, selected as the tenant is.
TEST_F(TenantTest, SeesItsOwnNamespacesOnlyOfASharedStreamThatIsTransformed) {
  InformerOptions bare = Pods();
  bare.indexes.clear();
  bare.label_selector = "team=red";
  bare.transform.name = "no-labels@1";
  bare.transform.apply = [](const ObjectPtr& pod) -> Result<ObjectPtr> {
    Json json = pod->ToMutable();
    json["metadata"].erase("labels");
    return Object::FromJson(json);
  };
  ASSERT_TRUE(factory_->ForResource(bare));
  TenantOptions options = Red();
  options.namespaces = {"y"};
  bare.label_selector.clear();
  const auto pods = Make(options).ForResource(bare);
  StartAll();
  EXPECT_EQ(factory_->Status().size(), 1u);
  EXPECT_TRUE(tenant_->Status().informers.at(0).shared);
  EXPECT_EQ(KeysOf((*pods)->List({})->objects), Keys{"y/mine"});
  EXPECT_FALSE((*pods)->Get({"z", "far"}));
  EXPECT_FALSE((*pods)->Get({"x", "mine"}));
}

TEST_F(TenantTest, AStreamThatIsLessDurableThanAskedForIsNotShared) {
  ASSERT_TRUE(factory_->ForResource(Pods()));
  Tenant& tenant = Make(Red());
  InformerOptions durable = Pods();
  durable.durability = Durability::kSync;
  ASSERT_TRUE(tenant.ForResource(durable));
  EXPECT_EQ(factory_->Status().size(), 3u) << "a stream of its own for each namespace";
  auto other = Red();
  other.name = "other";
  const auto relaxed = Tenant::Create(factory_.get(), other);
  ASSERT_TRUE((*relaxed)->ForResource(Pods()));
  const auto refused = (*relaxed)->ForResource(durable);
  ASSERT_FALSE(refused) << "it has relaxed ones already";
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(TenantTest, AsksBeyondItsRightsAreForbidden) {
  Tenant& tenant = Make(Red());
  InformerOptions far = Pods();
  far.ns = "z";
  const auto refused = tenant.ForResource(far);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kForbidden);
  EXPECT_NE(refused.error().message.find("allowed: x, y"), std::string::npos)
      << refused.error().message;
  InformerOptions nodes;
  nodes.resource = *LookupResource("nodes");
  EXPECT_EQ(tenant.ForResource(nodes).error().code, ErrorCode::kForbidden);
}

TEST_F(TenantTest, OptionsAreChecked) {
  const auto code = [&](TenantOptions options) {
    const auto tenant = Tenant::Create(factory_.get(), std::move(options));
    return tenant ? "none" : std::string(ToString(tenant.error().code));
  };
  EXPECT_EQ(code({}), "InvalidArgument");
  EXPECT_EQ(code({.name = "a"}), "InvalidArgument") << "no namespace is not all of them";
  EXPECT_EQ(code({.name = "a", .all_namespaces = true}), "none");
  EXPECT_EQ(code({.name = "a/b", .all_namespaces = true}), "InvalidArgument");
  EXPECT_EQ(code({.name = "a", .namespaces = {""}}), "InvalidArgument");
  EXPECT_EQ(code({.name = "a", .namespaces = {"x"}, .label_selector = "a in"}), "InvalidArgument");
}

TEST_F(TenantTest, QuotasOnHandlersAndMemory) {
  ASSERT_TRUE(factory_->ForResource(Pods()));
  TenantOptions options = Red();
  options.max_handlers = 2;
  options.max_memory_bytes = size_t{5} << 20;
  Tenant& tenant = Make(options);
  const auto pods = tenant.ForResource(Pods());
  ASSERT_TRUE(pods);
  auto handler = std::make_shared<RecordingHandler>();
  const auto first = (*pods)->AddEventHandler(handler);
  ASSERT_TRUE(first);
  EXPECT_EQ(tenant.Status().memory_bytes, size_t{4} << 20);
  const auto second = (*pods)->AddEventHandler(handler);
  ASSERT_TRUE(second) << "with what is left";
  EXPECT_EQ(tenant.Status().memory_bytes, size_t{5} << 20);
  const auto third = (*pods)->AddEventHandler(handler);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kNoSpace);
  EXPECT_NE(third.error().message.find("2 of 2 handlers"), std::string::npos)
      << third.error().message;
  ASSERT_TRUE((*pods)->RemoveEventHandler(*second));
  EXPECT_EQ(tenant.Status().handlers, 1u);
  EXPECT_TRUE((*pods)->AddEventHandler(handler));
}

TEST_F(TenantTest, ListLargerThanTheMemoryQuotaIsRefused) {
  ASSERT_TRUE(factory_->ForResource(Pods()));
  TenantOptions options = Red();
  options.max_memory_bytes = 100;
  const auto pods = Make(options).ForResource(Pods());
  StartAll();
  EXPECT_EQ((*pods)->List({}).error().code, ErrorCode::kNoSpace);
  size_t seen = 0;
  EXPECT_TRUE((*pods)->ForEach({}, [&](const ObjectPtr&) { return ++seen > 0; }));
  EXPECT_EQ(seen, 2u);
}

TEST_P(TenantSeesTest, PagesEndAtTheMemoryQuota) {
  for (int i = 0; i < 5; ++i) {
    Put("x", "p" + std::to_string(i), "red", "n1");
    Put("y", "p" + std::to_string(i), "red", "n1");
  }
  if (GetParam()) {
    ASSERT_TRUE(factory_->ForResource(Pods()));
  }
  TenantOptions options = Red();
  options.max_memory_bytes = 2500;
  ScopedInformer& pods = **Make(options).ForResource(Pods());
  StartAll();
  std::vector<std::string> keys;
  Query query;
  query.limit = 1'000'000;
  size_t pages = 0;
  for (; pages < 20; ++pages) {
    const auto got = pods.List(query);
    ASSERT_TRUE(got) << got.error().ToString();
    size_t bytes = 0;
    for (const auto& object : got->objects) {
      bytes += object->ByteSize();
      keys.push_back(object->key().ToString());
    }
    EXPECT_LE(bytes, options.max_memory_bytes);
    if (got->continue_token.empty()) break;
    query.continue_token = got->continue_token;
  }
  EXPECT_GT(pages, 1u);
  EXPECT_EQ(keys.size(), 12u);
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  query.continue_token.clear();
  query.limit = 11;
  size_t seen = 0;
  EXPECT_TRUE(pods.ForEach(query, [&](const ObjectPtr&) { return ++seen > 0; }));
  EXPECT_EQ(seen, 11u) << "what holds nothing needs no quota";
}

TEST_F(TenantTest, DurableNamesOfTenantsDoNotMeet) {
  ASSERT_TRUE(factory_->ForResource(Pods()));
  auto& red = Make(Red());
  TenantOptions blue_options = Red();
  blue_options.name = "blue";
  blue_options.label_selector = "team=blue";
  auto blue = Tenant::Create(factory_.get(), blue_options);
  ASSERT_TRUE(blue);
  HandlerOptions durable;
  durable.durable_name = "watcher";
  auto red_handler = std::make_shared<RecordingHandler>();
  auto blue_handler = std::make_shared<RecordingHandler>();
  ASSERT_TRUE((*red.ForResource(Pods()))->AddEventHandler(red_handler, durable));
  const auto added = (*(*blue)->ForResource(Pods()))->AddEventHandler(blue_handler, durable);
  ASSERT_TRUE(added) << added.error().ToString();
  StartAll();
  EXPECT_TRUE(red_handler->WaitFor([](const auto& h) { return h.Count("add") == 2; }));
  EXPECT_TRUE(blue_handler->WaitFor([](const auto& h) { return h.Count("add") == 1; }));
  EXPECT_EQ(blue_handler->Last("x/mine"), "");
  factory_->Shutdown();
}

// What was kept while it was not there has met no filter yet.
TEST_F(TenantTest, ADurableHandlerThatComesLateHearsOnlyOfItsOwn) {
  Put("x", "leaves", "red", "n1");
  Put("x", "goes", "red", "n1");
  HandlerOptions durable;
  durable.durable_name = "watcher";
  const auto open = [&](bool started) {
    if (!store_) OpenParts();
    factory_ = std::make_unique<SharedInformerFactory>(Context());
    EXPECT_TRUE(factory_->ForResource(Pods()));
    if (started) StartAll();
    return *Make(Red()).ForResource(Pods());
  };
  const auto restart = [&] {
    tenant_.reset();
    factory_.reset();
    Close();
  };
  {
    ScopedInformer* const pods = open(/*started=*/false);
    const auto first = std::make_shared<RecordingHandler>();
    const auto registration = pods->AddEventHandler(first, durable);
    ASSERT_TRUE(registration);
    StartAll();
    ASSERT_TRUE(first->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
    EXPECT_EQ(first->Count("add"), 4u);
  }
  restart();
  ScopedInformer* const pods = open(/*started=*/true);
  Relabel("z", "far", "green");
  Put("z", "new", "red", "n1");
  Put("x", "secret", "blue", "n1");
  Relabel("x", "other", "green");
  Relabel("x", "mine", "red");
  Relabel("x", "leaves", "blue");
  Relabel("x", "goes", "blue");
  ASSERT_TRUE(simulator_->Delete("pods", "x", "goes"));
  ASSERT_TRUE(simulator_->Delete("pods", "z", "far"));
  Relabel("y", "mine", "blue");
  Relabel("y", "mine", "red");
  Put("y", "own", "red", "n1");
  Settle();
  const auto second = std::make_shared<RecordingHandler>();
  const auto registration = pods->AddEventHandler(second, durable);
  ASSERT_TRUE(registration);
  ASSERT_TRUE(second->WaitFor([&](const auto&) { return (*registration)->HasSynced(); }));
  std::set<std::string> heard;
  for (const std::string& call : second->Calls()) heard.insert(call.substr(0, call.find(' ', 8)));
  EXPECT_EQ(heard, (Keys{"add y/own", "delete x/goes", "delete x/leaves", "update y/mine"}));
  EXPECT_EQ(second->Calls().size(), 4u);
  factory_->Shutdown();
}

}  // namespace
}  // namespace larder
