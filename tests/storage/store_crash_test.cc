// A process that dies: what was committed is there, in order, with nothing missing in between.
#include <gtest/gtest.h>

#include <set>

#include "storage/store.h"
#include "tests/storage/child.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::Must;

// Everything in the store belongs to one commit number, and to none after it.
uint64_t ExpectPrefix(const std::string& path) {
  const auto store = Must(Store::Open({.path = path}));
  CollectionSpec spec;
  spec.cluster_uid = "c";
  spec.resource = Must(LookupResource("configmaps"));
  const CollectionInfo info = Must(store->OpenCollection(spec));
  if (info.cursor.resource_version.empty()) return 0;
  const uint64_t last = std::stoull(info.cursor.resource_version);
  EXPECT_EQ(Must(store->GetNote("last")), std::to_string(last));
  // Names repeat every 500 commits; each row holds the newest.
  std::set<uint64_t> versions;
  Must(store->Scan(info.id, {}, {}, [&](const ObjectPtr& object) {
    versions.insert(std::stoull(std::string(object->resource_version())));
    return true;
  }));
  const uint64_t first = last > 500 ? last - 499 : 1;
  EXPECT_EQ(versions.size(), last - first + 1);
  EXPECT_EQ(*versions.begin(), first);
  EXPECT_EQ(*versions.rbegin(), last);
  size_t indexed = 0;
  Must(store->ScanIndex(info.id, 1, "v", [&](const IndexEntry& entry) {
    const auto object = Must(store->Get(info.id, entry.key));
    EXPECT_EQ(object->uid(), entry.uid);
    return ++indexed != 0;
  }));
  EXPECT_EQ(indexed, versions.size());
  uint64_t items = 0;
  Must(store->ScanQueue("q", {}, [&](const StoredQueueItem&) { return ++items != 0; }));
  EXPECT_EQ(items, last) << "every commit left its queue item";
  return last;
}

TEST(StoreCrash, KillLosesNothingThatWasCommitted) {
  std::mt19937_64 random(testing::Seed());
  const testing::TempDir dir;
  uint64_t acknowledged = 0;
  for (int round = 0; round < 8; ++round) {
    testing::Child writer("write", dir.path());
    for (uint64_t lines = random() % 400 + 1; lines > 0; --lines) {
      const std::string line = writer.ReadLine();
      ASSERT_FALSE(line.empty());
      acknowledged = std::stoull(line);
    }
    writer.Kill();
    ASSERT_EQ(writer.Wait(), -SIGKILL);
    for (std::string line; !(line = writer.ReadLine()).empty();) acknowledged = std::stoull(line);
    const uint64_t last = ExpectPrefix(dir.path());
    ASSERT_GE(last, acknowledged);
    ASSERT_LE(last, acknowledged + 1) << "only one commit was under way";
  }
}

TEST(StoreCrash, ADiskThatIsFullKeepsReadsAliveAndGoesOnByItself) {
  const testing::TempDir dir;
  std::filesystem::create_directory(dir.path("disk"));
  testing::Child child("full", dir.path("disk"));
  const int code = child.Wait();
  if (code == 77) GTEST_SKIP() << "this machine lets nobody mount a file system";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace larder
