#include "tuning/prepare.h"

#include <filesystem>

#include "storage/measure.h"

namespace larder::tuning {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRowsBatchBytes = size_t{64} << 10;

Result<std::unique_ptr<Store>> OpenEncoder(const std::string& path, const Encoding& encoding) {
  StoreOptions options;
  options.path = path;
  options.compression = encoding.compress;
  options.value_compression_level = encoding.level;
  options.dictionary_bytes = encoding.dictionary_bytes;
  options.collection_ttl = std::chrono::seconds(0);
  return Store::Open(options);
}

Result<void> Interrupted(const std::stop_token& stop) {
  if (!stop.stop_requested()) return {};
  return MakeError(ErrorCode::kCancelled, "interrupted");
}

// Everything in the encoder's store, as commits that make it anew.
Result<void> DumpBase(const Store& store, Prepared& prepared) {
  LARDER_ASSIGN_OR_RETURN(const auto writer, TraceWriter::Create(prepared.base_path));
  Transaction transaction = store.Begin();
  Result<void> outcome;
  const auto flush = [&] {
    outcome = writer->AddCommit(0, transaction, false);
    transaction = store.Begin();
    return outcome.has_value();
  };
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    const auto family = static_cast<Family>(i);
    LARDER_RETURN_IF_ERROR(
        ForEachStoredRow(store, family, [&](std::string_view key, std::string_view value) {
          ++prepared.base_rows;
          prepared.base_bytes += key.size() + value.size();
          PutStoredRow(transaction, family, key, value);
          return transaction.ByteSize() < kRowsBatchBytes || flush();
        }));
    LARDER_RETURN_IF_ERROR(outcome);
  }
  if (!transaction.Empty() && !flush()) return outcome;
  return writer->Finish({});
}

Result<void> WriteSteps(WorkSource& source, Store& store, const PrepareOptions& options,
                        Prepared& prepared) {
  LARDER_ASSIGN_OR_RETURN(const auto writer, TraceWriter::Create(prepared.steps_path));
  std::chrono::nanoseconds cpu{0};
  for (;;) {
    LARDER_RETURN_IF_ERROR(Interrupted(options.stop));
    Step step(store);
    LARDER_ASSIGN_OR_RETURN(const bool more, source.Next(step));
    if (!more) break;
    cpu += step.encode_cpu;
    prepared.objects += step.objects;
    if (step.kind == TraceStep::Kind::kCommit) {
      prepared.committed_bytes += step.transaction.ByteSize();
      LARDER_RETURN_IF_ERROR(writer->AddCommit(step.micros, step.transaction, step.sync));
    } else {
      TraceStep raw;
      raw.kind = step.kind;
      raw.micros = step.micros;
      raw.family = step.family;
      raw.key = step.key;
      raw.rows = step.rows;
      LARDER_RETURN_IF_ERROR(writer->AddStep(raw));
    }
    if (++prepared.steps % 1024 == 0) {
      // A dictionary that is due is trained here and not beside us: the same objects get the same
      // dictionary in every run.
      store.WaitForDictionaries();
      if (options.progress) options.progress(prepared.steps, source.Steps());
    }
  }
  prepared.encode_micros = static_cast<double>(cpu.count()) / 1000 /
                           static_cast<double>(std::max<uint64_t>(1, prepared.objects));
  return writer->Finish({});
}

}  // namespace

Encoding Encoding::Of(const EngineOptions& engine) {
  const StoreOptions defaults;
  Encoding out;
  // RocksDB as it comes compresses blocks, not values.
  out.compress =
      engine.LarderFlag("value_compression", defaults.compression && !engine.rocksdb_defaults);
  if (!out.compress) return {false, 0, 0};
  out.level = static_cast<int>(engine.LarderNumber(
      "value_compression_level", static_cast<uint64_t>(defaults.value_compression_level)));
  out.dictionary_bytes = engine.LarderNumber("dictionary_bytes", defaults.dictionary_bytes);
  return out;
}

std::string Encoding::Name() const {
  if (!compress) return "plain";
  return fmt::format("zstd{}-dict{}k", level, dictionary_bytes >> 10);
}

Result<Prepared> Prepare(WorkSource& source, const Encoding& encoding,
                         const PrepareOptions& options) {
  const std::string stem = options.folder + "/" + encoding.Name();
  const std::string encoder = stem + ".store";
  std::error_code error;
  fs::remove_all(encoder, error);
  Prepared prepared;
  prepared.base_path = stem + ".base";
  prepared.steps_path = stem + ".steps";
  prepared.burst = source.Burst();
  {
    LARDER_ASSIGN_OR_RETURN(const auto store, OpenEncoder(encoder, encoding));
    LARDER_RETURN_IF_ERROR(source.Prepare(*store));
  }
  LARDER_ASSIGN_OR_RETURN(auto store, OpenEncoder(encoder, encoding));
  const auto commit = [&](Step& step) -> Result<void> {
    LARDER_RETURN_IF_ERROR(Interrupted(options.stop));
    LARDER_RETURN_IF_ERROR(store->Commit(std::move(step.transaction), Durability::kRelaxed));
    store->WaitForDictionaries();
    return {};
  };
  LARDER_RETURN_IF_ERROR(source.Base(*store, commit));
  LARDER_RETURN_IF_ERROR(WriteSteps(source, *store, options, prepared));
  // Last, so that it has every dictionary that the steps name.
  LARDER_RETURN_IF_ERROR(DumpBase(*store, prepared));
  store.reset();
  fs::remove_all(encoder, error);
  return prepared;
}

}  // namespace larder::tuning
