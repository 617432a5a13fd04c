// A new store from what is sound in a damaged one.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "storage/directory.h"
#include "storage/keys.h"
#include "storage/maintenance.h"
#include "storage/notes.h"
#include "storage/records.h"
#include "storage/replace.h"
#include "storage/store_impl.h"
#include "storage/wreck.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

class Salvage {
 public:
  Salvage(Wreck& wreck, Store& target, RepairReport& report)
      : wreck_(wreck),
        target_(target),
        impl_(target.impl()),
        report_(report),
        trusted_(wreck.is_prefix()) {}

  Result<void> Run() {
    LARDER_RETURN_IF_ERROR(CopyMeta());
    LARDER_RETURN_IF_ERROR(impl_.Reload());
    LARDER_RETURN_IF_ERROR(CopyObjects());
    LARDER_RETURN_IF_ERROR(CopyQueues());
    LARDER_RETURN_IF_ERROR(CopyDeltas());
    MarkDamaged();
    ForgetWhoKnows();
    LARDER_RETURN_IF_ERROR(PutAbout());
    return target_.Sync();
  }

 private:
  static constexpr size_t kBatchBytes = size_t{1} << 20;

  void Put(Family family, std::string_view key, std::string_view value) {
    rep_.Put(family, key, value);
    if (rep_.batch.GetDataSize() >= kBatchBytes && outcome_) outcome_ = Flush();
  }
  Result<void> Flush() {
    auto outcome = impl_.Commit(rep_, Durability::kRelaxed);
    rep_.batch.Clear();
    return outcome;
  }
  Result<void> Finish() {
    if (outcome_) outcome_ = Flush();
    return std::move(outcome_);
  }

  // Visits all that can be read of a family; was there more?
  bool HasGaps(Family family,
               const std::function<void(std::string_view, std::string_view)>& visit) {
    const size_t gaps = wreck_.Scan(family, visit);
    report_.gaps += gaps;
    return gaps != 0;
  }

  bool IsSoundMeta(std::string_view key, std::string_view value) {
    const auto has = [&](std::string_view prefix) {
      return key.substr(0, prefix.size()) == prefix;
    };
    if (has(records::kCollectionPrefix)) {
      const auto info = records::DecodeCollection(value);
      if (!info || key != records::CollectionKey(info->id)) return false;
      collections_[info->id] = info->spec.ToString();
      next_id_ = std::max(next_id_, info->id + 1);
      return true;
    }
    if (has(records::kCursorPrefix)) return records::DecodeCursor(value).has_value();
    if (has(records::kDictionaryPrefix)) {
      const auto name = records::ParseDictionaryKey(key);
      return name && Dictionary::Parse(name->id, value);
    }
    return has(records::kNotePrefix);
  }

  // Indexes are not copied: their records are left out, so that whoever declares them builds them
  // anew. Fingerprints are written again from the collections.
  Result<void> CopyMeta() {
    work_may_be_lost_ |= HasGaps(Family::kMeta, [&](std::string_view key, std::string_view value) {
      if (key == kFormatKey ||
          key.substr(0, records::kIndexPrefix.size()) == records::kIndexPrefix ||
          key.substr(0, records::kFingerprintPrefix.size()) == records::kFingerprintPrefix) {
        return;
      }
      if (key == records::kNextIdKey) {
        CollectionId id = 0;
        std::from_chars(value.data(), value.data() + value.size(), id);
        next_id_ = std::max(next_id_, id);
        return;
      }
      if (!IsSoundMeta(key, value)) {
        ++report_.other_rows_lost;
        return;
      }
      ++report_.other_rows_kept;
      if (IsAbout(key)) {
        about_[std::string(key)] = value;
        return;
      }
      Put(Family::kMeta, key, value);
      if (const auto info = records::DecodeCollection(value);
          info && key == records::CollectionKey(info->id)) {
        Put(Family::kMeta, records::FingerprintKey(info->spec.Fingerprint()),
            std::to_string(info->id));
      }
    });
    Put(Family::kMeta, records::kNextIdKey, std::to_string(next_id_));
    return Finish();
  }

  Result<void> CopyObjects() {
    const DecodeOptions decode = impl_.decode_options();
    const bool gaps = HasGaps(Family::kObjects, [&](std::string_view key, std::string_view value) {
      const auto collection = keys::CollectionOf(key);
      const auto object = DecodeValue(key, value, decode);
      // Without its key an encrypted row cannot be read, but its checksum can be checked.
      const bool sealed = !object && object.error().code == ErrorCode::kForbidden;
      if (!collection || collections_.count(*collection) == 0 || (!object && !sealed)) {
        ++report_.objects_lost;
        if (collection) damaged_.insert(*collection);
        return;
      }
      ++report_.objects_kept;
      Put(Family::kObjects, key, value);
    });
    // Nobody knows whose rows were in a block that is gone.
    if (gaps) {
      for (const auto& [id, text] : collections_) damaged_.insert(id);
    }
    return Finish();
  }

  Result<void> CopyQueues() {
    work_may_be_lost_ |=
        HasGaps(Family::kQueues, [&](std::string_view key, std::string_view value) {
          if (!keys::ParseQueueItem(key)) {
            ++report_.other_rows_lost;
            return;
          }
          if (!records::DecodeQueue(value)) {
            // When and how often is lost, but not what: the item is due at once.
            ++report_.other_rows_lost;
            Put(Family::kQueues, key, records::EncodeQueue(NewQueueRecord()));
            return;
          }
          ++report_.other_rows_kept;
          Put(Family::kQueues, key, value);
        });
    return Finish();
  }

  QueueRecord NewQueueRecord() const {
    QueueRecord record;
    record.added_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          impl_.options.clock->WallNow().time_since_epoch())
                          .count();
    return record;
  }

  Result<void> CopyDeltas() {
    work_may_be_lost_ |=
        HasGaps(Family::kDeltas, [&](std::string_view key, std::string_view value) {
          const auto collection = keys::CollectionOf(key);
          if (!keys::ParseDelta(key) || !collection || collections_.count(*collection) == 0) {
            ++report_.other_rows_lost;
            return;
          }
          ++report_.other_rows_kept;
          Put(Family::kDeltas, key, value);
        });
    return Finish();
  }

  // Cursors and notes say what is there of other rows.
  static bool IsAbout(std::string_view key) {
    return key.substr(0, records::kCursorPrefix.size()) == records::kCursorPrefix ||
           key.substr(0, records::kNotePrefix.size()) == records::kNotePrefix;
  }

  // An incomplete collection is listed again at its next start; a missing or damaged cursor means
  // the same by itself.
  void MarkDamaged() {
    for (const auto& [id, text] : collections_) {
      const auto row = about_.find(records::CursorKey(id));
      const auto cursor = row == about_.end() ? Cursor() : *records::DecodeCursor(row->second);
      if (cursor.Complete() && trusted_ && damaged_.count(id) == 0) continue;
      Cursor partial;
      partial.epoch = cursor.epoch;
      partial.state = SyncState::kListing;
      about_[records::CursorKey(id)] = records::EncodeCursor(partial);
      report_.relist.push_back(text);
    }
  }

  // A change whose row or queue item is lost would never be told: where that may be, every durable
  // name is told everything once more. Rows that wait for an object which is lost go with them.
  void ForgetWhoKnows() {
    const bool all = !trusted_ || work_may_be_lost_ || report_.other_rows_lost != 0;
    for (const auto& [id, text] : collections_) {
      if (!all && damaged_.count(id) == 0) continue;
      for (const std::string& note : {DurableNamesNote(id), SizeNote(id)}) {
        about_.erase(records::NoteKey(note));
      }
    }
  }

  // In the last commit, so that whatever happens to the log of the new store, a cursor never stands
  // without its objects, nor a durable name without what waits for it.
  Result<void> PutAbout() {
    for (const auto& [key, value] : about_) rep_.Put(Family::kMeta, key, value);
    return Finish();
  }

  Wreck& wreck_;
  Store& target_;
  Store::Impl& impl_;
  RepairReport& report_;
  const bool trusted_;  // what was committed up to some point, but for single rows and blocks
  bool work_may_be_lost_ = false;  // of what is not objects, a part cannot be read
  Transaction::Rep rep_{impl_.families()};
  Result<void> outcome_;
  std::map<CollectionId, std::string> collections_;
  std::set<CollectionId> damaged_;
  std::map<std::string, std::string> about_;  // cursors and notes
  CollectionId next_id_ = 1;
};

constexpr const char* kWhat = "repair";
constexpr std::string_view kDamaged = "damaged-";

// Makes the new store in `incoming`. What it needs on the way is within, and goes with it where we
// do not get to the end.
Result<void> MakeRepaired(const StoreOptions& options, const std::string& incoming,
                          RepairReport& report) {
  StoreOptions target = options;
  target.path = incoming;
  target.disk_limit = 0;
  target.collection_ttl = std::chrono::seconds(0);  // what to drop is not for a repair to say
  LARDER_ASSIGN_OR_RETURN(const auto store, Store::Open(target));
  const std::string scratch = incoming + "/salvage";
  Result<std::unique_ptr<Wreck>> wreck = Wreck::Open(options.path);
  if (!wreck) {
    spdlog::warn("{}; making a new manifest from the tables", wreck.error().message);
    wreck = Wreck::OpenWithoutManifest(options.path, scratch);
  }
  if (!wreck) return tl::unexpected(wreck.error());
  LARDER_RETURN_IF_ERROR((*wreck)->CheckFormat(options.path));
  LARDER_RETURN_IF_ERROR(Salvage(**wreck, *store, report).Run());
  wreck->reset();
  std::error_code error;
  fs::remove_all(scratch, error);
  if (!error) return {};
  return MakeError(ErrorCode::kIo, "cannot remove {}: {}", scratch, error.message());
}

// Where the repair that was cut off put the old files.
std::string LastDamaged(const std::string& path) {
  std::string last;
  std::error_code error;
  for (const auto& entry : EntriesOf(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kDamaged)) last = std::max(last, entry.path().string());
  }
  return last;
}

}  // namespace

Result<RepairReport> Repair(const StoreOptions& options) {
  if (!FileExists(options.path)) {
    return MakeError(ErrorCode::kNotFound, "there is no store at {}", options.path);
  }
  RepairReport report;
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(options.clock->WallNow().time_since_epoch());
  report.damaged_files = fmt::format("{}/{}{}", options.path, kDamaged, now.count());
  LARDER_ASSIGN_OR_RETURN(const bool finished,
                          FinishReplacing(options, kWhat, report.damaged_files));
  if (finished) {
    report.damaged_files = LastDamaged(options.path);
    return report;
  }
  LARDER_RETURN_IF_ERROR(ReplaceStore(
      options, kWhat,
      [&](const std::string& incoming) { return MakeRepaired(options, incoming, report); },
      report.damaged_files));
  return report;
}

}  // namespace larder
