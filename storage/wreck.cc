#include "storage/wreck.h"

#include <rocksdb/convenience.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "storage/directory.h"
#include "storage/manifest_guard.h"
#include "storage/store_impl.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

rocksdb::DBOptions StrictOptions() {
  rocksdb::DBOptions options;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  return options;
}

rocksdb::DBOptions ForgivingOptions() {
  rocksdb::DBOptions options;
  options.paranoid_checks = false;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  return options;
}

rocksdb::ReadOptions ReadOnce() {
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  return read;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families() {
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}};
  for (const std::string_view name : kFamilyNames) {
    families.emplace_back(std::string(name), rocksdb::ColumnFamilyOptions());
  }
  return families;
}

// A recovery that met a damaged record left out what stands behind it in the log, and gave the same
// sequence numbers to the commits that followed, in the next log. Who skips the damaged record
// finds both, of which the later log's count: over two rows of one key and number a build with
// assertions aborts. Looks through all logs first, when nothing is taken from them.
class LatestCommits final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "larder.LatestCommits"; }
  void HasLookedThrough() { looked_through_ = true; }

  WalProcessingOption LogRecordFound(unsigned long long log, const std::string& /*path*/,
                                     const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch* /*changed*/,
                                     bool* /*is_changed*/) override {
    const uint64_t sequence = SequenceOf(batch);
    if (!looked_through_) {
      uint64_t& first = first_.try_emplace(log, sequence).first->second;
      first = std::min(first, sequence);
      return WalProcessingOption::kIgnoreCurrentRecord;
    }
    const bool replaced =
        std::any_of(first_.upper_bound(log), first_.end(),
                    [&](const auto& later) { return sequence + batch.Count() > later.second; });
    return replaced ? WalProcessingOption::kIgnoreCurrentRecord
                    : WalProcessingOption::kContinueProcessing;
  }

 private:
  // Its first eight bytes, the lowest first.
  static uint64_t SequenceOf(const rocksdb::WriteBatch& batch) {
    uint64_t sequence = 0;
    for (size_t i = 8; i-- > 0;) {
      sequence = sequence << 8 | static_cast<unsigned char>(batch.Data()[i]);
    }
    return sequence;
  }

  bool looked_through_ = false;
  std::map<uint64_t, uint64_t> first_;  // the lowest sequence number of each log
};

// RocksDB reads tables and logs and moves them away, but changes none: a link will do. There are
// file systems without.
Result<void> LinkRows(const std::string& from, const std::string& to) {
  std::error_code error;
  for (const auto& entry : EntriesOf(from, error)) {
    const fs::path& file = entry.path();
    if (file.extension() != ".sst" && file.extension() != ".log") continue;
    const fs::path target = fs::path(to) / file.filename();
    fs::create_hard_link(file, target, error);
    if (error) fs::copy_file(file, target, error);
    if (error) break;
  }
  if (!error) return {};
  return MakeError(error == std::errc::no_space_on_device ? ErrorCode::kNoSpace : ErrorCode::kIo,
                   "repairing {}: {}", from, error.message());
}

// Puts `it` on a row behind `key` that can be read, as near as can be told without knowing the keys
// in between: the last letter one further, then the one before it, and so on. False: there is none.
bool SeekBehindDamage(rocksdb::Iterator& it, std::string key) {
  for (; !key.empty(); key.pop_back()) {
    if (static_cast<unsigned char>(key.back()) == 0xff) continue;
    ++key.back();
    it.Seek(key);
    if (it.Valid()) return true;
    --key.back();
  }
  return false;
}

// The keys of one table, in order, those in damaged blocks left out.
class TableKeys {
 public:
  explicit TableKeys(const rocksdb::LiveFileMetaData& file)
      : reader_(rocksdb::Options()), key_(file.smallestkey) {
    if (!reader_.Open(file.db_path + file.name).ok()) {
      ++gaps_;
      return;
    }
    it_.reset(reader_.NewIterator(ReadOnce()));
    it_->SeekToFirst();
    Settle();
  }

  // REQUIRES for the next two: Valid().
  const std::string& key() const { return key_; }
  void Next() {
    it_->Next();
    Settle();
  }
  bool Valid() const { return it_ && it_->Valid(); }
  // How often reading broke off.
  size_t gaps() const { return gaps_; }

 private:
  void Settle() {
    if (!it_->Valid() && !it_->status().ok()) {
      ++gaps_;
      if (!SeekBehindDamage(*it_, key_)) it_.reset();
    }
    if (Valid()) key_ = it_->key().ToString();
  }

  rocksdb::SstFileReader reader_;
  std::unique_ptr<rocksdb::Iterator> it_;
  std::string key_;  // the last that was read; before that, the first that the table has
  size_t gaps_ = 0;
};

}  // namespace

Result<std::unique_ptr<Wreck>> Wreck::Open(const std::string& path) {
  LARDER_RETURN_IF_ERROR(ManifestGuard::Check(rocksdb::Env::Default(), path));
  std::unique_ptr<Wreck> wreck(new Wreck());
  wreck->is_prefix_ = wreck->TryOpen(path, StrictOptions()).ok();
  if (!wreck->is_prefix_) {
    LatestCommits commits;  // RocksDB asks it while it opens, and not later
    rocksdb::DBOptions options = ForgivingOptions();
    options.wal_filter = &commits;
    (void)Wreck().TryOpen(path, options);
    commits.HasLookedThrough();
    const rocksdb::Status status = wreck->TryOpen(path, options);
    if (!status.ok()) return tl::unexpected(FromRocks(status, "repairing " + path));
  }
  if (wreck->handles_.size() == 1 && HasRows(path)) {
    return MakeError(ErrorCode::kCorruption, "the manifest of {} names no family of a store", path);
  }
  return wreck;
}

Result<std::unique_ptr<Wreck>> Wreck::OpenWithoutManifest(const std::string& path,
                                                          const std::string& scratch) {
  LARDER_RETURN_IF_ERROR(MakePrivateDirectory(scratch));
  LARDER_RETURN_IF_ERROR(LinkRows(path, scratch));
  rocksdb::Status status = rocksdb::RepairDB(scratch, ForgivingOptions(), Families());
  std::unique_ptr<Wreck> wreck(new Wreck());
  wreck->manifest_is_new_ = true;
  if (status.ok()) status = wreck->TryOpen(scratch, ForgivingOptions());
  if (!status.ok()) return tl::unexpected(FromRocks(status, "repairing " + path));
  return wreck;
}

Wreck::~Wreck() {
  for (auto* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
}

Result<void> Wreck::CheckFormat(const std::string& path) const {
  std::string text;
  (void)db_->Get({}, Handle(Family::kMeta), {kFormatKey.data(), kFormatKey.size()}, &text);
  int format = 0;
  std::from_chars(text.data(), text.data() + text.size(), format);
  if (format > kFormat) return NewerFormat(path, text);
  return {};
}

rocksdb::Status Wreck::TryOpen(const std::string& path, const rocksdb::DBOptions& options) {
  std::vector<std::string> names;
  rocksdb::Status status = rocksdb::DB::ListColumnFamilies(options, path, &names);
  if (!status.ok()) return status;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  families.reserve(names.size());
  for (const std::string& name : names) {
    families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  }
  rocksdb::DB* db = nullptr;
  status = rocksdb::DB::OpenForReadOnly(options, path, families, &handles_, &db);
  if (status.ok()) db_.reset(db);
  return status;
}

rocksdb::ColumnFamilyHandle* Wreck::Handle(Family family) const {
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    if (handle->GetName() == kFamilyNames[static_cast<size_t>(family)]) return handle;
  }
  return handles_.front();  // a family that was never made: the default one is empty
}

size_t Wreck::Scan(Family family, const Visit& visit) const {
  return manifest_is_new_ ? ScanTables(family, visit) : ScanAll(family, visit);
}

size_t Wreck::ScanAll(Family family, const Visit& visit) const {
  std::string last;  // the key that was read last, or where reading goes on
  size_t gaps = 0;
  for (;;) {
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(ReadOnce(), Handle(family)));
    for (it->Seek(last); it->Valid(); it->Next()) {
      last = it->key().ToString() + '\0';
      visit(ToView(it->key()), ToView(it->value()));
    }
    if (it->status().ok()) return gaps;
    ++gaps;
    last = SeekBehindDamage(*it, last) ? it->key().ToString() : NextTable(family, last);
    if (last.empty()) return gaps;
  }
}

// Where the manifest was made anew, tables that a compaction had replaced count, too. Then a row
// may stand twice under the sequence number zero, which to an iterator over all tables is
// impossible: a build with assertions aborts. So each table says which keys it has, and a look-up
// what is there.
size_t Wreck::ScanTables(Family family, const Visit& visit) const {
  std::vector<std::unique_ptr<TableKeys>> tables;
  for (const rocksdb::LiveFileMetaData& file : Tables(family)) {
    tables.push_back(std::make_unique<TableKeys>(file));
  }
  size_t gaps = 0;
  for (;;) {
    const std::string* least = nullptr;
    for (const auto& table : tables) {
      if (table->Valid() && (least == nullptr || table->key() < *least)) least = &table->key();
    }
    if (least == nullptr) break;
    const std::string key = *least;
    std::string value;
    const rocksdb::Status status = db_->Get(ReadOnce(), Handle(family), key, &value);
    if (status.ok()) visit(key, value);
    if (!status.ok() && !status.IsNotFound()) ++gaps;
    for (const auto& table : tables) {
      if (table->Valid() && table->key() == key) table->Next();
    }
  }
  for (const auto& table : tables) gaps += table->gaps();
  return gaps;
}

std::vector<rocksdb::LiveFileMetaData> Wreck::Tables(Family family) const {
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  std::erase_if(files, [&](const rocksdb::LiveFileMetaData& file) {
    return file.column_family_name != kFamilyNames[static_cast<size_t>(family)];
  });
  return files;
}

// The smallest first key of a table that begins behind `key`; empty: there is none.
std::string Wreck::NextTable(Family family, const std::string& key) const {
  std::string next;
  for (const rocksdb::LiveFileMetaData& file : Tables(family)) {
    if (file.smallestkey > key && (next.empty() || file.smallestkey < next)) {
      next = file.smallestkey;
    }
  }
  return next;
}

}  // namespace larder
