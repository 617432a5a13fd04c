#include "indexer/lister.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/indexer/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using ::testing::ElementsAre;
using testing::Must;
using testing::NamesOf;
using testing::Thing;

class ListerTest : public testing::IndexedStore {
 protected:
  void SetUp() override {
    IndexedStore::SetUp();
    Write({Thing("a", 1, "node-1", "web", {"x"}), Thing("b", 2, "node-1", "db", {"x"}),
           Thing("c", 3, "node-2", "web", {}), Thing("a", 4, "node-1", "web", {}, "uid", "m"),
           Thing("a", 5, "node-3", "db", {}, "uid", "m-1")});
  }
  static LabelSelector Labels(std::string_view text) { return Must(LabelSelector::Parse(text)); }
  static FieldSelector Fields(std::string_view text) { return Must(FieldSelector::Parse(text)); }
  std::vector<std::string> Keys(const Query& query) {
    std::vector<std::string> out;
    for (const ObjectPtr& object : Must(lister().List(query)).objects) {
      out.push_back(object->key().ToString());
    }
    return out;
  }
  Lister lister() { return Lister(indexer_.get()); }
};

TEST_F(ListerTest, ListsByNamespaceLabelsAndFields) {
  EXPECT_THAT(Keys({}), ElementsAre("m-1/a", "m/a", "n/a", "n/b", "n/c")) << "in the store's order";
  EXPECT_THAT(Keys({.ns = "n"}), ElementsAre("n/a", "n/b", "n/c"));
  EXPECT_THAT(Keys({.labels = Labels("app=web")}), ElementsAre("m/a", "n/a", "n/c"));
  EXPECT_THAT(Keys({.ns = "n", .labels = Labels("app=web")}), ElementsAre("n/a", "n/c"));
  EXPECT_THAT(Keys({.labels = Labels("app in (web,db)")}),
              ElementsAre("m-1/a", "m/a", "n/a", "n/b", "n/c"));
  EXPECT_THAT(Keys({.labels = Labels("app!=web")}), ElementsAre("m-1/a", "n/b"));
  EXPECT_THAT(Keys({.fields = Fields("spec.nodeName=node-1")}), ElementsAre("m/a", "n/a", "n/b"));
  EXPECT_THAT(Keys({.labels = Labels("app=web"), .fields = Fields("spec.nodeName=node-1")}),
              ElementsAre("m/a", "n/a"));
  EXPECT_THAT(Keys({.fields = Fields("metadata.name=a,metadata.namespace=m")}), ElementsAre("m/a"));
  EXPECT_THAT(Keys({.fields = Fields("metadata.name=z,metadata.namespace=m")}), ElementsAre());
  EXPECT_THAT(Keys({.index = {{"tag", "x"}}}), ElementsAre("n/a", "n/b"));
  EXPECT_THAT(Keys({.labels = Labels("app=web"), .index = {{"tag", "x"}}}), ElementsAre("n/a"));
  EXPECT_EQ(CodeOf(lister().List({.index = {{"none", "x"}}})), ErrorCode::kNotFound);
}

// An index holds no object without the field: it is no help where those match, too.
TEST_F(ListerTest, AFieldThatIsAbsentHasTheServersDefault) {
  Must(indexer_->AddIndexers({Must(IndexDefinition::ByField("host", "spec.hostNetwork"))}));
  Write(
      {Must(Object::Parse(
           R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"h","namespace":"n","uid":"h","resourceVersion":"9"},"spec":{"hostNetwork":true}})")),
       Must(Object::Parse(
           R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"i","namespace":"n","uid":"i","resourceVersion":"10"},"spec":{"hostNetwork":false}})"))});
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  EXPECT_THAT(Keys({.ns = "n", .fields = Fields("spec.hostNetwork=false")}),
              ElementsAre("n/a", "n/b", "n/c", "n/i"));
  EXPECT_THAT(Keys({.ns = "n", .fields = Fields("spec.hostNetwork!=false")}), ElementsAre("n/h"));
  EXPECT_THAT(Keys({.fields = Fields("spec.hostNetwork=true")}), ElementsAre("n/h"));
  EXPECT_EQ(Must(lister().Explain({.fields = Fields("spec.hostNetwork=true")})).substr(0, 10),
            "index host");
}

TEST_F(ListerTest, ExplainsItsPlan) {
  const auto explain = [&](const Query& query) { return Must(lister().Explain(query)); };
  EXPECT_EQ(explain({}), "scan of all namespaces");
  EXPECT_EQ(explain({.ns = "n"}), "scan of namespace n");
  EXPECT_EQ(explain({.labels = Labels("app=web")}), "index app = web");
  EXPECT_EQ(explain({.ns = "n", .labels = Labels("app in (a,b)")}),
            "index app in (a, b) within namespace n");
  EXPECT_EQ(explain({.labels = Labels("app!=web")}),
            "scan of all namespaces, then labels app!=web");
  EXPECT_EQ(explain({.fields = Fields("spec.nodeName=node-1")}),
            "index node = node-1, then fields spec.nodeName=node-1");
  EXPECT_EQ(explain({.fields = Fields("metadata.namespace=n")}),
            "scan of namespace n, then fields metadata.namespace=n");
  EXPECT_EQ(explain({.ns = "n", .fields = Fields("metadata.name=a")}),
            "get of n/a, then fields metadata.name=a");
  // Of two that fit, the one with fewer entries.
  EXPECT_EQ(explain({.labels = Labels("app=web"), .fields = Fields("spec.nodeName=node-2")}),
            "index node = node-2, then labels app=web, then fields spec.nodeName=node-2");
  EXPECT_EQ(explain({.labels = Labels("app=none"), .fields = Fields("spec.nodeName=node-1")}),
            "index app = none, then labels app=none, then fields spec.nodeName=node-1");
  EXPECT_EQ(explain({.fields = Fields("spec.nodeName=")}),
            "scan of all namespaces, then fields spec.nodeName=")
      << "an absent field is equal to \"\", and no index has it";
}

TEST_F(ListerTest, PagesAreExactAndSurviveChanges) {
  Query query{.ns = "n", .limit = 2};
  QueryPage page = Must(lister().List(query));
  EXPECT_THAT(NamesOf(page.objects), ElementsAre("a", "b"));
  ASSERT_FALSE(page.continue_token.empty());
  query.continue_token = page.continue_token;
  Delete("b", "", "100");  // the very object that the token names
  Upsert(Thing("aa", 101, "node-1", "web", {}));
  page = Must(lister().List(query));
  EXPECT_THAT(NamesOf(page.objects), ElementsAre("c"));
  EXPECT_TRUE(page.continue_token.empty()) << "a full last page is still the last";
  EXPECT_TRUE(Must(lister().List({.ns = "n", .limit = 3})).continue_token.empty());
  EXPECT_EQ(CodeOf(lister().List({.continue_token = "nonsense"})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(lister().List({.continue_token = "after:a/b/c"})), ErrorCode::kInvalidArgument);
}

TEST_F(ListerTest, PagesThroughManyEntriesOfSeveralValues) {
  std::vector<ObjectPtr> things;
  for (int i = 0; i < 2500; ++i) {
    things.push_back(Thing("t" + std::to_string(i), 10, "node-9", i % 2 ? "odd" : "even", {}));
  }
  Write(things);
  Query query{.labels = Labels("app in (odd,even)"), .limit = 700};
  std::set<std::string> seen;
  std::string last;
  do {
    const QueryPage page = Must(lister().List(query));
    for (const ObjectPtr& object : page.objects) {
      EXPECT_TRUE(seen.insert(std::string(object->name())).second);
      EXPECT_LT(last, object->name());
      last = object->name();
    }
    query.continue_token = page.continue_token;
  } while (!query.continue_token.empty());
  EXPECT_EQ(seen.size(), 2500U);
  EXPECT_EQ(Must(lister().Count({.labels = Labels("app in (odd,even)")})), 2500U);
}

TEST_F(ListerTest, CountsAndStops) {
  EXPECT_EQ(Must(lister().Count({})), 5U);
  EXPECT_EQ(Must(lister().Count({.ns = "n"})), 3U);
  EXPECT_EQ(Must(lister().Count({.labels = Labels("app=web")})), 3U);
  EXPECT_EQ(Must(lister().Count({.labels = Labels("app!=web"), .limit = 1})), 2U);
  size_t visited = 0;
  Must(lister().ForEach({}, [&](const ObjectPtr&) { return ++visited < 2; }));
  EXPECT_EQ(visited, 2U);
  visited = 0;
  Must(lister().ForEach({.limit = 3}, [&](const ObjectPtr&) { return ++visited != 0; }));
  EXPECT_EQ(visited, 3U);
}

}  // namespace
}  // namespace larder
