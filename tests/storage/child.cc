// What tests of the store run in a process of its own: one that is killed, one that holds the lock,
// one whose disk is full.
//
//   storage_child write DIR      commits 1, 2, 3, ... and prints each number once it is committed
//   storage_child hold DIR       opens the store, prints "open", waits for the end of its input
//   storage_child keys DIR       opens DIR/store with DIR/keys and prints its limits on core dumps,
//                                and whether the kernel may make one
//   storage_child keep DIR WHERE the same of DIR/store without a key, once it keeps Secrets in
//                                memory: in the store's keeper, or itself a store in memory
//   storage_child take DIR N     opens the store N times, each time as soon as it can, and counts
//                                up what DIR/../counter says while it is the owner
//   storage_child fork DIR       holds it and forks; once DIR/../next is there, the fork says
//                                whether a commit of its own was refused
//   storage_child open DIR PLAN  opens the store on a disk that follows the plan of tests/crash
//   storage_child full DIR       fills a small file system of its own; exits 77 where it may not
//                                mount
#include <fmt/format.h>
#include <rocksdb/env.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "storage/store.h"
#include "storage/testing.h"
#include "tests/crash/faulty_disk.h"

namespace larder {
namespace {

constexpr int kNotPermitted = 77;

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "storage_child: " << what << std::endl;
  std::_Exit(1);
}

template <typename T>
T Must(Result<T> result) {
  if (!result) Fail(result.error().ToString());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

ObjectPtr Numbered(uint64_t number, size_t bytes) {
  // Digits that do not compress, so that disks fill.
  std::string data;
  uint64_t state = number * 2 + 1;
  while (data.size() < bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    data += fmt::format("{:016x}", state);
  }
  return Must(Object::Parse(fmt::format(
      R"({{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"c-{}","namespace":"n","uid":"u-{}","resourceVersion":"{}"}},"data":{{"x":"{}"}}}})",
      number % 500, number, number, data)));
}

CollectionInfo OpenCollection(Store& store) {
  CollectionSpec spec;
  spec.cluster_uid = "c";
  spec.resource = Must(LookupResource("configmaps"));
  return Must(store.OpenCollection(spec));
}

Result<void> CommitNumber(Store& store, const CollectionInfo& collection, uint64_t number,
                          size_t bytes, Durability durability) {
  const ObjectPtr object = Numbered(number, bytes);
  Transaction transaction = store.Begin();
  transaction.PutObject(collection.id, Must(store.Encode(collection.id, *object)));
  transaction.PutIndexKey(collection.id, 1, "v", object->key(), object->uid());
  transaction.PutQueueItem("q", object->key().ToString(), number, {});
  transaction.PutNote("last", std::to_string(number));
  transaction.SetCursor(collection.id, {std::to_string(number), SyncState::kSynced, 1, 0});
  return store.Commit(std::move(transaction), durability);
}

int Write(const std::string& path) {
  const auto store = Must(Store::Open({.path = path}));
  const CollectionInfo collection = OpenCollection(*store);
  uint64_t number = 0;
  if (!collection.cursor.resource_version.empty()) {
    number = std::stoull(collection.cursor.resource_version);
  }
  for (;;) {
    ++number;
    Must(CommitNumber(*store, collection, number, 200, Durability::kRelaxed));
    std::cout << number << std::endl;
  }
}

int Hold(const std::string& path) {
  const auto store = Must(Store::Open({.path = path}));
  std::cout << "open" << std::endl;
  while (std::cin.get() != EOF) continue;
  return 0;
}

int PrintCoreLimits() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) Fail("getrlimit");
  std::cout << limit.rlim_cur << " " << limit.rlim_max << " " << ::prctl(PR_GET_DUMPABLE)
            << std::endl;
  return 0;
}

int HoldKeys(const std::string& path) {
  const auto store =
      Must(Store::Open({.path = path + "/store", .encryption_key_file = path + "/keys"}));
  return PrintCoreLimits();
}

int Keep(const std::string& path, const std::string& where) {
  spdlog::set_level(spdlog::level::off);  // its lines would stand between ours
  const auto store = Must(Store::Open({.path = path + "/store", .in_memory = where != "keeper"}));
  CollectionSpec spec;
  spec.cluster_uid = "c";
  spec.resource = Must(LookupResource("secrets"));
  (void)Must(Must(store->KeeperOf(spec.resource))->OpenCollection(spec));
  return PrintCoreLimits();
}

void WriteText(const char* path, const std::string& text) { std::ofstream(path) << text; }

int OpenOnFaultyDisk(const std::string& path, const std::string& plan) {
  const auto parsed = crash::DiskPlan::Parse(plan);
  if (!parsed) Fail("no plan: " + plan);
  const auto env = rocksdb::NewCompositeEnv(
      std::make_shared<crash::FaultyDisk>(crash::FaultyDiskOptions{.plan = *parsed}));
  const auto store = Must(OpenStoreOnEnv({.path = path}, env.get()));
  return 0;
}

int Fork(const std::string& path) {
  const auto store = Must(Store::Open({.path = path}));
  if (::fork() != 0) {
    std::cout << "open" << std::endl;
    while (std::cin.get() != EOF) continue;
    return 0;
  }
  for (int i = 0; i < 3000 && ::access((path + "/../next").c_str(), F_OK) != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Transaction transaction = store->Begin();
  transaction.PutNote("last", "a fork's");
  const bool committed = store->Commit(std::move(transaction), Durability::kSync).has_value();
  std::cout << (committed ? "wrote" : "refused") << std::endl;
  std::_Exit(0);
}

// Whoever owns the store may read, think and write. With two owners a count is lost, or the other's
// name is in the file.
int Take(const std::string& path, int times) {
  const std::string counter = path + "/../counter";
  const std::string owner = path + "/../owner";
  for (int taken = 0; taken < times;) {
    const auto store = Store::Open({.path = path});
    if (!store) {
      if (store.error().code != ErrorCode::kLocked) Fail(store.error().ToString());
      std::this_thread::yield();
      continue;
    }
    const std::string me = fmt::format("{}-{}", ::getpid(), taken);
    WriteText(owner.c_str(), me);
    uint64_t count = 0;
    std::ifstream(counter) >> count;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    WriteText(counter.c_str(), std::to_string(count + 1));
    std::string found;
    std::ifstream(owner) >> found;
    if (found != me) Fail("a second owner: " + found);
    ++taken;
  }
  return 0;
}

// A file system of 16 MiB that only this process and its children see.
bool MountSmallDisk(const std::string& path) {
  const uid_t uid = ::getuid();
  const gid_t gid = ::getgid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    WriteText("/proc/self/setgroups", "deny");
    WriteText("/proc/self/uid_map", fmt::format("{0} {0} 1", uid));
    WriteText("/proc/self/gid_map", fmt::format("{0} {0} 1", gid));
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("larder", path.c_str(), "tmpfs", 0, "size=16m") == 0;
}

// Commits until the disk is full; returns the last number that was committed.
uint64_t FillUp(Store& store, const CollectionInfo& collection, uint64_t number) {
  for (;; ++number) {
    const auto outcome = CommitNumber(store, collection, number, 20'000, Durability::kSync);
    if (outcome) continue;
    if (outcome.error().code != ErrorCode::kNoSpace)
      Fail("not kNoSpace: " + outcome.error().ToString());
    return number - 1;
  }
}

int Full(const std::string& path) {
  if (!MountSmallDisk(path)) return kNotPermitted;
  const std::string ballast = path + "/ballast";
  const auto store = Must(Store::Open({.path = path + "/store", .memory_limit = 4 << 20}));
  const CollectionInfo collection = OpenCollection(*store);
  uint64_t last = 0;
  for (int round = 0; round < 2; ++round) {
    WriteText(ballast.c_str(), std::string(6 << 20, 'x'));
    last = FillUp(*store, collection, last + 1);
    if (last == 0) Fail("nothing could be committed");
    if (store->Health()) Fail("a full disk is not healthy");
    // Reads go on.
    const Cursor cursor = Must(store->GetCursor(collection.id));
    if (cursor.resource_version != std::to_string(last)) {
      Fail(fmt::format("the cursor is {} after {}", cursor.resource_version, last));
    }
    (void)Must(store->Get(collection.id, Numbered(last, 16)->key()));
    // Room again, and it goes on by itself, without a restart.
    ::unlink(ballast.c_str());
    bool recovered = false;
    for (int i = 0; i < 200 && !recovered; ++i) {
      recovered = CommitNumber(*store, collection, last + 1, 100, Durability::kSync).has_value();
      if (!recovered) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (!recovered) Fail("writes do not come back: " + store->Health().error().ToString());
    ++last;
    if (!store->Health()) Fail("healthy again, but says no");
  }
  return 0;
}

}  // namespace
}  // namespace larder

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string mode = argv[1];
  if (mode == "write") return larder::Write(argv[2]);
  if (mode == "hold") return larder::Hold(argv[2]);
  if (mode == "keys") return larder::HoldKeys(argv[2]);
  if (mode == "keep" && argc == 4) return larder::Keep(argv[2], argv[3]);
  if (mode == "fork") return larder::Fork(argv[2]);
  if (mode == "open" && argc == 4) return larder::OpenOnFaultyDisk(argv[2], argv[3]);
  if (mode == "take" && argc == 4) return larder::Take(argv[2], std::stoi(argv[3]));
  if (mode == "full") return larder::Full(argv[2]);
  return 2;
}
