// A store of an older format becomes one of today's when it is opened, whatever happens meanwhile.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/database.h"
#include "storage/store.h"
#include "tests/storage/child.h"
#include "tests/storage/golden.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::Must;

std::string StoredFormat(const std::string& path) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, {}},
                                                           {"meta", {}}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  const auto status = rocksdb::DB::OpenForReadOnly({}, path, families, &handles, &raw);
  if (!status.ok()) return status.ToString();
  const std::unique_ptr<rocksdb::DB> db(raw);
  std::string format;
  (void)db->Get({}, handles[1], rocksdb::Slice(kFormatKey.data(), kFormatKey.size()), &format);
  for (auto* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
  return format;
}

TEST(Upgrade, AnOwnerBringsAStoreToTodaysFormatAndAReaderLeavesIt) {
  const testing::TempDir dir;
  testing::LoadGolden(1, dir.path());
  (void)Must(Store::OpenReadOnly(testing::GoldenOptions(dir.path())));
  EXPECT_EQ(StoredFormat(dir.path()), "1");
  (void)Must(Store::Open(testing::GoldenOptions(dir.path())));
  EXPECT_EQ(StoredFormat(dir.path()), std::to_string(kFormat));
}

// Opens a store of format 1 on a disk where the process ends at the first, the second, ... such
// operation, until it gets through; looks each time at what is left.
int BreakAtEach(const std::string& action, const std::string& operation) {
  for (int count = 1;; ++count) {
    const std::string plan = fmt::format("{}:any:{}:{}", action, operation, count);
    SCOPED_TRACE(plan);
    const testing::TempDir dir;
    testing::LoadGolden(1, dir.path());
    const int code = testing::Child("open", dir.path(), plan).Wait();
    const std::string format = StoredFormat(dir.path());
    EXPECT_TRUE(format == "1" || format == std::to_string(kFormat)) << format;
    testing::ExpectGolden(*Must(Store::Open(testing::GoldenOptions(dir.path()))));
    EXPECT_EQ(StoredFormat(dir.path()), std::to_string(kFormat));
    if (code == 0) return count - 1;
    EXPECT_EQ(code, -SIGKILL);
    if (::testing::Test::HasFailure()) return 0;
  }
}

class UpgradeThatIsCutOff : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
};

TEST_P(UpgradeThatIsCutOff, IsFinishedByTheNextOpen) {
  const auto [action, operation] = GetParam();
  EXPECT_GT(BreakAtEach(action, operation), 3) << "it was cut off nowhere";
}

INSTANTIATE_TEST_SUITE_P(Points, UpgradeThatIsCutOff,
                         ::testing::Combine(::testing::Values("kill", "power"),
                                            ::testing::Values("append", "appended", "sync",
                                                              "synced")),
                         [](const auto& test) {
                           return fmt::format("{}_at_{}", std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

}  // namespace
}  // namespace larder
