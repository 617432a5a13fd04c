// What a writer does with versions that are older, and with what is not committed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "indexer/indexer.h"
#include "tests/indexer/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using ::testing::ElementsAre;
using testing::Must;
using testing::Thing;
using Outcome = Indexer::Outcome;

using WriterTest = testing::IndexedStore;

TEST_F(WriterTest, OlderAndEqualVersionsChangeNothing) {
  Upsert(Thing("a", 10, "node-1", "web", {}));
  EXPECT_EQ(Upsert(Thing("a", 10, "node-2", "web", {})).outcome, Outcome::kUnchanged);
  EXPECT_EQ(Upsert(Thing("a", 9, "node-2", "web", {})).outcome, Outcome::kUnchanged);
  EXPECT_THAT(By("node", "node-1"), ElementsAre("a"));
  EXPECT_EQ(Delete("a", "older-uid", "5").outcome, Outcome::kUnchanged)
      << "the delete of an earlier object of the same name";
  EXPECT_EQ(Delete("missing", "uid", "5").outcome, Outcome::kUnchanged);
  EXPECT_EQ(Upsert(Thing("a", 3, "node-3", "web", {}), Indexer::Writer::Expect::kAny).outcome,
            Outcome::kUpdated)
      << "a rewound server: versions say nothing";
  EXPECT_THAT(By("node", "node-3"), ElementsAre("a"));
}

// It went and came back before it was read; the watch tells of the first only now.
TEST_F(WriterTest, AnOlderDeleteOfAnObjectThatCameBackIntoASelectorChangesNothing) {
  CollectionSpec spec = testing::SpecOf("pods");
  spec.label_selector = "app=web";
  const auto selected = Must(Indexer::Open(store_.get(), nullptr, spec, {}));
  const ObjectPtr object = Thing("a", 20, "node-1", "web", {});
  const auto writer = selected->BeginWrite();
  Must(writer->Upsert(object, Must(store_->Encode(selected->collection().id, *object))));
  EXPECT_EQ(Must(writer->Delete(object->key(), object->uid(), "12")).outcome, Outcome::kUnchanged);
  EXPECT_EQ(Must(writer->Delete(object->key(), object->uid(), "21")).outcome, Outcome::kDeleted);
}

TEST_F(WriterTest, AWriterThatIsDroppedLeavesNothing) {
  {
    const auto writer = indexer_->BeginWrite();
    const ObjectPtr object = Thing("a", 1, "node-1", "web", {});
    Must(writer->Upsert(object, Must(store_->Encode(indexer_->collection().id, *object))));
  }
  EXPECT_EQ(CodeOf(indexer_->GetByKey({"n", "a"})), ErrorCode::kNotFound);
  EXPECT_THAT(By("node", "node-1"), ElementsAre());
}

}  // namespace
}  // namespace larder
