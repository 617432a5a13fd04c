#include "storage/store.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <thread>

#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::Pod;
using testing::PodKey;
using testing::SpecOf;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    store_ = Must(Store::Open({.path = dir_.path()}));
    pods_ = Must(store_->OpenCollection(SpecOf("pods")));
  }
  std::vector<ObjectKey> Keys(std::string_view ns = {}, const ObjectKey& after = {}) {
    std::vector<ObjectKey> out;
    Must(store_->Scan(pods_.id, ns, after, [&](const ObjectPtr& object) {
      out.push_back(object->key());
      return true;
    }));
    return out;
  }
  std::vector<IndexEntry> Indexed(std::optional<std::string_view> value,
                                  const SnapshotPtr& snapshot = nullptr) {
    std::vector<IndexEntry> out;
    Must(store_->ScanIndex(
        pods_.id, 1, value,
        [&](const IndexEntry& entry) {
          out.push_back(entry);
          return true;
        },
        snapshot));
    return out;
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_;
  CollectionInfo pods_;
};

TEST_F(StoreTest, WhatIsStoredIsEncodedAgainByReadingIt) {
  const ObjectPtr pod = Pod(1, 100);
  testing::PutAll(*store_, pods_.id, {pod});
  const auto from = [&](const ObjectPtr& object, const ObjectPtr& stored) {
    const EncodedObject encoded = Must(store_->EncodeFrom(pods_.id, *object, *stored));
    EXPECT_EQ(encoded.key, object->key());
    const ObjectPtr read = Must(store_->Decode(pods_.id, encoded.key, encoded.value));
    EXPECT_EQ(read->json(), object->json());
    return encoded.value;
  };
  EXPECT_EQ(from(pod, pod), Must(store_->Encode(pods_.id, *pod)).value);
  // As a delete tells of it: a version of its own, and nothing else is new.
  const ObjectPtr deleted = Pod(1, 101);
  EXPECT_EQ(from(deleted, pod), Must(store_->Encode(pods_.id, *deleted)).value);
  // What is stored does not help here.
  from(Pod(1, 101, "Failed"), pod);
  from(Pod(1, 102), Pod(1, 101));
  from(Pod(2, 100), Pod(2, 100));
}

TEST_F(StoreTest, GivesBackWhatWasPutByteForByte) {
  const ObjectPtr pod = Pod(1);
  testing::PutAll(*store_, pods_.id, {pod});
  EXPECT_EQ(Must(store_->Get(pods_.id, pod->key()))->json(), pod->json());
  Open();
  const ObjectPtr read = Must(store_->Get(pods_.id, pod->key()));
  EXPECT_EQ(read->json(), pod->json());
  EXPECT_EQ(read->envelope_bytes(), pod->envelope_bytes());
}

TEST_F(StoreTest, AThreadKeepsNoBuffersOfOneLargeObject) {
  const auto pass_through = [&](const ObjectPtr& object) {
    const EncodedObject encoded = Must(store_->Encode(pods_.id, *object));
    (void)Must(store_->Decode(pods_.id, encoded.key, encoded.value));
  };
  const auto in_use = [] {
    const struct mallinfo2 info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  pass_through(Pod(1));
  const size_t before = in_use();
  const std::string text(size_t{8} << 20, 'x');
  pass_through(testing::SmallObject("n", "large", 1, R"("data":{"a":")" + text + R"("})"));
  pass_through(Pod(1));
  EXPECT_LT(in_use(), before + text.size() + (size_t{4} << 20)) << "`text` itself is still there";
}

TEST_F(StoreTest, SaysNotFoundWhereNothingIs) {
  EXPECT_EQ(CodeOf(store_->Get(pods_.id, {"x", "y"})), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(store_->GetHead(pods_.id, {"x", "y"})), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(store_->Get(99, {"x", "y"})), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(store_->Encode(99, *Pod(1))), ErrorCode::kNotFound);
  EXPECT_FALSE(Must(store_->GetNote("nothing")));
}

TEST_F(StoreTest, ReadsTheHeadAlone) {
  testing::PutAll(*store_, pods_.id, {Pod(1, 42)});
  const ObjectHead head = Must(store_->GetHead(pods_.id, PodKey(1)));
  EXPECT_EQ(head.uid, Pod(1)->uid());
  EXPECT_EQ(head.resource_version, "42");
}

TEST_F(StoreTest, ATransactionIsAllOrNothing) {
  {
    Transaction dropped = store_->Begin();
    dropped.PutObject(pods_.id, Must(store_->Encode(pods_.id, *Pod(1))));
    dropped.PutNote("n", "1");
    EXPECT_FALSE(dropped.Empty());
    EXPECT_GT(dropped.ByteSize(), 100U);
  }
  EXPECT_TRUE(Keys().empty());
  Transaction transaction = store_->Begin();
  EXPECT_TRUE(transaction.Empty());
  transaction.PutObject(pods_.id, Must(store_->Encode(pods_.id, *Pod(1))));
  transaction.PutIndexKey(pods_.id, 1, "node-1", PodKey(1), Pod(1)->uid());
  transaction.PutQueueItem("q", "item", 3, {});
  transaction.PutNote("n", "1");
  transaction.SetCursor(pods_.id, {"7", SyncState::kSynced, 2, 1234});
  EXPECT_TRUE(Keys().empty()) << "nothing shows before the commit";
  Must(store_->Commit(std::move(transaction), Durability::kSync));
  for (int opened = 0; opened < 2; ++opened) {
    EXPECT_EQ(Keys(), std::vector<ObjectKey>{PodKey(1)});
    ASSERT_EQ(Indexed("node-1").size(), 1U);
    EXPECT_EQ(Indexed("node-1")[0].uid, Pod(1)->uid());
    EXPECT_EQ(Must(store_->GetNote("n")), "1");
    EXPECT_EQ(Must(store_->Queues()), std::vector<std::string>{"q"});
    const Cursor cursor = Must(store_->GetCursor(pods_.id));
    EXPECT_EQ(cursor.resource_version, "7");
    EXPECT_EQ(cursor.state, SyncState::kSynced);
    EXPECT_EQ(cursor.epoch, 2U);
    EXPECT_EQ(cursor.updated_ms, 1234);
    Open();
  }
}

TEST_F(StoreTest, ScansInKeyOrderANamespaceOrAll) {
  std::vector<ObjectPtr> pods;
  for (uint64_t i = 0; i < 50; ++i) pods.push_back(Pod(i));
  testing::PutAll(*store_, pods_.id, pods);
  std::vector<ObjectKey> expected;
  for (uint64_t i = 0; i < 50; ++i) expected.push_back(PodKey(i));
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(Keys(), expected);
  std::vector<ObjectKey> in_namespace;
  for (const ObjectKey& key : expected) {
    if (key.ns == "team-03") in_namespace.push_back(key);
  }
  EXPECT_EQ(Keys("team-03"), in_namespace);
  EXPECT_TRUE(Keys("team-0").empty()) << "a part of a namespace's name is not that namespace";
  EXPECT_EQ(Keys({}, expected[20]).front(), expected[21]);
  EXPECT_EQ(Keys("team-03", in_namespace[2]).front(), in_namespace[3]);
  size_t visited = 0;
  Must(store_->Scan(pods_.id, {}, {}, [&](const ObjectPtr&) { return ++visited < 5; }));
  EXPECT_EQ(visited, 5U);
}

TEST_F(StoreTest, CollectionsDoNotSeeEachOther) {
  std::vector<CollectionInfo> all = {pods_};
  for (int i = 0; i < 12; ++i) {
    all.push_back(Must(store_->OpenCollection(SpecOf("pods", "ns" + std::to_string(i)))));
  }
  for (const CollectionInfo& info : all) {
    testing::PutAll(*store_, info.id,
                    {testing::SmallObject("n", "of-" + std::to_string(info.id), 1)});
  }
  for (const CollectionInfo& info : all) {
    size_t count = 0;
    Must(store_->Scan(info.id, {}, {}, [&](const ObjectPtr& object) {
      EXPECT_EQ(object->name(), "of-" + std::to_string(info.id));
      ++count;
      return true;
    }));
    EXPECT_EQ(count, 1U);
  }
}

TEST_F(StoreTest, IndexEntriesAreFoundByValueAndInOrder) {
  Transaction transaction = store_->Begin();
  for (const char* value : {"b", "a", "a/b", "", "ab", "%2F"}) {
    transaction.PutIndexKey(pods_.id, 1, value, {"ns", "x"}, "uid-x");
    transaction.PutIndexKey(pods_.id, 1, value, {"ns", "y"}, "uid-y");
    transaction.PutIndexKey(pods_.id, 11, value, {"ns", "z"}, "uid-z");
  }
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  for (const char* value : {"b", "a", "a/b", "", "ab", "%2F"}) {
    const auto entries = Indexed(value);
    ASSERT_EQ(entries.size(), 2U) << value;
    EXPECT_EQ(entries[0].value, value);
    EXPECT_EQ(entries[0].key.name, "x");
    EXPECT_EQ(entries[1].uid, "uid-y");
  }
  EXPECT_TRUE(Indexed("c").empty());
  EXPECT_EQ(Indexed(std::nullopt).size(), 12U);
  transaction = store_->Begin();
  transaction.DeleteIndexKey(pods_.id, 1, "a", {"ns", "x"});
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  EXPECT_EQ(Indexed("a").size(), 1U);
  Must(store_->DropIndex(pods_.id, 1));
  EXPECT_TRUE(Indexed(std::nullopt).empty());
}

TEST_F(StoreTest, IndexRecordsAreKept) {
  Transaction transaction = store_->Begin();
  transaction.PutIndexRecord(pods_.id, {1, "node", "field:spec.nodeName", false});
  transaction.PutIndexRecord(pods_.id, {2, "app", "label:app", true});
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  Open();
  const auto records = Must(store_->IndexRecords(pods_.id));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].definition, "field:spec.nodeName");
  EXPECT_FALSE(records[0].ready);
  EXPECT_TRUE(records[1].ready);
}

TEST_F(StoreTest, ASnapshotStandsStill) {
  testing::PutAll(*store_, pods_.id, {Pod(1, 1)});
  const SnapshotPtr before = store_->TakeSnapshot();
  Transaction transaction = store_->Begin();
  transaction.PutObject(pods_.id, Must(store_->Encode(pods_.id, *Pod(1, 2))));
  transaction.PutObject(pods_.id, Must(store_->Encode(pods_.id, *Pod(2, 2))));
  transaction.PutIndexKey(pods_.id, 1, "v", PodKey(2), "u");
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(1), before))->resource_version(), "1");
  EXPECT_EQ(CodeOf(store_->Get(pods_.id, PodKey(2), before)), ErrorCode::kNotFound);
  EXPECT_TRUE(Indexed("v", before).empty());
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(1)))->resource_version(), "2");
  EXPECT_EQ(Indexed("v").size(), 1U);
}

// Index and object are written together; whoever reads both from one snapshot sees them agree.
TEST_F(StoreTest, ASnapshotNeverShowsHalfACommit) {
  std::jthread writer([this](const std::stop_token& stop) {
    for (uint64_t version = 1; !stop.stop_requested(); ++version) {
      Transaction transaction = store_->Begin();
      transaction.PutObject(
          pods_.id, Must(store_->Encode(pods_.id, *testing::SmallObject("n", "a", version))));
      transaction.DeleteIndexKey(pods_.id, 1, std::to_string(version - 1), {"n", "a"});
      transaction.PutIndexKey(pods_.id, 1, std::to_string(version), {"n", "a"}, "u");
      Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
    }
  });
  for (int i = 0; i < 300; ++i) {
    const SnapshotPtr snapshot = store_->TakeSnapshot();
    const auto object = store_->Get(pods_.id, {"n", "a"}, snapshot);
    const auto entries = Indexed(std::nullopt, snapshot);
    if (!object) {
      ASSERT_TRUE(entries.empty());
      continue;
    }
    ASSERT_EQ(entries.size(), 1U);
    ASSERT_EQ(entries[0].value, (*object)->resource_version());
  }
}

TEST_F(StoreTest, QueueItemsComeBackInOrderWithAllTheirFields) {
  Transaction transaction = store_->Begin();
  const QueueRecord record{.added_ms = 5,
                           .not_before_ms = 6,
                           .priority = -7,
                           .failures = 8,
                           .dead = true,
                           .last_error = "it broke"};
  transaction.PutQueueItem("q", "b", 2, record);
  transaction.PutQueueItem("q", "a/b", 1, {});
  transaction.PutQueueItem("q", "a", 10, {});
  transaction.PutQueueItem("q", "a", 9, {});
  transaction.PutQueueItem("other/queue", "z", 1, {});
  Must(store_->Commit(std::move(transaction), Durability::kSync));
  Open();
  std::vector<std::pair<std::string, uint64_t>> seen;
  Must(store_->ScanQueue("q", {}, [&](const StoredQueueItem& item) {
    seen.emplace_back(item.item, item.generation);
    if (item.item == "b") {
      EXPECT_EQ(item.record.added_ms, 5);
      EXPECT_EQ(item.record.not_before_ms, 6);
      EXPECT_EQ(item.record.priority, -7);
      EXPECT_EQ(item.record.failures, 8U);
      EXPECT_TRUE(item.record.dead);
      EXPECT_EQ(item.record.last_error, "it broke");
    }
    return true;
  }));
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, uint64_t>>{
                      {"a/b", 1}, {"a", 9}, {"a", 10}, {"b", 2}}));
  EXPECT_EQ(Must(store_->Queues()), (std::vector<std::string>{"other/queue", "q"}));
  // Behind every generation of `after`.
  seen.clear();
  Must(store_->ScanQueue("q", "a", [&](const StoredQueueItem& item) {
    seen.emplace_back(item.item, item.generation);
    return true;
  }));
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, uint64_t>>{{"b", 2}}));
  transaction = store_->Begin();
  transaction.DeleteQueueItem("q", "a", 9);
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  size_t left = 0;
  Must(store_->ScanQueue("q", {}, [&](const StoredQueueItem&) { return ++left != 0; }));
  EXPECT_EQ(left, 3U);
}

TEST_F(StoreTest, DeltasOfAHandlerAreARangeOfTheirOwn) {
  Transaction transaction = store_->Begin();
  transaction.PutDelta(pods_.id, "h/1", {"n", "a"}, "va");
  transaction.PutDelta(pods_.id, "h/1", {"n", "b"}, "vb");
  transaction.PutDelta(pods_.id, "h", {"n", "a"}, "other");
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  EXPECT_EQ(Must(store_->GetDelta(pods_.id, "h/1", {"n", "a"})), "va");
  EXPECT_FALSE(Must(store_->GetDelta(pods_.id, "h/1", {"n", "c"})));
  std::vector<std::string> seen;
  const auto collect = [&](const ObjectKey&, std::string_view value) {
    seen.emplace_back(value);
    return true;
  };
  Must(store_->ScanDeltas(pods_.id, "h/1", {"n", "a"}, collect));
  EXPECT_EQ(seen, std::vector<std::string>{"vb"});
  Must(store_->DropDeltas(pods_.id, "h/1"));
  seen.clear();
  Must(store_->ScanDeltas(pods_.id, "h/1", {}, collect));
  Must(store_->ScanDeltas(pods_.id, "h", {}, collect));
  EXPECT_EQ(seen, std::vector<std::string>{"other"});
}

TEST_F(StoreTest, CompressionCanBeSwitchedOff) {
  store_.reset();
  store_ = Must(Store::Open({.path = dir_.path(), .compression = false}));
  const EncodedObject plain = Must(store_->Encode(pods_.id, *Pod(1)));
  EXPECT_NE(plain.value.find("registry.example.com"), std::string::npos);
  testing::PutAll(*store_, pods_.id, {Pod(1)});
  Open();
  EXPECT_EQ(Must(store_->Get(pods_.id, PodKey(1)))->json(), Pod(1)->json());
}

TEST_F(StoreTest, AStoreInMemoryLeavesNothingBehind) {
  {
    const auto memory = Must(Store::Open({.path = dir_.path("memory"), .in_memory = true}));
    const CollectionInfo info = Must(memory->OpenCollection(SpecOf("secrets")));
    testing::PutAll(*memory, info.id, {testing::SmallObject("n", "a", 1)});
    EXPECT_EQ(Must(memory->Get(info.id, {"n", "a"}))->name(), "a");
    Must(memory->Sync());
    const auto nameless = Must(Store::Open({.in_memory = true}));
    EXPECT_TRUE(Must(nameless->Collections()).empty());
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.path("memory")));
}

TEST_F(StoreTest, HugeObjectsAreStoredUpToABound) {
  const ObjectPtr large =
      testing::SmallObject("n", "large", 1, "\"x\":\"" + std::string(3 << 20, 'x') + "\"");
  testing::PutAll(*store_, pods_.id, {large});
  EXPECT_EQ(Must(store_->Get(pods_.id, {"n", "large"}))->json(), large->json());
  const ObjectPtr too_large =
      testing::SmallObject("n", "large", 1, "\"x\":\"" + std::string(65 << 20, 'x') + "\"");
  EXPECT_EQ(CodeOf(store_->Encode(pods_.id, *too_large)), ErrorCode::kInvalidArgument);
}

TEST_F(StoreTest, ATransactionBegunEarlyMayBeCommittedLate) {
  Transaction early = store_->Begin();
  testing::PutAll(*store_, pods_.id, {Pod(1)});
  early.PutObject(pods_.id, Must(store_->Encode(pods_.id, *Pod(2))));
  Must(store_->Commit(std::move(early), Durability::kRelaxed));
  EXPECT_EQ(Keys().size(), 2U);
}

}  // namespace
}  // namespace larder
