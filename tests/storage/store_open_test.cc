// Opening a store: who may, what is refused, and what the message says.
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "storage/database.h"
#include "storage/maintenance.h"
#include "storage/store.h"
#include "storage/store_impl.h"
#include "tests/storage/child.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
using testing::CodeOf;
using testing::Must;
using testing::SpecOf;

bool Contains(const Error& error, const std::string& text) {
  return error.message.find(text) != std::string::npos;
}

// Every file below a directory, with its content.
std::map<std::string, std::string> TreeOf(const std::string& path) {
  std::map<std::string, std::string> tree;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    std::ifstream file(entry.path(), std::ios::binary);
    tree[entry.path().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return tree;
}

TEST(StoreOpen, MakesAPrivateDirectory) {
  const testing::TempDir dir;
  (void)Must(Store::Open({.path = dir.path("a/b/store")}));
  struct stat info {};
  ASSERT_EQ(::stat(dir.path("a/b/store").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST(StoreOpen, TakesAnEmptyDirectoryAndMakesItPrivate) {
  const testing::TempDir dir;
  fs::create_directory(dir.path());
  fs::create_directory(dir.path() + "/lost+found");
  ::chmod(dir.path().c_str(), 0755);
  (void)Must(Store::Open({.path = dir.path()}));
  struct stat info {};
  ASSERT_EQ(::stat(dir.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST(StoreOpen, RefusesADirectoryThatOthersCanRead) {
  const testing::TempDir dir;
  (void)Must(Store::Open({.path = dir.path()}));
  ::chmod(dir.path().c_str(), 0750);
  for (const auto& refused :
       {Store::Open({.path = dir.path()}), Store::OpenReadOnly({.path = dir.path()})}) {
    EXPECT_EQ(CodeOf(refused), ErrorCode::kForbidden);
    EXPECT_TRUE(Contains(refused.error(), "chmod 700 " + dir.path())) << refused.error().message;
  }
}

// Cut off behind a record, a manifest reads as an older one, and RocksDB goes on with later logs.
TEST(StoreOpen, RefusesAManifestThatLostItsEnd) {
  const testing::TempDir dir;
  const auto note = [](Store& store, const std::string& value) {
    Transaction transaction = store.Begin();
    transaction.PutNote(value, value);
    Must(store.Commit(std::move(transaction), Durability::kSync));
  };
  {
    const auto store = Must(Store::Open({.path = dir.path()}));
    note(*store, "in a table");
    Must(Compact(*store));
    note(*store, "in the log");
  }
  fs::path manifest;
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    if (entry.path().filename().string().rfind("MANIFEST", 0) == 0) manifest = entry.path();
  }
  const uintmax_t whole = fs::file_size(manifest);
  int readable = 0;
  for (uintmax_t bytes = whole - 1; bytes > whole / 4; --bytes) {
    fs::resize_file(manifest, bytes);
    rocksdb::DBOptions options;
    std::vector<std::string> names;
    if (rocksdb::DB::ListColumnFamilies(options, dir.path(), &names).ok()) ++readable;
    const auto refused = Store::Open({.path = dir.path()});
    ASSERT_EQ(CodeOf(refused), ErrorCode::kCorruption) << bytes << " of " << whole;
    ASSERT_TRUE(Contains(refused.error(), "its end is lost")) << refused.error().message;
  }
  EXPECT_GT(readable, 0) << "RocksDB would have noticed each of them by itself";

  EXPECT_EQ(Must(Repair({.path = dir.path()})).other_rows_lost, 0U);
  const auto store = Must(Store::Open({.path = dir.path()}));
  EXPECT_TRUE(Must(store->GetNote("in a table")).has_value()) << "the table is still there";
  EXPECT_TRUE(Must(store->GetNote("in the log")).has_value());
}

void FlipBit(const fs::path& path, uintmax_t at, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ (1 << bit)));
}

// RocksDB takes a record that seems to go on behind the file's end, or to be of a log before, for
// the end of what was written, and reads the manifest as an older one.
TEST(StoreOpen, RefusesAManifestWithAnyBitFlipped) {
  const testing::TempDir dir;
  {
    const auto store = Must(Store::Open({.path = dir.path()}));
    Transaction transaction = store->Begin();
    transaction.PutNote("a", "b");
    Must(store->Commit(std::move(transaction), Durability::kSync));
    Must(Compact(*store));
  }
  fs::path manifest;
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    if (entry.path().filename().string().rfind("MANIFEST", 0) == 0) manifest = entry.path();
  }
  int readable = 0;
  for (uintmax_t at = fs::file_size(manifest) / 2; at < fs::file_size(manifest); ++at) {
    for (const int bit : {2, 7}) {  // of a kind of record, and of its length
      FlipBit(manifest, at, bit);
      rocksdb::DBOptions options;
      std::vector<std::string> names;
      if (rocksdb::DB::ListColumnFamilies(options, dir.path(), &names).ok()) ++readable;
      const auto refused = Store::Open({.path = dir.path()});
      ASSERT_EQ(CodeOf(refused), ErrorCode::kCorruption) << "bit " << bit << " of byte " << at;
      FlipBit(manifest, at, bit);
    }
  }
  EXPECT_GT(readable, 0) << "RocksDB would have noticed each of them by itself";
  const auto store = Must(Store::Open({.path = dir.path()}));
  EXPECT_TRUE(Must(store->GetNote("a")).has_value());
}

// What is appended to the manifest and not synced is lost with the power, and nothing with it.
TEST(StoreOpen, MissesNothingOfAManifestThatWasNotSynced) {
  const testing::TempDir dir;
  uint64_t synced = 0;
  std::string manifest;
  {
    const auto store = Must(Store::Open({.path = dir.path()}));
    const auto database = store->impl().database();
    std::vector<std::string> files;
    ASSERT_TRUE((*database)->GetLiveFiles(files, &synced, false).ok());
    manifest = dir.path() + *std::find_if(files.begin(), files.end(), [](const auto& name) {
                 return name.starts_with("/MANIFEST");
               });
    // As while a compaction writes there; RocksDB itself goes on where it was.
    fs::resize_file(manifest, synced + (1 << 20));
    Transaction transaction = store->Begin();
    transaction.PutNote("a", "b");
    Must(store->Commit(std::move(transaction), Durability::kSync));
    Must(Compact(*store));
    ASSERT_TRUE((*database)->GetLiveFiles(files, &synced, false).ok());
  }
  fs::resize_file(manifest, synced);
  const auto store = Must(Store::Open({.path = dir.path()}));
  EXPECT_EQ(Must(store->GetNote("a")), "b");
}

TEST(StoreOpen, RefusesWhatIsNotAStore) {
  const testing::TempDir dir;
  EXPECT_EQ(CodeOf(Store::Open({.path = ""})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(Store::Open({.path = dir.path(), .create_if_missing = false})),
            ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(Store::OpenReadOnly({.path = dir.path()})), ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(dir.path()));
  std::ofstream(dir.path("file")) << "text";
  EXPECT_EQ(CodeOf(Store::Open({.path = dir.path("file")})), ErrorCode::kInvalidArgument);
  fs::create_directory(dir.path("photos"));
  std::ofstream(dir.path("photos/cat")) << "meow";
  const auto before = TreeOf(dir.path("photos"));
  const auto refused = Store::Open({.path = dir.path("photos")});
  EXPECT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Contains(refused.error(), "not a larder store"));
  EXPECT_EQ(TreeOf(dir.path("photos")), before);
}

TEST(StoreOpen, RefusesSomebodyElsesDatabaseAndLeavesItAlone) {
  const testing::TempDir dir;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, dir.path(), &raw).ok());
  ASSERT_TRUE(raw->Put({}, "theirs", "1").ok());
  delete raw;
  ::chmod(dir.path().c_str(), 0700);
  const auto before = TreeOf(dir.path());
  const auto refused = Store::Open({.path = dir.path()});
  EXPECT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Contains(refused.error(), "not a larder store")) << refused.error().message;
  EXPECT_EQ(TreeOf(dir.path()), before);
}

TEST(StoreOpen, FinishesAStoreThatWasOnlyHalfMade) {
  const testing::TempDir dir;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, dir.path(), &raw).ok());
  delete raw;
  ::chmod(dir.path().c_str(), 0700);
  const auto store = Must(Store::Open({.path = dir.path()}));
  (void)Must(store->OpenCollection(SpecOf("pods")));
}

TEST(StoreOpen, BeginsAnewWhereACreationWasCutOffBeforeItsFirstFile) {
  const testing::TempDir dir;
  fs::create_directory(dir.path());
  ::chmod(dir.path().c_str(), 0700);
  for (const char* name : {"owner.lock", "LOCK", "IDENTITY", "LOG.old.1700000000",
                           "MANIFEST-000001", "000001.dbtmp"}) {
    std::ofstream(dir.path() + "/" + name) << "cut off";
  }
  const auto store = Must(Store::Open({.path = dir.path()}));
  (void)Must(store->OpenCollection(SpecOf("pods")));
}

TEST(StoreOpen, RefusesAStoreThatLostItsCurrent) {
  const testing::TempDir dir;
  (void)Must(Must(Store::Open({.path = dir.path()}))->OpenCollection(SpecOf("pods")));
  fs::remove(dir.path() + "/CURRENT");
  EXPECT_EQ(CodeOf(Store::Open({.path = dir.path()})), ErrorCode::kCorruption);
}

// Changes the format row of a closed store, and adds a family when one is named.
void SetFormat(const std::string& path, const std::string& format, const std::string& family) {
  std::vector<std::string> names;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, path, &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open({}, path, families, &handles, &raw).ok());
  ASSERT_TRUE(raw->Put({}, handles[1], "format", format).ok());
  if (!family.empty()) {
    rocksdb::ColumnFamilyHandle* made = nullptr;
    ASSERT_TRUE(raw->CreateColumnFamily({}, family, &made).ok());
    handles.push_back(made);
  }
  for (auto* handle : handles) ASSERT_TRUE(raw->DestroyColumnFamilyHandle(handle).ok());
  delete raw;
}

TEST(StoreOpen, RefusesANewerFormatByName) {
  for (const char* family : {"", "graphs"}) {
    const testing::TempDir dir;
    (void)Must(Store::Open({.path = dir.path()}));
    SetFormat(dir.path(), "42", family);
    for (const auto& refused :
         {Store::Open({.path = dir.path()}), Store::OpenReadOnly({.path = dir.path()})}) {
      EXPECT_EQ(CodeOf(refused), ErrorCode::kUnsupported);
      EXPECT_TRUE(Contains(refused.error(), "format 42")) << refused.error().message;
      EXPECT_TRUE(Contains(refused.error(), "up to " + std::to_string(kFormat)))
          << refused.error().message;
      EXPECT_TRUE(Contains(refused.error(), "newer larder")) << refused.error().message;
    }
  }
}

TEST(StoreOpen, RefusesAnUnreadableFormat) {
  const testing::TempDir dir;
  (void)Must(Store::Open({.path = dir.path()}));
  SetFormat(dir.path(), "one", "");
  EXPECT_EQ(CodeOf(Store::Open({.path = dir.path()})), ErrorCode::kCorruption);
}

TEST(StoreOpen, ASecondOwnerIsToldThePidOfTheFirst) {
  const testing::TempDir dir;
  testing::Child owner("hold", dir.path());
  ASSERT_EQ(owner.ReadLine(), "open");
  const auto refused = Store::Open({.path = dir.path()});
  EXPECT_EQ(CodeOf(refused), ErrorCode::kLocked);
  EXPECT_TRUE(Contains(refused.error(), "pid " + std::to_string(owner.pid())))
      << refused.error().message;
  EXPECT_EQ(owner.Wait(), 0);
  (void)Must(Store::Open({.path = dir.path()}));
}

TEST(StoreOpen, AKilledOwnerLeavesNoLock) {
  const testing::TempDir dir;
  testing::Child owner("hold", dir.path());
  ASSERT_EQ(owner.ReadLine(), "open");
  owner.Kill();
  EXPECT_EQ(owner.Wait(), -SIGKILL);
  (void)Must(Store::Open({.path = dir.path()}));
}

// Asking who holds the lock must not give it up: closing any descriptor of a locked file would.
TEST(StoreOpen, OpeningTwiceInOneProcessIsRefusedAndKeepsTheLock) {
  const testing::TempDir dir;
  const auto store = Must(Store::Open({.path = dir.path()}));
  const auto again = Store::Open({.path = dir.path()});
  EXPECT_EQ(CodeOf(again), ErrorCode::kLocked);
  EXPECT_TRUE(Contains(again.error(), "this process")) << again.error().message;
  testing::Child other("hold", dir.path());
  EXPECT_EQ(other.ReadLine(), "") << "another process got in";
  EXPECT_EQ(other.Wait(), 1);
}

TEST(StoreOpen, ADirectoryNamedLockIsNoLockError) {
  const testing::TempDir dir;
  EXPECT_EQ(CodeOf(Store::Open({.path = "/proc/lock/store"})), ErrorCode::kIo);
}

}  // namespace
}  // namespace larder
