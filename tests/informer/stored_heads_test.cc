// Heads that are read ahead, beside those that are looked up one by one.
#include "informer/stored_heads.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schema/key_order.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::Must;

class StoredHeadsTest : public ::testing::Test {
 protected:
  void Put(const std::vector<ObjectKey>& keys) {
    const auto writer = indexer_->BeginWrite();
    for (const ObjectKey& key : keys) {
      const ObjectPtr object = testing::SmallObject(key.ns, key.name, ++version_);
      Must(writer->Upsert(object, Must(store_->Encode(indexer_->collection().id, *object)),
                          Indexer::Writer::Expect::kAny));
    }
    Must(writer->Commit(Durability::kRelaxed));
  }
  // What is stored, by a get of its own.
  std::string Stored(const ObjectKey& key) {
    const auto head = store_->GetHead(indexer_->collection().id, key);
    return head ? head->resource_version : "nothing";
  }
  std::string Found(const ObjectKey& key) {
    const ObjectHead* const head = Must(heads_.Find(key));
    return head == nullptr ? "nothing" : head->resource_version;
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_ = Must(Store::Open({.path = dir_.path()}));
  std::unique_ptr<Indexer> indexer_ =
      Must(Indexer::Open(store_.get(), nullptr, testing::SpecOf("pods"), {}));
  StoredHeads heads_{indexer_.get()};
  uint64_t version_ = 0;
};

std::vector<ObjectKey> SomeKeys(int count) {
  std::vector<ObjectKey> keys;
  // "a" and "a-b": by their names, and by the rows, in another order.
  for (const char* ns : {"a", "a-b", "b", ""}) {
    for (int i = 0; i < count; ++i) keys.push_back({ns, fmt::format("pod-{}", i)});
  }
  std::sort(keys.begin(), keys.end(), ComesBefore);
  return keys;
}

// Every third is not stored, and rows that nobody asks for lie in between.
TEST_F(StoredHeadsTest, FindsWhatIsStoredInWhateverOrderItIsAskedFor) {
  std::vector<ObjectKey> keys = SomeKeys(400), stored;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % 3 != 0) stored.push_back(keys[i]);
  }
  Put(stored);
  std::minstd_rand random(7);
  for (const size_t step : {size_t{1}, size_t{2}, size_t{300}}) {
    heads_.Reset();
    for (size_t i = 0; i < keys.size(); i += step) EXPECT_EQ(Found(keys[i]), Stored(keys[i]));
  }
  std::reverse(keys.begin(), keys.end());
  for (const ObjectKey& key : keys) EXPECT_EQ(Found(key), Stored(key)) << key.ToString();
  std::shuffle(keys.begin(), keys.end(), random);
  for (const ObjectKey& key : keys) EXPECT_EQ(Found(key), Stored(key)) << key.ToString();
  EXPECT_EQ(Found({"zzz", "behind all"}), "nothing");
}

TEST_F(StoredHeadsTest, AsksForTheSameTwiceAndForgetsWhenToldTo) {
  const std::vector<ObjectKey> keys = SomeKeys(10);
  Put(keys);
  const std::string before = Found(keys[3]);
  EXPECT_EQ(Found(keys[3]), before);
  Found(keys[4]);  // reads ahead
  Put(keys);
  heads_.Reset();
  for (const ObjectKey& key : keys) EXPECT_EQ(Found(key), Stored(key));
  EXPECT_NE(Found(keys[3]), before);
}

TEST_F(StoredHeadsTest, OfAnEmptyCollectionThereIsNothing) {
  for (const ObjectKey& key : SomeKeys(3)) EXPECT_EQ(Found(key), "nothing");
}

}  // namespace
}  // namespace larder
