// A random test against a model: a map of objects, and indexes computed from it.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "indexer/lister.h"
#include "tests/indexer/support.h"

namespace larder {
namespace {

using testing::Must;
using testing::Thing;

struct Row {
  std::string node, app, uid;
  std::vector<std::string> tags;
  uint64_t version = 0;
};

class ModelTest : public testing::IndexedStore {
 protected:
  using Model = std::map<std::string, Row>;  // by "namespace/name", in the store's order

  ObjectKey RandomKey() {
    return {"n" + std::to_string(random_() % 3), "o" + std::to_string(random_() % 40)};
  }

  // One commit with a few changes.
  void Step() {
    const auto writer = indexer_->BeginWrite();
    for (uint64_t i = random_() % 6 + 1; i > 0; --i) {
      const ObjectKey key = RandomKey();
      const auto known = model_.find(key.ToString());
      if (random_() % 4 == 0) {
        const auto change = Must(writer->Delete(key, "", std::to_string(++version_)));
        EXPECT_EQ(change.outcome == Indexer::Outcome::kDeleted, known != model_.end());
        if (known != model_.end()) model_.erase(known);
        continue;
      }
      Row row;
      row.node = "node-" + std::to_string(random_() % 4);
      row.app = "app-" + std::to_string(random_() % 3);
      row.uid = known == model_.end() || random_() % 5 == 0 ? std::to_string(random_())
                                                            : known->second.uid;
      for (uint64_t tag = random_() % 4; tag > 0; --tag)
        row.tags.push_back("t" + std::to_string(random_() % 5));
      row.version = ++version_;
      const ObjectPtr object =
          Thing(key.name, row.version, row.node, row.app, row.tags, row.uid, key.ns);
      const auto change = Must(writer->Upsert(object, Must(indexer_->Prepare(*object))));
      const auto expected = known == model_.end()          ? Indexer::Outcome::kAdded
                            : known->second.uid == row.uid ? Indexer::Outcome::kUpdated
                                                           : Indexer::Outcome::kRecreated;
      EXPECT_EQ(change.outcome, expected);
      model_[key.ToString()] = row;
    }
    Must(writer->Commit(random_() % 20 == 0 ? Durability::kSync : Durability::kRelaxed));
  }

  template <typename Matches>
  std::vector<std::string> Expected(const Matches& matches) {
    std::vector<std::string> out;
    for (const auto& [key, row] : model_) {
      if (matches(key, row)) out.push_back(key);
    }
    return out;
  }

  static std::vector<std::string> KeysOf(const std::vector<ObjectPtr>& objects) {
    std::vector<std::string> out;
    for (const ObjectPtr& object : objects) out.push_back(object->key().ToString());
    return out;
  }

  void ExpectEqualToModel() {
    const auto all = [](const auto&, const Row&) { return true; };
    std::vector<ObjectPtr> stored;
    Must(indexer_->ForEach({}, [&](const ObjectPtr& object) {
      stored.push_back(object);
      return true;
    }));
    ASSERT_EQ(KeysOf(stored), Expected(all));
    for (const ObjectPtr& object : stored) {
      const Row& row = model_.at(object->key().ToString());
      ASSERT_EQ(object->resource_version(), std::to_string(row.version));
      ASSERT_EQ(Must(indexer_->GetByKey(object->key()))->json(), object->json()) << "the hot tier";
    }
    for (int i = 0; i < 5; ++i) {
      const std::string n = std::to_string(i);
      ASSERT_EQ(KeysOf(Must(indexer_->ByIndex("node", "node-" + n))),
                Expected([&](const auto&, const Row& row) { return row.node == "node-" + n; }));
      ASSERT_EQ(KeysOf(Must(indexer_->ByIndex("app", "app-" + n))),
                Expected([&](const auto&, const Row& row) { return row.app == "app-" + n; }));
      ASSERT_EQ(KeysOf(Must(indexer_->ByIndex("tag", "t" + n))),
                Expected([&](const auto&, const Row& row) {
                  return std::count(row.tags.begin(), row.tags.end(), "t" + n) != 0;
                }));
    }
    ExpectQueries();
  }

  // Pages of a query with any plan, against the model.
  void ExpectQueries() {
    const Lister lister(indexer_.get());
    Query query;
    query.ns = random_() % 2 ? "n1" : "";
    query.labels =
        Must(LabelSelector::Parse(random_() % 2 ? "app in (app-0,app-2)" : "app!=app-1"));
    if (random_() % 2) query.fields = Must(FieldSelector::Parse("spec.nodeName=node-1"));
    query.limit = random_() % 5 + 1;
    const auto expected = Expected([&](const std::string& key, const Row& row) {
      return (query.ns.empty() || key.rfind("n1/", 0) == 0) && row.app != "app-1" &&
             (query.fields.Empty() || row.node == "node-1");
    });
    std::vector<std::string> seen;
    do {
      const QueryPage page = Must(lister.List(query));
      ASSERT_LE(page.objects.size(), query.limit);
      for (const std::string& key : KeysOf(page.objects)) seen.push_back(key);
      query.continue_token = page.continue_token;
    } while (!query.continue_token.empty());
    ASSERT_EQ(seen, expected) << Must(lister.Explain(query));
    ASSERT_EQ(Must(lister.Count(query)), expected.size());
  }

  std::mt19937_64 random_{testing::Seed()};
  Model model_;
  uint64_t version_ = 0;
};

TEST_F(ModelTest, EqualsAMapThroughCommitsAndRestarts) {
  for (int round = 0; round < 300; ++round) {
    Step();
    if (round % 3 == 0) ExpectEqualToModel();
    if (round % 60 == 59) Reopen(testing::ThingIndexes());
    if (round % 100 == 50) {
      // An index taken away and declared again.
      auto fewer = testing::ThingIndexes();
      fewer.pop_back();
      fewer.erase(fewer.begin());
      Reopen(std::move(fewer));
      Step();
      Reopen(testing::ThingIndexes());
      ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(20)));
    }
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace larder
