#include "storage/measure.h"

#include <rocksdb/perf_context.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "storage/counting_files.h"
#include "storage/directory.h"
#include "storage/keys.h"
#include "storage/records.h"
#include "storage/store_impl.h"
#include "storage/testing.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kSettlePoll{1};

uint64_t Property(const Database& database, size_t family, const std::string& name) {
  uint64_t value = 0;
  database.get()->GetIntProperty(database.family(static_cast<Family>(family)), name, &value);
  return value;
}

bool IsBusy(const Database& database) {
  using Names = rocksdb::DB::Properties;
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    for (const std::string* name : {&Names::kMemTableFlushPending, &Names::kNumRunningFlushes,
                                    &Names::kCompactionPending, &Names::kNumRunningCompactions}) {
      if (Property(database, i, *name) != 0) return true;
    }
  }
  return false;
}

// A flush that fails is tried again for ever, so one who only waits for it would never hear of it.
Result<void> CheckBackground(const Database& database, const std::string& path) {
  uint64_t failures = 0;  // of all families; RocksDB counts them at its default one
  database.get()->GetIntProperty(rocksdb::DB::Properties::kBackgroundErrors, &failures);
  if (failures == 0) return {};
  constexpr uintmax_t kNearlyNothing = uintmax_t{1} << 20;
  std::error_code error;
  const fs::space_info space = fs::space(path, error);
  if (!error && space.available < kNearlyNothing) {
    return MakeError(ErrorCode::kNoSpace, "the disk of {} is full ({} KiB left)", path,
                     space.available >> 10);
  }
  return MakeError(ErrorCode::kIo, "the store {} could not write its tables", path);
}

}  // namespace

struct MeasuredStore::Rep {
  FileCounts counts;
  std::unique_ptr<rocksdb::Env> env;
  EngineCounters reads;  // only read_blocks and read_bytes
  std::unique_ptr<Store> store;
};

MeasuredStore::MeasuredStore(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
MeasuredStore::~MeasuredStore() = default;

Result<std::unique_ptr<MeasuredStore>> MeasuredStore::Open(const StoreOptions& options) {
  auto rep = std::make_unique<Rep>();
  rep->env = MakeCountingEnv(&rep->counts);
  LARDER_ASSIGN_OR_RETURN(rep->store, OpenStoreOnEnv(options, rep->env.get()));
  return std::unique_ptr<MeasuredStore>(new MeasuredStore(std::move(rep)));
}

Store& MeasuredStore::store() const { return *rep_->store; }

Result<MeasuredStore::Outcome> MeasuredStore::Apply(const TraceStep& step) {
  Store::Impl& impl = rep_->store->impl();
  Outcome outcome;
  if (step.kind == TraceStep::Kind::kCommit) {
    Transaction::Rep rep(impl.families());
    rep.batch = rocksdb::WriteBatch(std::string(step.batch));
    LARDER_RETURN_IF_ERROR(impl.Commit(rep, step.sync ? Durability::kSync : Durability::kRelaxed));
    return outcome;
  }
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  const uint64_t blocks = rocksdb::get_perf_context()->block_read_count;
  const uint64_t bytes = rocksdb::get_perf_context()->block_read_byte;
  const auto visit = [&](std::string_view key, std::string_view value) {
    ++outcome.rows;
    outcome.bytes += key.size() + value.size();
    if (step.family == Family::kObjects) (void)DecodeValue(key, value, impl.decode_options());
    return outcome.rows < step.rows;
  };
  Result<void> read;
  if (step.kind == TraceStep::Kind::kScan) {
    read = impl.ScanRows(step.family, std::string(step.key), {}, visit, nullptr,
                         /*fill_cache=*/step.family == Family::kIndexes);
  } else if (const auto database = impl.database()) {
    rocksdb::PinnableSlice value;
    const rocksdb::Status status =
        (*database)->Get({}, database->family(step.family),
                         rocksdb::Slice(step.key.data(), step.key.size()), &value);
    if (status.ok()) {
      visit(step.key, {value.data(), value.size()});
    } else if (!status.IsNotFound()) {
      read = tl::unexpected(FromRocks(status, "reading a row"));
    }
  }
  rep_->reads.read_blocks += rocksdb::get_perf_context()->block_read_count - blocks;
  rep_->reads.read_bytes += rocksdb::get_perf_context()->block_read_byte - bytes;
  if (!read) return tl::unexpected(read.error());
  return outcome;
}

EngineCounters MeasuredStore::Counters() const {
  EngineCounters out = rep_->reads;
  out.log_bytes = rep_->counts.log_bytes;
  out.table_bytes = rep_->counts.table_bytes;
  out.other_bytes = rep_->counts.other_bytes;
  out.syncs = rep_->counts.syncs;
  out.tables_made = rep_->counts.tables;
  if (const auto database = rep_->store->impl().database()) {
    std::map<std::string, std::string> stats;
    if ((*database)->GetMapProperty(rocksdb::DB::Properties::kDBStats, &stats)) {
      out.stall_micros = std::strtoull(stats["db.user_write_stall_micros"].c_str(), nullptr, 10);
    }
  }
  return out;
}

EngineState MeasuredStore::State() const {
  EngineState state;
  const Store::Impl& impl = rep_->store->impl();
  const auto database = impl.database();
  if (!database) return state;
  using Names = rocksdb::DB::Properties;
  // Memtables and what the tables hold in memory are charged to our block cache; RocksDB as it
  // comes has one for each family, and these beside them.
  const bool apart = impl.options.engine.rocksdb_defaults;
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    if (apart) state.memory_bytes += Property(*database, i, Names::kEstimateTableReadersMem);
    if (i == 0 || apart) state.memory_bytes += Property(*database, i, Names::kBlockCacheUsage);
    if (apart) state.memory_bytes += Property(*database, i, Names::kSizeAllMemTables);
  }
  for (const auto& [resource, dictionary] : rep_->store->impl().dictionaries().All()) {
    state.memory_bytes += dictionary->MemoryBytes();
  }
  std::error_code error;
  for (const auto& entry : EntriesOf(impl.options.path, error)) {
    std::error_code gone;
    const uint64_t bytes = entry.is_regular_file(gone) ? entry.file_size(gone) : 0;
    if (gone) continue;
    state.disk_bytes += bytes;
    const std::string extension = entry.path().extension().string();
    if (extension == ".log") state.log_bytes += bytes;
    if (extension == ".sst" || extension == ".blob") {
      state.table_bytes += bytes;
      ++state.table_files;
    }
  }
  return state;
}

bool MeasuredStore::Busy() const {
  const auto database = rep_->store->impl().database();
  return database && IsBusy(*database);
}

Result<void> MeasuredStore::Settle(const std::stop_token& stop) {
  const auto database = rep_->store->impl().database();
  if (!database) return tl::unexpected(rep_->store->impl().Unavailable());
  // A compaction that ends may make the next one due a moment later: quiet means quiet twice.
  for (int quiet = 0; quiet < 2;) {
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "interrupted");
    LARDER_RETURN_IF_ERROR(rep_->store->Health());
    LARDER_RETURN_IF_ERROR(CheckBackground(*database, rep_->store->options().path));
    quiet = IsBusy(*database) ? 0 : quiet + 1;
    std::this_thread::sleep_for(kSettlePoll);
  }
  return {};
}

Result<void> ForEachStoredRow(
    const Store& store, Family family,
    const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  Store::Impl& impl = store.impl();
  const auto database = impl.database();
  if (!database) return tl::unexpected(impl.Unavailable());
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(
      (*database)->NewIterator(read, database->family(family)));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    if (!visit({it->key().data(), it->key().size()}, {it->value().data(), it->value().size()}))
      break;
  }
  if (it->status().ok()) return {};
  return tl::unexpected(
      FromRocks(it->status(), fmt::format("reading the store {}", store.options().path)));
}

void PutStoredRow(Transaction& transaction, Family family, std::string_view key,
                  std::string_view value) {
  transaction.rep().Put(family, key, value);
}
void DeleteStoredRow(Transaction& transaction, Family family, std::string_view key) {
  transaction.rep().Delete(family, key);
}
void DeleteStoredRange(Transaction& transaction, Family family, std::string_view begin,
                       std::string_view end) {
  transaction.rep().DeleteRange(family, begin, end);
}

std::optional<StoredObject> DescribeObjectRow(std::string_view key, std::string_view value) {
  const auto collection = keys::CollectionOf(key);
  auto parsed = keys::ParseObject(key);
  const auto head = DecodeHead(key, value, nullptr);
  if (!collection || !parsed || !head) return std::nullopt;
  return StoredObject{*collection, *std::move(parsed), head->json_bytes, head->encrypted};
}

bool IsDictionaryRow(std::string_view key) { return key.starts_with(records::kDictionaryPrefix); }
std::optional<CollectionId> CollectionOfRow(std::string_view key) {
  return keys::CollectionOf(key);
}

}  // namespace larder
