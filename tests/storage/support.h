// What tests of the store share: a directory that goes away, and objects to put into it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "schema/object.h"
#include "storage/store.h"

namespace larder::testing {

// A directory that is removed at the end. path() itself does not exist yet.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& root() const { return root_; }
  std::string path(std::string_view name = "store") const {
    return root_ + "/" + std::string(name);
  }

 private:
  std::string root_;
};

// Two keys of a cipher, as a key file has them: "old key old key … !" and "new key … !".
inline constexpr char kOldKey[] = "b2xkIGtleSBvbGQga2V5IG9sZCBrZXkgb2xkIGtleSE=";
inline constexpr char kNewKey[] = "bmV3IGtleSBuZXcga2V5IG5ldyBrZXkgbmV3IGtleSE=";

// The value, or a failed test and an end: for what must work before the test begins.
template <typename T>
T Must(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().ToString();
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// The code of a failed result; a success fails the test.
template <typename T>
ErrorCode CodeOf(const Result<T>& result) {
  EXPECT_FALSE(result.has_value()) << "expected an error";
  return result ? ErrorCode::kInternal : result.error().code;
}

CollectionSpec SpecOf(std::string_view resource, std::string ns = {});

// A pod of about 8 KB, as a kubelet leaves it: managedFields, probes, status. A function of its
// arguments and of nothing else.
std::string PodJson(uint64_t index, uint64_t version = 1, std::string_view phase = "Running");
ObjectPtr Pod(uint64_t index, uint64_t version = 1, std::string_view phase = "Running");
ObjectKey PodKey(uint64_t index);
// A small one with just these fields.
ObjectPtr SmallObject(std::string_view ns, std::string_view name, uint64_t version,
                      std::string_view extra = R"("data":{"a":"b"})", std::string_view uid = "u");

// Documents that are awkward in every way that a server allows: custom resources with sorted keys,
// unicode, escapes, huge integers, nulls, empty maps, repeated keys, white space.
std::vector<std::string> AwkwardDocuments();
// A random document with a usable name.
std::string RandomDocument(std::mt19937_64& random);

// The seed of a random test: LARDER_SEED, or a new one; printed, so that a failure can be repeated.
uint64_t Seed();

// Puts objects into a collection, in one transaction.
void PutAll(Store& store, CollectionId collection, const std::vector<ObjectPtr>& objects);

// The name of a store's largest table.
std::string LargestTable(const std::string& store_path);

// Flips bits of a byte in every table of a family ("objects", "queues", ...), of a store that
// nobody has open. How many tables that were.
size_t DamageTables(const std::string& store_path, std::string_view family, size_t offset);

}  // namespace larder::testing
