#include "tests/storage/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "tests/storage/support.h"

namespace larder::testing {
namespace {

constexpr size_t kPods = 220;
constexpr char kKeyVariable[] = "LARDER_GOLDEN_KEY";

ObjectPtr GoldenPod(size_t i) {
  return SmallObject("ns-" + std::to_string(i % 3), "pod-" + std::to_string(i), i + 1,
                     fmt::format(R"("spec":{{"nodeName":"node-{}","big":{}00000000000000000000}},)"
                                 R"("status":{{"phase":"Running","note":"\u00e9 {}"}})",
                                 i % 7, i + 1, i),
                     fmt::format("{:08x}-d195-4b0f-a2f7-0fba5a30035d", i));
}
ObjectPtr GoldenSecret() {
  return SmallObject("ns-0", "secret", 9, R"("data":{"password":"c2VjcmV0"})");
}

// RocksDB, opened bare with whatever families there are.
struct Bare {
  explicit Bare(const std::string& path, const std::vector<std::string>& families) {
    rocksdb::DBOptions options;
    options.create_if_missing = options.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const std::string& family : families)
      descriptors.emplace_back(family, rocksdb::ColumnFamilyOptions());
    rocksdb::DB* raw = nullptr;
    const auto status = rocksdb::DB::Open(options, path, descriptors, &handles, &raw);
    if (!status.ok()) ADD_FAILURE() << status.ToString();
    db.reset(raw);
  }
  ~Bare() {
    for (auto* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
  }
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
};

std::string Hex(std::string_view bytes) {
  return rocksdb::Slice(bytes.data(), bytes.size()).ToString(true);
}

}  // namespace

StoreOptions GoldenOptions(const std::string& path) {
  ::setenv(kKeyVariable, "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", 1);
  StoreOptions options{.path = path};
  options.encryption_key_variable = kKeyVariable;
  return options;
}

void FillGolden(const std::string& path) {
  const auto store = Must(Store::Open(GoldenOptions(path)));
  const CollectionId pods = Must(store->OpenCollection(SpecOf("pods"))).id;
  const CollectionId secrets = Must(store->OpenCollection(SpecOf("secrets"))).id;
  for (size_t i = 0; i < kPods; ++i) {
    PutAll(*store, pods, {GoldenPod(i)});
    if (i == 210) store->WaitForDictionaries();
  }
  PutAll(*store, secrets, {GoldenSecret()});
  Transaction transaction = store->Begin();
  transaction.PutIndexRecord(pods, {1, "node", "field:spec.nodeName", true});
  for (size_t i = 0; i < kPods; ++i) {
    transaction.PutIndexKey(pods, 1, "node-" + std::to_string(i % 7), GoldenPod(i)->key(),
                            GoldenPod(i)->uid());
  }
  Cursor cursor;
  cursor.resource_version = "220";
  cursor.state = SyncState::kSynced;
  transaction.SetCursor(pods, cursor);
  QueueRecord record;
  record.added_ms = 1'700'000'000'000;
  record.failures = 3;
  record.priority = -7;
  transaction.PutQueueItem("golden queue", "ns-0/pod-0", 5, record);
  transaction.PutDelta(pods, "handler", GoldenPod(1)->key(), "as the informer wrote it");
  transaction.PutNote("handler/golden", "kept");
  Must(store->Commit(std::move(transaction), Durability::kSync));
}

void DumpGolden(const std::string& path, const std::string& file) {
  std::vector<std::string> families;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, path, &families).ok());
  const Bare bare(path, families);
  std::ofstream out(file);
  for (size_t i = 0; i < families.size(); ++i) {
    const std::unique_ptr<rocksdb::Iterator> rows(bare.db->NewIterator({}, bare.handles[i]));
    for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
      out << families[i] << ' ' << Hex({rows->key().data(), rows->key().size()}) << ' '
          << Hex({rows->value().data(), rows->value().size()}) << '\n';
    }
  }
}

void LoadGolden(int format, const std::string& path) {
  const std::string file = fmt::format("{}/format-{}.txt", LARDER_GOLDEN_DIR, format);
  std::vector<std::array<std::string, 3>> rows;
  std::vector<std::string> families = {rocksdb::kDefaultColumnFamilyName};
  std::ifstream in(file);
  for (std::string family, key, value; in >> family >> key >> value;) {
    if (std::find(families.begin(), families.end(), family) == families.end())
      families.push_back(family);
    rows.push_back({family, key, value});
  }
  ASSERT_FALSE(rows.empty()) << file;
  for (const char* family : {"meta", "objects", "indexes", "queues", "deltas"}) {
    if (std::find(families.begin(), families.end(), family) == families.end())
      families.emplace_back(family);
  }
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const Bare bare(path, families);
  for (const auto& [family, key, value] : rows) {
    const auto at = std::find(families.begin(), families.end(), family) - families.begin();
    std::string raw_key, raw_value;
    ASSERT_TRUE(rocksdb::Slice(key).DecodeHex(&raw_key));
    ASSERT_TRUE(rocksdb::Slice(value).DecodeHex(&raw_value));
    ASSERT_TRUE(bare.db->Put({}, bare.handles[static_cast<size_t>(at)], raw_key, raw_value).ok());
  }
}

void ExpectGolden(Store& store) {
  EXPECT_EQ(Must(store.Collections()).size(), 2U) << "nothing is stored under another fingerprint";
  const CollectionId pods = Must(store.OpenCollection(SpecOf("pods"))).id;
  const CollectionId secrets = Must(store.OpenCollection(SpecOf("secrets"))).id;
  EXPECT_EQ(Must(store.Collections()).size(), 2U);
  for (size_t i = 0; i < kPods; ++i) {
    const ObjectPtr read = Must(store.Get(pods, GoldenPod(i)->key()));
    ASSERT_EQ(read->json(), GoldenPod(i)->json());
    ASSERT_EQ(read->uid(), GoldenPod(i)->uid());
  }
  EXPECT_EQ(Must(store.Get(secrets, GoldenSecret()->key()))->json(), GoldenSecret()->json());
  EXPECT_EQ(Must(store.GetCursor(pods)).resource_version, "220");
  EXPECT_EQ(Must(store.GetCursor(pods)).state, SyncState::kSynced);
  size_t on_node = 0;
  Must(store.ScanIndex(pods, 1, "node-3", [&](const IndexEntry&) { return ++on_node != 0; }));
  EXPECT_EQ(on_node, kPods / 7);
  std::vector<StoredQueueItem> items;
  Must(store.ScanQueue("golden queue", {}, [&](const StoredQueueItem& item) {
    items.push_back(item);
    return true;
  }));
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(items[0].item, "ns-0/pod-0");
  EXPECT_EQ(items[0].generation, 5U);
  EXPECT_EQ(items[0].record.failures, 3U);
  EXPECT_EQ(items[0].record.priority, -7);
  EXPECT_EQ(Must(store.GetDelta(pods, "handler", GoldenPod(1)->key())), "as the informer wrote it");
  EXPECT_EQ(Must(store.GetNote("handler/golden")), "kept");
}

}  // namespace larder::testing
