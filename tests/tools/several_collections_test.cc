// Stores that hold one resource as several collections, apart or overlapping.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "indexer/indexer.h"
#include "tests/tools/process.h"
#include "tests/tools/served_store.h"

namespace larder {
namespace {

CollectionSpec PodsOf(const std::string& ns, const std::string& labels = "") {
  CollectionSpec spec;
  spec.cluster_uid = "11111111-2222-3333-4444-555555555555";
  spec.resource = *LookupResource("pods");
  spec.ns = ns;
  spec.label_selector = labels;
  return spec;
}

std::unique_ptr<Indexer> Open(Store& store, const CollectionSpec& spec) {
  auto pods =
      Indexer::Open(&store, nullptr, spec, {*IndexDefinition::ByField("node", "spec.nodeName")});
  EXPECT_TRUE(pods) << pods.error().ToString();
  return *std::move(pods);
}

// `name` is "namespace/name".
void Put(Store& store, const CollectionSpec& spec, const std::string& name,
         const std::string& version, const std::string& node = "n1") {
  const auto key = ObjectKey::Parse(name);
  Json json = {{"apiVersion", "v1"},
               {"kind", "Pod"},
               {"metadata",
                {{"name", key->name},
                 {"namespace", key->ns},
                 {"uid", "u-" + name},
                 {"resourceVersion", version},
                 {"labels", {{"team", "ads"}}}}}};
  if (!node.empty()) json["spec"]["nodeName"] = node;
  const auto pods = Open(store, spec);
  const auto object = Object::Parse(json.dump());
  ASSERT_TRUE(object);
  auto writer = pods->BeginWrite();
  ASSERT_TRUE(writer->Upsert(*object, *pods->Prepare(**object), Indexer::Writer::Expect::kAny));
  writer->SetCursor({version, SyncState::kSynced, 1, 1000});
  ASSERT_TRUE(writer->Commit(Durability::kSync));
}

class SeveralCollectionsTest : public ::testing::Test {
 protected:
  // `larder run pods -n b,a`.
  void FillApart(const std::string& path) const {
    const auto store = Store::Open({.path = path});
    ASSERT_TRUE(store);
    Put(**store, PodsOf("b"), "b/one", "10");
    Put(**store, PodsOf("b"), "b/two", "11");
    Put(**store, PodsOf("a"), "a/one", "30", "n2");
    Put(**store, PodsOf("a"), "a/two", "31");
  }
  // "pods in a" is behind "pods, team=ads".
  void FillOverlapping(const std::string& path) const {
    const auto store = Store::Open({.path = path});
    ASSERT_TRUE(store);
    Put(**store, PodsOf("a"), "a/one", "10", "old");
    Put(**store, PodsOf("a"), "a/two", "25", "new");
    Put(**store, PodsOf("", "team=ads"), "a/one", "20", "new");
    Put(**store, PodsOf("", "team=ads"), "a/two", "15", "old");
    Put(**store, PodsOf("", "team=ads"), "a-b/one", "21");
  }
  std::string Path() const { return scratch_ / "store"; }
  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--store", Path()});
    return RunLarder(words);
  }

  ScratchDirectory scratch_;
};

constexpr const char* kShort =
    "custom-columns=NS:.metadata.namespace,N:.metadata.name,"
    "V:.metadata.resourceVersion";

TEST_F(SeveralCollectionsTest, DiffComparesAllOfThem) {
  FillApart(Path());
  FillApart(scratch_ / "other");
  EXPECT_EQ(RunLarder({"diff", Path(), scratch_ / "other"}).exit_code, 0);
  {
    const auto other = Store::Open({.path = scratch_ / "other"});
    Put(**other, PodsOf("a"), "a/one", "40", "n3");
  }
  const Outcome diff = RunLarder({"diff", Path(), scratch_ / "other"});
  EXPECT_EQ(diff.exit_code, 1) << diff.out;
  EXPECT_NE(diff.out.find("~ pods a/one\n"), std::string::npos) << diff.out;
  EXPECT_NE(diff.out.find("pods in b       0"), std::string::npos) << diff.out;
}

TEST_F(SeveralCollectionsTest, DiffOfStoresThatAreCutDifferentlyComparesTheirObjects) {
  FillApart(Path());
  {
    const auto whole = Store::Open({.path = scratch_ / "whole"});
    Put(**whole, PodsOf(""), "b/one", "10");
    Put(**whole, PodsOf(""), "b/two", "11");
    Put(**whole, PodsOf(""), "a/one", "30", "n2");
  }
  const Outcome diff = RunLarder({"diff", Path(), scratch_ / "whole", "--json"});
  EXPECT_EQ(diff.exit_code, 1) << diff.out;
  const Json json = Json::parse(diff.out, nullptr, false);
  ASSERT_EQ(json.size(), 1u) << diff.out;
  EXPECT_EQ(json[0]["removed"], 1) << diff.out;
  EXPECT_EQ(json[0]["added"], 0);
  EXPECT_EQ(json[0]["objects"][0]["key"], "a/two");
}

TEST_F(SeveralCollectionsTest, IndexCommandsLookAtAllOfThem) {
  FillApart(Path());
  const Outcome values = Run({"index", "values", "pods", "node"});
  EXPECT_EQ(values.out, "VALUE   OBJECTS\nn1            3\nn2            1\n") << values.err;
  EXPECT_EQ(Run({"index", "get", "pods", "node", "n1", "--keys"}).out, "a/two\nb/one\nb/two\n");
  EXPECT_EQ(Run({"index", "get", "pods", "node", "n2", "-o", kShort}).out,
            "NS    N     V\na     one   30\n");
}

TEST_F(SeveralCollectionsTest, GetShowsTheNewestCopyInOrder) {
  FillOverlapping(Path());
  EXPECT_EQ(Run({"get", "pods", "-A", "-o", kShort}).out,
            "NS    N     V\na-b   one   21\na     one   20\na     two   25\n");
  EXPECT_EQ(Run({"get", "pods", "-A", "-o", kShort, "--limit", "2"}).out,
            "NS    N     V\na-b   one   21\na     one   20\n");
  EXPECT_EQ(Run({"get", "pod", "one", "-n", "a", "-o", "jsonpath={.spec.nodeName}"}).out, "new");
  // What only an older copy says is not so any more.
  EXPECT_EQ(
      Run({"get", "pods", "-n", "a", "-o", "name", "--field-selector", "spec.nodeName=old"}).out,
      "");
}

TEST_F(SeveralCollectionsTest, ANamespaceThatIsNotStoredIsNotEmpty) {
  FillApart(Path());
  const Outcome other = Run({"get", "pods", "-n", "c"});
  EXPECT_EQ(other.exit_code, 0);
  EXPECT_NE(other.err.find("does not hold pods of namespace c, only those of b, a"),
            std::string::npos)
      << other.err;
  EXPECT_EQ(Run({"get", "pods", "-n", "a"}).err, "");
}

TEST_F(SeveralCollectionsTest, WhatOnlyTheRestOfAnObjectSaysIsUnknown) {
  {
    const auto store = Store::Open({.path = Path()});
    CollectionSpec spec = PodsOf("");
    spec.projection = "metadata";
    Put(**store, spec, "a/one", "10", "");
  }
  const Outcome table = Run({"get", "pods", "-n", "a"});
  EXPECT_NE(table.out.find("one    <unknown>   <unknown>   <unknown>"), std::string::npos)
      << table.out;
  EXPECT_EQ(table.err, "");
  const Outcome fields = Run({"get", "pods", "-n", "a", "--field-selector", "spec.nodeName=n1"});
  EXPECT_EQ(fields.exit_code, 0);
  EXPECT_NE(fields.err.find("only the metadata of pods: it does not know spec.nodeName"),
            std::string::npos)
      << fields.err;
  EXPECT_EQ(Run({"get", "pods", "-n", "a", "--field-selector", "metadata.name=one"}).err, "");
}

class ServeSeveralTest : public SeveralCollectionsTest {
 protected:
  void Serve() { served_ = std::make_unique<ServedStore>(Path()); }
  Json Get(const std::string& path) { return served_->Get(path); }
  std::vector<Json> Watch(const std::string& path, size_t count) {
    return served_->Watch(path, count);
  }

  std::unique_ptr<ServedStore> served_;
};

TEST_F(ServeSeveralTest, AWatchFromAListFollowsAllOfThem) {
  FillApart(Path());
  Serve();
  const Json list = Get("/api/v1/pods");
  ASSERT_EQ(list["items"].size(), 4u) << list;
  EXPECT_EQ(list["items"][0]["metadata"]["namespace"], "a");
  EXPECT_EQ(list["metadata"]["resourceVersion"], "31");
  const Json part = Get("/api/v1/namespaces/a/pods");
  EXPECT_EQ(part["metadata"]["resourceVersion"], "31") << part;
  for (const auto& [of_c, status] :
       {std::pair("/api/v1/namespaces/c/pods", 200),
        {"/api/v1/namespaces/c/pods/one", 404},
        {"/api/v1/namespaces/c/pods?watch=true&timeoutSeconds=1", 200}}) {
    const auto other = served_->Ask(of_c);
    ASSERT_TRUE(other) << of_c;
    EXPECT_EQ(other->status, status) << of_c;
    EXPECT_NE(other->get_header_value("Warning").find("does not hold pods of namespace c"),
              std::string::npos)
        << of_c;
  }
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  // Behind the list's other collection, and below its version.
  Put(**owner, PodsOf("b"), "b/new", "20");
  Put(**owner, PodsOf("a"), "a/new", "40");
  const auto events = Watch("/api/v1/pods?watch=true&resourceVersion=31&timeoutSeconds=15", 2);
  ASSERT_EQ(events.size(), 2u) << Json(events);
  std::set<std::string> names;
  for (const Json& event : events) {
    EXPECT_EQ(event["type"], "ADDED") << event;
    names.insert(event["object"]["metadata"].value("namespace", ""));
  }
  EXPECT_EQ(names, (std::set<std::string>{"a", "b"}));
  // Who saw the newer one first still gets the older.
  Put(**owner, PodsOf("b"), "b/late", "21");
  const auto late = Watch("/api/v1/pods?watch=true&resourceVersion=40&timeoutSeconds=15", 1);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0]["object"]["metadata"]["namespace"], "b") << late[0];
}

// `larder run pods -n a` becomes `larder run pods -n a,b`.
TEST_F(ServeSeveralTest, ACollectionThatIsAddedEndsTheWatchesThatDoNotFollowIt) {
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  Put(**owner, PodsOf("a"), "a/one", "10");
  Serve();
  ASSERT_EQ(Get("/api/v1/pods")["items"].size(), 1u);
  const std::string from = "/api/v1/pods?watch=true&timeoutSeconds=15&resourceVersion=";
  const auto open = served_->Watch(from + "10", 2, [&] {
    Put(**owner, PodsOf("b"), "b/one", "20");
    Put(**owner, PodsOf("a"), "a/two", "30");
  });
  ASSERT_FALSE(open.empty());
  EXPECT_EQ(open.back()["object"]["code"], 410) << Json(open);
  // Who lists at once, or as soon as b is complete, gets both, and follows both.
  Json list;
  do {
    list = Get("/api/v1/pods");
  } while (list.value("code", 0) == 429);
  std::set<std::string> namespaces;
  for (const Json& pod : list["items"]) {
    namespaces.insert(pod["metadata"].value("namespace", ""));
  }
  EXPECT_EQ(namespaces, (std::set<std::string>{"a", "b"})) << list;
  Put(**owner, PodsOf("b"), "b/late", "40");
  const auto next = Watch(
      from + list["metadata"].value("resourceVersion", "") + "&fieldSelector=metadata.name%3Dlate",
      1);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0]["type"], "ADDED") << next[0];
}

TEST_F(ServeSeveralTest, PagesGoThroughAllOfThem) {
  FillApart(Path());
  Serve();
  std::vector<std::string> names;
  std::string token;
  do {
    const Json page = Get("/api/v1/pods?limit=1&continue=" + token);
    ASSERT_EQ(page["items"].size(), 1u) << page;
    const Json& metadata = page["items"][0]["metadata"];
    names.push_back(metadata.value("namespace", "") + "/" + metadata.value("name", ""));
    token = page["metadata"].value("continue", "");
  } while (!token.empty());
  EXPECT_EQ(names, (std::vector<std::string>{"a/one", "a/two", "b/one", "b/two"}));
}

TEST_F(ServeSeveralTest, WhatOverlapsIsWatchedWhereOneHoldsItAll) {
  FillOverlapping(Path());
  Serve();
  EXPECT_EQ(Get("/api/v1/namespaces/a/pods/one")["spec"]["nodeName"], "new");
  const Json list = Get("/api/v1/pods");
  ASSERT_EQ(list["items"].size(), 3u) << list;
  EXPECT_EQ(list["items"][2]["metadata"]["resourceVersion"], "25") << list;
  const Json refused = Get("/api/v1/pods?watch=true");
  EXPECT_EQ(refused["code"], 400) << refused;
  EXPECT_NE(refused.value("message", "").find("pods in a"), std::string::npos) << refused;
  const auto ads = Watch("/api/v1/pods?watch=true&labelSelector=team%3Dads&timeoutSeconds=15", 3);
  EXPECT_EQ(ads.size(), 3u);
  // The version of a list of both is that of the one that is watched.
  const Json listed = Get("/api/v1/namespaces/a/pods");
  EXPECT_EQ(listed["metadata"]["resourceVersion"], "25") << listed;
  const auto owner = Store::Open({.path = Path()});
  Put(**owner, PodsOf("a"), "a/three", "50");
  const auto next =
      Watch("/api/v1/namespaces/a/pods?watch=true&resourceVersion=25&timeoutSeconds=15", 1);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0]["type"], "ADDED") << next[0];
  const auto all = Watch("/api/v1/namespaces/a/pods?watch=true&timeoutSeconds=15", 3);
  EXPECT_EQ(all.size(), 3u);
}

}  // namespace
}  // namespace larder
