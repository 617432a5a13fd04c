// Compaction by hand: rewrites everything once.
#include <flatbuffers/flatbuffers.h>

#include <random>
#include <set>

#include "schema/delta_generated.h"
#include "storage/keys.h"
#include "storage/maintenance.h"
#include "storage/store_impl.h"
#include "storage/value_codec.h"

namespace larder {
namespace {

// Fewer objects than this do not pay for a dictionary.
constexpr size_t kWorthADictionary = 100;
constexpr size_t kDictionarySampleKeys = 1000;

class Compactor {
 public:
  Compactor(Store& store, const CompactOptions& options)
      : store_(store), impl_(store.impl()), options_(options) {}

  Result<CompactReport> Run() {
    if (!impl_.writable()) {
      return MakeError(ErrorCode::kUnsupported, "store {} is open for reading only",
                       impl_.options.path);
    }
    CompactReport report;
    report.bytes_before = impl_.DiskBytes();
    LARDER_RETURN_IF_ERROR(TrainMissing());
    LARDER_RETURN_IF_ERROR(CompactObjects());
    // Then their family is compacted, so that nothing is left of them on the disk.
    LARDER_ASSIGN_OR_RETURN(report.dropped_dictionaries, DropDictionaries());
    for (const Family family :
         {Family::kIndexes, Family::kQueues, Family::kDeltas, Family::kMeta}) {
      LARDER_RETURN_IF_ERROR(CompactRange(family, {}, {}));
      Tell(std::string(kFamilyNames[static_cast<size_t>(family)]), 1);
    }
    LARDER_ASSIGN_OR_RETURN(report.old_keys_needed, FindOldKeys());
    report.bytes_after = impl_.DiskBytes();
    return report;
  }

 private:
  void Tell(const std::string& what, double done) const {
    if (options_.progress) options_.progress(what, done);
  }

  // A resource whose objects came too few at a time to be trained on has stored enough by now.
  Result<void> TrainMissing() {
    std::map<DictionaryBook::Page*, std::vector<std::pair<CollectionId, ObjectKey>>> samples;
    LARDER_ASSIGN_OR_RETURN(const auto collections, store_.Collections());
    std::minstd_rand random;
    for (const CollectionInfo& info : collections) {
      const auto known = impl_.FindCollection(info.id);
      if (!known || !known->page || impl_.dictionaries().Current(*known->page)) continue;
      auto& sample = samples[known->page];
      size_t seen = 0;
      LARDER_RETURN_IF_ERROR(
          store_.ScanHeads(info.id, {}, [&](const ObjectKey& key, const ObjectHead&) {
            ++seen;
            if (sample.size() < kDictionarySampleKeys) {
              sample.emplace_back(info.id, key);
            } else if (const size_t place = random() % seen; place < kDictionarySampleKeys) {
              sample[place] = {info.id, key};
            }
            return true;
          }));
    }
    for (auto& [page, sample] : samples) {
      if (sample.size() >= kWorthADictionary) {
        impl_.dictionaries().TrainFrom(*page, std::move(sample));
      }
    }
    return {};
  }

  // Collection by collection, so that there is something to tell and a place to stop.
  Result<void> CompactObjects() {
    LARDER_ASSIGN_OR_RETURN(const auto collections, store_.Collections());
    for (size_t i = 0; i < collections.size(); ++i) {
      const std::string prefix = keys::CollectionPrefix(collections[i].id);
      LARDER_RETURN_IF_ERROR(CompactRange(Family::kObjects, prefix, keys::PrefixEnd(prefix)));
      Tell(collections[i].spec.ToString(),
           static_cast<double>(i + 1) / static_cast<double>(collections.size()));
    }
    return {};
  }

  // An empty range is everything.
  Result<void> CompactRange(Family family, const std::string& begin, const std::string& end) {
    if (options_.stop.stop_requested()) {
      return MakeError(ErrorCode::kCancelled, "compaction was stopped");
    }
    const auto database = impl_.database();
    if (!database) return tl::unexpected(impl_.Unavailable());
    rocksdb::CompactRangeOptions how;
    how.exclusive_manual_compaction = false;
    how.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    const rocksdb::Slice from(begin), to(end);
    const rocksdb::Status status =
        (*database)->CompactRange(how, database->family(family), begin.empty() ? nullptr : &from,
                                  end.empty() ? nullptr : &to);
    if (!status.ok()) {
      return tl::unexpected(
          FromRocks(status, fmt::format("compacting the store {}", impl_.options.path)));
    }
    return {};
  }

  Result<std::vector<DictionaryId>> DropDictionaries() {
    MutexLock drop(impl_.drop_mutex);
    const std::vector<DictionaryId> retired = impl_.dictionaries().Retire();
    if (retired.empty()) return std::vector<DictionaryId>();
    impl_.BeginDrop(retired);
    std::set<DictionaryId> in_use;
    LARDER_ASSIGN_OR_RETURN(const auto collections, store_.Collections());
    for (const CollectionInfo& info : collections) {
      const std::string prefix = keys::CollectionPrefix(info.id);
      LARDER_RETURN_IF_ERROR(impl_.ScanRows(
          Family::kObjects, prefix, {},
          [&](std::string_view, std::string_view value) {
            in_use.insert(DictionaryOf(value));
            return true;
          },
          nullptr, /*fill_cache=*/false));
      // A change that waits for a handler holds an object: as long as one waits, the resource keeps
      // all its dictionaries.
      LARDER_RETURN_IF_ERROR(impl_.ScanRows(
          Family::kDeltas, prefix, {},
          [&](std::string_view, std::string_view) {
            for (const auto& [resource, dictionary] : impl_.dictionaries().All()) {
              if (resource == info.spec.resource.ToString()) in_use.insert(dictionary->id());
            }
            return false;
          },
          nullptr, /*fill_cache=*/false));
    }
    return impl_.EndDrop(in_use);
  }

  // A change that waits for a handler holds an object as it was stored then.
  Result<std::vector<std::string>> FindOldKeys() {
    std::vector<std::string> out;
    if (!impl_.cipher()) return out;
    LARDER_ASSIGN_OR_RETURN(const auto collections, store_.Collections());
    for (const CollectionInfo& info : collections) {
      const auto known = impl_.FindCollection(info.id);
      if (!known || !known->encrypted) continue;
      LARDER_RETURN_IF_ERROR(impl_.ScanRows(
          Family::kDeltas, keys::CollectionPrefix(info.id), {},
          [&](std::string_view key, std::string_view value) {
            if (HasNewestKey(info.id, key, std::string(value))) return true;
            out.push_back(info.spec.ToString());
            return false;
          },
          nullptr, /*fill_cache=*/false));
    }
    return out;
  }

  // Is all that a waiting change holds encrypted with the newest key? Of a row that is no such
  // change nobody knows.
  bool HasNewestKey(CollectionId collection, std::string_view row_key,
                    const std::string& row) const {
    const auto key = keys::ParseDelta(row_key);
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(row.data()), row.size());
    if (!key || !fbs::VerifyPendingDeltaBuffer(verifier)) return false;
    const fbs::PendingDelta* const delta = fbs::GetPendingDelta(row.data());
    for (const auto* state : {delta->known(), delta->first()}) {
      if (!state) continue;
      const auto head =
          DecodeHead(keys::Object(collection, *key),
                     {reinterpret_cast<const char*>(state->data()), state->size()}, impl_.cipher());
      if (!head || !head->encrypted || !head->current_key) return false;
    }
    return true;
  }

  Store& store_;
  Store::Impl& impl_;
  const CompactOptions& options_;
};

}  // namespace

Result<CompactReport> Compact(Store& store, const CompactOptions& options) {
  return Compactor(store, options).Run();
}

}  // namespace larder
