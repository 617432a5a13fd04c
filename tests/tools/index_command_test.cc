// `larder index` on indexes that are not ready, that only their owner can build, or that hold
// hashes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "indexer/indexer.h"
#include "tests/tools/commands_fixture.h"
#include "tests/tools/served_store.h"

namespace larder {
namespace {

class IndexCommandTest : public ::testing::Test {
 protected:
  void SetUp() override { FillSampleStore(Path()); }
  std::string Path() const { return scratch_ / "store"; }
  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--store", Path()});
    return RunLarder(words);
  }
  static CollectionInfo Find(const Store& store, const std::string& resource) {
    const auto collections = store.Collections();
    EXPECT_TRUE(collections) << collections.error().ToString();
    for (const CollectionInfo& info : *collections) {
      if (info.spec.resource.resource == resource) return info;
    }
    ADD_FAILURE() << "no " << resource;
    return {};
  }
  // An index that its owner has begun to build.
  void PutUnfinished(const IndexRecord& record) const {
    const auto store = Store::Open({.path = Path()});
    ASSERT_TRUE(store) << store.error().ToString();
    Transaction transaction = (*store)->Begin();
    transaction.PutIndexRecord(Find(**store, "pods").id, record);
    ASSERT_TRUE((*store)->Commit(std::move(transaction), Durability::kSync));
  }

  ScratchDirectory scratch_;
};

TEST_F(IndexCommandTest, RebuildingOneIndexDoesNotCallAFunctionsIndexReady) {
  PutUnfinished({7, "owner", "func:owner@1", false});
  const Outcome rebuilt = Run({"index", "rebuild", "pods", "node"});
  ASSERT_EQ(rebuilt.exit_code, 0) << rebuilt.err;
  const auto store = Store::Open({.path = Path()});
  ASSERT_TRUE(store) << store.error().ToString();
  const auto records = (*store)->IndexRecords(Find(**store, "pods").id);
  ASSERT_TRUE(records) << records.error().ToString();
  std::map<std::string, bool> ready;
  for (const IndexRecord& record : *records) {
    ready[record.name] = record.ready;
  }
  EXPECT_EQ(ready, (std::map<std::string, bool>{{"app", true}, {"node", true}, {"owner", false}}));
}

TEST_F(CommandsTest, AnIndexOfADamagedObjectIsKeptAndNotBuiltAnew) {
  const std::string path = scratch_ / "damaged";
  {
    const auto store = Store::Open({.path = path});
    ASSERT_TRUE(store) << store.error().ToString();
    Written pods(store->get(), "pods");
    pods.BeginList();
    for (const char* name : {"a/one", "b/one", "c/one"}) pods.Commit({{name, "7", 50'000}});
    pods.EndList("10");
    const auto indexed = Indexer::Open(store->get(), nullptr, pods.spec(),
                                       {*IndexDefinition::ByField("name", "metadata.name")});
    ASSERT_TRUE(indexed) << indexed.error().ToString();
    ASSERT_TRUE((*indexed)->WaitUntilReady(std::chrono::seconds(10)));
  }
  ASSERT_NO_FATAL_FAILURE(Damage(path));
  const Outcome rebuilt = RunLarder({"index", "rebuild", "pods", "name", "--store", path});
  EXPECT_EQ(rebuilt.exit_code, 1) << rebuilt.err;
  EXPECT_NE(rebuilt.err.find("verify --repair"), std::string::npos) << rebuilt.err;
  const Outcome values = RunLarder({"index", "values", "pods", "name", "--store", path});
  EXPECT_EQ(values.out, "VALUE   OBJECTS\none           3\n") << values.err;
}

TEST_F(IndexCommandTest, ValuesOfAnIndexThatIsBeingBuiltAreNotShown) {
  PutUnfinished({8, "phase", "field:status.phase", false});
  for (const char* how : {"", "--json"}) {
    std::vector<std::string> words = {"index", "values", "pods", "phase"};
    if (*how != 0) words.emplace_back(how);
    const Outcome values = Run(words);
    EXPECT_EQ(values.exit_code, 3);
    EXPECT_EQ(values.out, "");
    EXPECT_NE(values.err.find("is still being built"), std::string::npos) << values.err;
  }
}

TEST_F(IndexCommandTest, HashesAreNotShownAsValues) {
  const std::string key = scratch_ / "key";
  std::ofstream(key) << std::string(43, 'A') << "=\n";
  std::filesystem::permissions(key, std::filesystem::perms(0600));
  {
    const auto store = Store::Open({.path = Path(), .encryption_key_file = key});
    ASSERT_TRUE(store) << store.error().ToString();
    PutObject(**store, "secrets",
              R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"login","namespace":"shop",)"
              R"("uid":"s","resourceVersion":"9","labels":{"app":"web"}}})");
    const auto indexer = Indexer::Open(store->get(), nullptr, Find(**store, "secrets").spec,
                                       {IndexDefinition::ByLabel("app")});
    ASSERT_TRUE(indexer) << indexer.error().ToString();
    ASSERT_TRUE((*indexer)->WaitUntilReady(std::chrono::seconds(10)));
  }
  const Outcome sealed = Run({"index", "values", "secrets", "app"});
  const Outcome opened = Run({"index", "values", "secrets", "app", "--encryption-key-file", key});
  for (const Outcome& values : {sealed, opened}) {
    EXPECT_EQ(values.exit_code, 3);
    EXPECT_EQ(values.out, "");
    EXPECT_NE(values.err.find("holds keyed hashes"), std::string::npos) << values.err;
  }
  EXPECT_EQ(
      Run({"index", "get", "secrets", "app", "web", "--keys", "--encryption-key-file", key}).out,
      "shop/login\n");
}

}  // namespace
}  // namespace larder
