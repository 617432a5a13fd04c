#include "tests/crash/mutants.h"

#include <rocksdb/db.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "storage/notes.h"

namespace larder::crash {
namespace {

class OldClusterTransport final : public HttpTransport {
 public:
  OldClusterTransport(std::unique_ptr<HttpTransport> transport, std::string memory)
      : transport_(std::move(transport)), memory_(std::move(memory)) {}

  Result<Response> Do(const Request& request, const std::stop_token& stop) override {
    if (!request.path.ends_with("/namespaces/kube-system")) return transport_->Do(request, stop);
    Response response;
    response.status = 200;
    if (std::ifstream file(memory_); file) {
      response.body.assign(std::istreambuf_iterator<char>(file), {});
      return response;
    }
    LARDER_ASSIGN_OR_RETURN(response, transport_->Do(request, stop));
    std::ofstream(memory_) << response.body;
    return response;
  }
  Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                           const std::stop_token& stop) override {
    return transport_->Open(request, stop);
  }

 private:
  const std::unique_ptr<HttpTransport> transport_;
  const std::string memory_;
};

}  // namespace

void CommitCursorFirst(Store* store, CollectionId collection, const Object& changed) {
  auto cursor = store->GetCursor(collection);
  if (!cursor || cursor->state != SyncState::kSynced) return;
  cursor->resource_version = changed.resource_version();
  Transaction transaction = store->Begin();
  transaction.SetCursor(collection, *cursor);
  (void)store->Commit(std::move(transaction), Durability::kRelaxed);
}

void LeaveIndexKey(Store* store, CollectionId collection, const Object& changed) {
  const auto indexes = store->IndexRecords(collection);
  if (!indexes || indexes->empty()) return;
  Transaction transaction = store->Begin();
  transaction.PutIndexKey(collection, indexes->front().id, "left-behind", changed.key(),
                          changed.uid());
  (void)store->Commit(std::move(transaction), Durability::kRelaxed);
}

void SweepEarly(Store* store, CollectionId collection, const std::stop_token& stop) {
  constexpr size_t kSwept = 5;
  uint64_t swept_epoch = 0;
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const auto cursor = store->GetCursor(collection);
    if (!cursor || cursor->state != SyncState::kRelisting || cursor->epoch == swept_epoch) continue;
    swept_epoch = cursor->epoch;
    Transaction transaction = store->Begin();
    size_t count = 0;
    (void)store->ScanHeads(collection, {}, [&](const ObjectKey& key, const ObjectHead&) {
      transaction.DeleteObject(collection, key);
      return ++count < kSwept;
    });
    (void)store->Commit(std::move(transaction), Durability::kRelaxed);
  }
}

void ListAgain(Store* store, CollectionId collection) {
  auto cursor = store->GetCursor(collection);
  if (!cursor || cursor->state != SyncState::kSynced) return;
  cursor->state = SyncState::kRelisting;
  Transaction transaction = store->Begin();
  transaction.SetCursor(collection, *cursor);
  (void)store->Commit(std::move(transaction), Durability::kRelaxed);
}

void CommitRowFirst(Store* store, CollectionId collection, const Object& changed) {
  // Of a first list any row may be there.
  const auto cursor = store->GetCursor(collection);
  const auto encoded = store->Encode(collection, changed);
  if (!cursor || cursor->state != SyncState::kSynced || !encoded) return;
  Transaction transaction = store->Begin();
  transaction.PutObject(collection, *encoded);
  (void)store->Commit(std::move(transaction), Durability::kRelaxed);
}

void ForgetNames(Store* store, CollectionId collection, uint64_t seed,
                 const std::stop_token& stop) {
  if (!RealClock()->SleepFor(std::chrono::milliseconds(std::mt19937_64(seed)() % 200), stop))
    return;
  Transaction transaction = store->Begin();
  transaction.PutNote(DurableNamesNote(collection), "{}");
  (void)store->Commit(std::move(transaction), Durability::kRelaxed);
}

void RemoveDictionaries(const std::string& store_path) {
  std::vector<std::string> names;
  if (!rocksdb::DB::ListColumnFamilies({}, store_path, &names).ok()) return;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  if (!rocksdb::DB::Open({}, store_path, families, &handles, &raw).ok()) return;
  const std::unique_ptr<rocksdb::DB> db(raw);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    if (handle->GetName() == "meta") {
      (void)db->DeleteRange({}, handle, "dictionary/", "dictionary0");  // '0' comes after '/'
    }
    (void)db->DestroyColumnFamilyHandle(handle);
  }
}

void AbortWhenFull(Store* store, const std::stop_token& stop) {
  while (RealClock()->SleepFor(std::chrono::milliseconds(2), stop)) {
    Transaction transaction = store->Begin();
    transaction.PutNote("crash/mutant", "alive");
    if (!store->Commit(std::move(transaction), Durability::kSync)) std::abort();
  }
}

std::unique_ptr<HttpTransport> BelieveOldCluster(std::unique_ptr<HttpTransport> transport,
                                                 const std::string& store_path) {
  return std::make_unique<OldClusterTransport>(std::move(transport), store_path + ".cluster");
}

}  // namespace larder::crash
