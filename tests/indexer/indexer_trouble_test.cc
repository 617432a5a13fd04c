// An indexer over a store that is damaged, or away for a while.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>

#include "indexer/lister.h"
#include "tests/indexer/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::Thing;

class IndexerTroubleTest : public testing::IndexedStore {
 protected:
  // What they use ends before they do.
  void TearDown() override {
    indexer_.reset();
    store_.reset();
  }

  FakeClock still_;
  std::atomic<int> first_ = 0, last_ = 0;  // calls of an index function
};

TEST_F(IndexerTroubleTest, AnIndexKeyWithoutItsObjectIsDamageForEveryReader) {
  Write({Thing("a", 1, "node-1", "web", {})});
  const auto records = Must(store_->IndexRecords(indexer_->collection().id));
  const auto node = std::find_if(records.begin(), records.end(),
                                 [](const IndexRecord& record) { return record.name == "node"; });
  ASSERT_NE(node, records.end());
  Transaction transaction = store_->Begin();
  transaction.PutIndexKey(indexer_->collection().id, node->id, "node-1", {"n", "gone"}, "uid");
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  EXPECT_EQ(CodeOf(indexer_->ByIndex("node", "node-1")), ErrorCode::kCorruption);
  Query query;
  query.index = {"node", "node-1"};
  EXPECT_EQ(CodeOf(Lister(indexer_.get()).List(query)), ErrorCode::kCorruption);
}

TEST_F(IndexerTroubleTest, ABuildThatMeetsDamageGoesOnWhereItStopped) {
  clock_ = &still_;
  Reopen({});
  std::vector<ObjectPtr> things;
  for (int i = 0; i < 599; ++i) things.push_back(Thing(fmt::format("{:03}", i), 1, "n", "web", {}));
  Write(things);
  {
    const auto writer = indexer_->BeginWrite();
    Must(writer->Upsert(Thing("599", 1, "n", "web", {}), EncodedObject{{"n", "599"}, "no object"}));
    Must(writer->Commit(Durability::kRelaxed));
  }
  Must(indexer_->AddIndexers({IndexDefinition::ByFunction("all", 1, [this](const Object& object) {
    if (object.name() == "000") ++first_;
    if (object.name() == "598") ++last_;
    return std::vector<std::string>{"x"};
  })}));
  while (last_ < 3) {
    still_.Advance(std::chrono::seconds(30));
    std::this_thread::yield();
  }
  EXPECT_EQ(first_, 1) << "what was committed is not built again";
  EXPECT_EQ(indexer_->Progress().back().scanned, 512U);
  ASSERT_TRUE(indexer_->Progress().back().error);
  EXPECT_EQ(indexer_->Progress().back().error->code, ErrorCode::kCorruption);
  Upsert(Thing("599", 2, "n", "web", {}));
  while (!indexer_->WaitUntilReady(std::chrono::milliseconds(1))) {
    still_.Advance(std::chrono::seconds(30));
  }
  EXPECT_EQ(By("all", "x").size(), 600U);
  EXPECT_FALSE(indexer_->Progress().back().error);
}

}  // namespace
}  // namespace larder
