#include "indexer/reader.h"

#include <gtest/gtest.h>

#include <memory>

#include "indexer/lister.h"
#include "tests/indexer/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::Thing;

using ReaderTest = testing::IndexedStore;

TEST_F(ReaderTest, AGetShowsTheNewestAndWhatItReturnedBeforeStays) {
  Write({Thing("a", 1, "node-1", "web", {})});
  Reader reader = Lister(indexer_.get()).BeginRead();
  const Object* before = Must(reader.Get({"n", "a"}));
  Write({Thing("a", 2, "node-2", "web", {})});
  EXPECT_EQ(Must(reader.Get({"n", "a"}))->resource_version(), "2");
  EXPECT_EQ(before->resource_version(), "1");
  EXPECT_EQ(Delete("a", "uid", "3").outcome, Indexer::Outcome::kDeleted);
  EXPECT_EQ(CodeOf(reader.Get({"n", "a"})), ErrorCode::kNotFound);
  EXPECT_EQ(before->resource_version(), "1");
  EXPECT_EQ(reader.held_bytes(), 0U) << "all of it was hot";
}

TEST_F(ReaderTest, HoldsWhatWasNotHotUntilItIsRenewed) {
  Write({Thing("a", 1, "node-1", "web", {})});
  MakeCold("a");
  Reader reader(indexer_.get());
  const Object* object = Must(reader.Get({"n", "a"}));
  EXPECT_EQ(reader.held_bytes(), object->ByteSize());
  EXPECT_EQ(Must(reader.Get({"n", "a"})), object) << "hot by now, and the same";
  EXPECT_EQ(reader.held_bytes(), object->ByteSize());
  MakeCold("a");
  EXPECT_EQ(object->name(), "a");
  EXPECT_GT(hot_->GetStats().kept_bytes, 0U);
  reader.Renew();
  EXPECT_EQ(reader.held_bytes(), 0U);
  EXPECT_EQ(hot_->GetStats().kept_bytes, 0U);
  EXPECT_EQ(Must(reader.Get({"n", "a"}))->resource_version(), "1");
}

TEST_F(ReaderTest, ReadsACollectionWithoutAHotTier) {
  Write({Thing("a", 1, "node-1", "web", {})});
  const auto attached = Must(Indexer::Attach(store_.get(), indexer_->collection()));
  Reader reader(attached.get());
  EXPECT_EQ(Must(reader.Get({"n", "a"}))->resource_version(), "1");
  EXPECT_EQ(CodeOf(reader.Get({"n", "b"})), ErrorCode::kNotFound);
  reader.Renew();
}

TEST_F(ReaderTest, ItsHitsAreCountedWhenItEnds) {
  Write({Thing("a", 1, "node-1", "web", {})});
  const uint64_t before = hot_->GetStats().hits;
  {
    Reader reader(indexer_.get());
    for (int i = 0; i < 3; ++i) Must(reader.Get({"n", "a"}));
  }
  EXPECT_EQ(hot_->GetStats().hits, before + 3);
}

}  // namespace
}  // namespace larder
