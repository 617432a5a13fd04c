// An indexer over a store that is damaged, or away for a while.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "indexer/lister.h"
#include "storage/testing.h"
#include "tests/indexer/support.h"
#include "tests/storage/failing_disk.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::SpecOf;
using testing::Thing;
using testing::ThingIndexes;

class IndexerTroubleTest : public testing::IndexedStore {
 protected:
  // What they use ends before they do.
  void TearDown() override {
    indexer_.reset();
    store_.reset();
  }

  testing::FailingDisk disk_;
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

// What is read through it later would be of several moments, and look damaged.
TEST_F(IndexerTroubleTest, AViewOfAStoreThatIsAwayReadsNothing) {
  indexer_.reset();
  store_.reset();
  store_ = Must(OpenStoreOnEnv({.path = dir_.path()}, disk_.env()));
  indexer_ = Must(Indexer::Open(store_.get(), nullptr, SpecOf("pods"), ThingIndexes()));
  Write({Thing("a", 1, "node-1", "web", {})});
  const auto commit = [this](Durability durability) {
    Transaction transaction = store_->Begin();
    transaction.PutNote("note", "here");
    return store_->Commit(std::move(transaction), durability);
  };
  const std::filesystem::path current = dir_.path() + "/CURRENT";
  const std::filesystem::path hidden = dir_.path() + "/hidden";
  disk_.FailLogSyncs(1);
  ASSERT_FALSE(commit(Durability::kSync));
  std::filesystem::rename(current, hidden);
  ASSERT_FALSE(commit(Durability::kRelaxed)) << "it is closed, and can be opened in no way";
  const Indexer::View view = indexer_->TakeView();
  std::filesystem::rename(hidden, current);
  while (!commit(Durability::kRelaxed)) std::this_thread::yield();
  Delete("a", "uid", "2");
  const auto object = [](const ObjectPtr&) { return true; };
  const auto entry = [](const IndexEntry&) { return true; };
  EXPECT_EQ(CodeOf(indexer_->GetIndexed("node", {"n", "a"}, view)), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(indexer_->ForEach({}, {}, object, view)), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(indexer_->ForEachIndexed("node", "node-1", entry, view)), ErrorCode::kIo);
  EXPECT_EQ(CodeOf(indexer_->ForEachIndexed(kNamespaceIndex, "n", entry, view)), ErrorCode::kIo);
  EXPECT_TRUE(store_->Health());
}

}  // namespace
}  // namespace larder
