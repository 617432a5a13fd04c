// A store with many objects in little memory, as the system counts it. Each measurement has a
// process of its own, prepared as larder's programs are.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "base/process.h"
#include "informer/collection_sync.h"
#include "tests/base/resident_memory.h"
#include "tests/informer/nobody_listens.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::Must;

constexpr size_t kLimit = size_t{24} << 20;
// A sanitizer is slow, and has memory of its own: there only the way is walked.
constexpr size_t kObjects = testing::kSanitizerSlack == 0 ? 200'000 : 5'000;
// What a list takes for each object that it names (docs/guarantees.md).
constexpr size_t kListBytesPerObject = 12;

// "VmHWM:" is the highest since ForgetPeak, "VmRSS:" is now.
size_t StatusBytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoul(line.substr(name.size())) << 10;
  }
  return 0;
}
void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

ObjectKey KeyOf(size_t number) {
  return {fmt::format("team-{}", number % 40), fmt::format("web-{}-5d8f9c7b6", number)};
}
ObjectPtr ObjectOf(size_t number, uint64_t version) {
  const ObjectKey key = KeyOf(number);
  return testing::SmallObject(key.ns, key.name, version,
                              fmt::format(R"("spec":{{"nodeName":"node-{}"}})", number % 500));
}

// What is taken in each phase beyond what an empty store takes, against `allowed`.
class Ledger {
 public:
  Ledger() : base_(StatusBytes("VmRSS:")) { ForgetPeak(); }
  void Check(const char* phase, size_t allowed) {
    const size_t peak = StatusBytes("VmHWM:") - std::min(base_, StatusBytes("VmHWM:"));
    const bool fine = peak <= allowed + testing::kSanitizerSlack;
    std::fprintf(stderr, "%s: %.1f MiB at its peak, %.1f are allowed%s\n", phase,
                 static_cast<double>(peak) / (1 << 20), static_cast<double>(allowed) / (1 << 20),
                 fine ? "" : ": TOO MUCH");
    kept_ = kept_ && fine;
    ForgetPeak();
  }
  bool kept() const { return kept_; }

 private:
  const size_t base_;
  bool kept_ = true;
};

bool KeepsToTheLimit() {
  PrepareProcess();
  const testing::TempDir dir;
  const auto store = Must(Store::Open({.path = dir.path(), .memory_limit = kLimit}));
  HotTier hot({.max_bytes = DivideMemory(kLimit).hot_tier});
  const auto indexer =
      Must(Indexer::Open(store.get(), &hot, testing::SpecOf("pods"),
                         {Must(IndexDefinition::ByField("node", "spec.nodeName"))}));
  NobodyListens nobody;
  CollectionSync sync(indexer.get(), &nobody, CollectionSyncOptions());
  Must(sync.Start());
  Ledger ledger;
  const size_t while_listing = kLimit + kListBytesPerObject * kObjects;

  Must(sync.BeginList("first"));
  for (size_t i = 0; i < kObjects; ++i) Must(sync.ListItem(ObjectOf(i, i + 1)));
  Must(sync.EndList(std::to_string(kObjects + 1)));
  ledger.Check("first list", while_listing);

  for (size_t i = 0; i < kObjects / 4; ++i) {
    Must(indexer->GetByKey(KeyOf(i * 7919 % kObjects)));
  }
  for (int node = 0; node < 50; ++node)
    Must(indexer->ByIndex("node", fmt::format("node-{}", node)));
  ledger.Check("reads", kLimit);

  Must(sync.BeginList("gone"));
  for (size_t i = 0; i < kObjects; ++i) {
    const std::string uid(ObjectOf(i, i + 1)->uid());
    EXPECT_TRUE(Must(sync.ListItemUnchanged(KeyOf(i), uid, std::to_string(i + 1))));
  }
  Must(sync.EndList(std::to_string(kObjects + 2)));
  ledger.Check("relist", while_listing);

  EXPECT_EQ(Must(indexer->Count()), kObjects);
  return ledger.kept() && !::testing::Test::HasFailure();
}

TEST(MemoryTest, AStoreOfManyObjectsKeepsToItsLimit) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(std::_Exit(KeepsToTheLimit() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace larder
