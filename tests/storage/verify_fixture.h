// A store with objects, indexes, a queue item each and a pending change, for tests that damage it.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "storage/database.h"
#include "storage/maintenance.h"
#include "tests/storage/support.h"

namespace larder::testing {

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Open();
    Transaction transaction = store_->Begin();
    transaction.PutIndexRecord(pods_.id, {1, "node", "field:spec.nodeName", true});
    transaction.PutIndexRecord(pods_.id, {2, "app", "label:app", true});
    transaction.PutIndexRecord(pods_.id, {3, "f", "func:f@1", true});
    for (size_t i = 0; i < kPods; ++i) {
      const ObjectPtr pod = Pod(i);
      transaction.PutObject(pods_.id, Must(store_->Encode(pods_.id, *pod)));
      transaction.PutIndexKey(pods_.id, 1, "node-" + std::to_string(i % 20), pod->key(),
                              pod->uid());
      transaction.PutIndexKey(pods_.id, 2, *pod->Label("app"), pod->key(), pod->uid());
      transaction.PutIndexKey(pods_.id, 3, "v", pod->key(), pod->uid());
      transaction.PutQueueItem("q", pod->key().ToString(), i, {});
    }
    transaction.PutDelta(pods_.id, "h", PodKey(1), "d");
    transaction.PutNote("n", "1");
    transaction.SetCursor(pods_.id, {"77", SyncState::kSynced, 4, 0});
    Must(store_->Commit(std::move(transaction), Durability::kSync));
  }
  void Open() {
    store_.reset();
    store_ = Must(Store::Open({.path = dir_.path()}));
    pods_ = Must(store_->OpenCollection(SpecOf("pods")));
  }
  // Writes a row behind the store's back.
  void Raw(Family family, const std::string& key, const std::optional<std::string>& value) {
    RawClosed(family, key, value);
    Open();
  }
  void RawClosed(Family family, const std::string& key, const std::optional<std::string>& value) {
    store_.reset();
    std::vector<std::string> names;
    ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, dir_.path(), &names).ok());
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const std::string& name : names)
      families.emplace_back(name, rocksdb::ColumnFamilyOptions());
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, dir_.path(), families, &handles, &raw).ok());
    auto* handle = handles[static_cast<size_t>(family) + 1];
    ASSERT_TRUE((value ? raw->Put({}, handle, key, *value) : raw->Delete({}, handle, key)).ok());
    for (auto* each : handles) ASSERT_TRUE(raw->DestroyColumnFamilyHandle(each).ok());
    delete raw;
  }
  std::string KeyOf(size_t i) { return "1/" + PodKey(i).ToString(); }
  // The one problem that is found.
  Problem OnlyProblem() {
    const VerifyReport report = Must(Verify(*store_));
    EXPECT_EQ(report.problem_count, 1U);
    for (const Problem& problem : report.problems) {
      SCOPED_TRACE(problem.family + " " + problem.key + ": " + problem.message);
    }
    return report.problems.empty() ? Problem{} : report.problems[0];
  }
  void RemoveManifest() {
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("MANIFEST", 0) == 0 || name == "CURRENT")
        std::filesystem::remove(entry.path());
    }
  }
  // A database that has just been made, with nothing in it, in the place of the store's own: what
  // a RocksDB repair that was cut off leaves beside the tables.
  void PutEmptyManifest() {
    const std::string empty = dir_.path("empty");
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, empty, &raw).ok());
    delete raw;
    RemoveManifest();
    std::filesystem::remove(dir_.path() + "/manifest-length");  // it is of another manifest
    for (const auto& entry : std::filesystem::directory_iterator(empty)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("MANIFEST", 0) == 0 || name == "CURRENT") {
        std::filesystem::copy_file(entry.path(), dir_.path() + "/" + name);
      }
    }
  }
  size_t Tables() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      count += entry.path().extension() == ".sst" ? 1 : 0;
    }
    return count;
  }
  void DamageTables(const std::string& family, size_t offset) {
    Must(Compact(*store_));
    store_.reset();
    ASSERT_GT(testing::DamageTables(dir_.path(), family, offset), 0U);
  }

  static constexpr size_t kPods = 60;
  testing::TempDir dir_;
  testing::TempDir copies_;  // what a test puts aside
  std::unique_ptr<Store> store_;
  CollectionInfo pods_;
};

}  // namespace larder::testing
