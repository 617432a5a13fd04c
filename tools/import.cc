// `larder import`: what `larder export` wrote, into a store.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/text.h"
#include "base/wall_time.h"
#include "indexer/indexer.h"
#include "informer/durable_names.h"
#include "schema/json_span.h"
#include "schema/parse_json.h"
#include "storage/notes.h"
#include "tools/command.h"
#include "tools/export_file.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store_access.h"

namespace larder::tools {
namespace {

struct ImportArguments {
  StoreArguments store;
  std::string file = "-";
};

constexpr size_t kImportBatch = 500;

class Import {
 public:
  Import(Store* store, ExportReader* reader) : store_(store), reader_(reader) {}

  // `line` is the first one.
  Result<void> Run(std::optional<std::string> line) {
    while (line) {
      ++line_number_;
      LARDER_RETURN_IF_ERROR(Take(*line));
      LARDER_ASSIGN_OR_RETURN(line, reader_->Line());
    }
    if (indexer_) {
      LARDER_RETURN_IF_ERROR(Commit());
      std::fprintf(stderr, "larder: the file ends in the middle of %s: it will be listed anew\n",
                   info_.spec.ToString().c_str());
    }
    return store_->Sync();
  }
  uint64_t objects() const { return total_; }
  size_t collections() const { return collections_; }

 private:
  Result<void> Take(const std::string& line) {
    // Objects begin otherwise, and need not be parsed twice.
    if (line.compare(0, 9, "{\"larder.") != 0) return TakeObject(line);
    const std::optional<Json> json = ParseJson(line);
    if (!json) return Bad("no JSON");
    if (json->contains(kCollectionLine)) return Begin((*json)[kCollectionLine]);
    if (json->contains(kEndLine)) return End((*json)[kEndLine]);
    return Bad("an unknown line");
  }

  tl::unexpected<Error> Bad(std::string_view what) const {
    return MakeError(ErrorCode::kInvalidArgument, "line {}: {}", line_number_, what);
  }

  Result<void> Begin(const Json& json) {
    if (indexer_) return Bad("a collection begins before the one before it ended");
    LARDER_ASSIGN_OR_RETURN(info_, CollectionFromJson(json));
    LARDER_ASSIGN_OR_RETURN(indexer_,
                            Indexer::Open(store_, nullptr, info_.spec, {}, info_.encrypted));
    objects_ = bytes_ = 0;
    seen_.clear();
    ++collections_;
    // From here until its end it is neither what it was nor what it is to be: who starts on it
    // lists. And handlers with durable names, which hear nothing of this, are to be told
    // everything.
    DurableNames names(store_, indexer_->collection().id);
    LARDER_RETURN_IF_ERROR(names.Load());
    for (const std::string& name : names.All()) LARDER_RETURN_IF_ERROR(names.Forget(name));
    Cursor begun;
    begun.epoch = indexer_->collection().cursor.epoch + 1;  // a list, to who follows the store
    info_.cursor.epoch = begun.epoch;
    writer_ = indexer_->BeginWrite();
    writer_->SetCursor(begun);
    return Commit();
  }

  Result<void> TakeObject(const std::string& line) {
    if (!indexer_) return Bad("an object before its collection");
    if (!IsOneJsonContainer(Trimmed(line), kMaxParsedDepth)) {
      return Bad("not one JSON object, or nested too deeply");
    }
    auto object = Object::Parse(line, {info_.spec.resource.ApiVersion(), info_.spec.resource.kind});
    if (!object) return Bad(object.error().message);
    LARDER_ASSIGN_OR_RETURN(const auto prepared, indexer_->Prepare(**object));
    if (!writer_) writer_ = indexer_->BeginWrite();
    LARDER_RETURN_IF_ERROR(writer_->Upsert(*object, prepared, Indexer::Writer::Expect::kAny));
    seen_.insert(prepared.encoded.key.ToString());
    ++objects_;
    bytes_ += (*object)->json().size();
    progress_.Update(++total_);
    return ++in_batch_ < kImportBatch ? Result<void>() : Commit();
  }

  Result<void> End(const Json& count) {
    if (!indexer_) return Bad("an end without a collection");
    if (!count.is_number() || count.get<uint64_t>() != objects_) {
      return Bad(
          fmt::format("the collection should have {} objects, but has {}", count.dump(), objects_));
    }
    LARDER_RETURN_IF_ERROR(Sweep());
    if (!writer_) writer_ = indexer_->BeginWrite();
    // Complete only now: a half import must not look like a whole one.
    Cursor cursor = info_.cursor;
    cursor.updated_ms = WallMs(*RealClock());
    writer_->SetCursor(cursor);
    writer_->transaction().PutNote(SizeNote(indexer_->collection().id),
                                   fmt::format("{} {}", objects_, bytes_));
    LARDER_RETURN_IF_ERROR(Commit());
    indexer_.reset();
    return {};
  }

  // What was there before and is not in the file.
  Result<void> Sweep() {
    LARDER_RETURN_IF_ERROR(Commit());
    std::vector<ObjectKey> gone;
    LARDER_RETURN_IF_ERROR(store_->ScanHeads(indexer_->collection().id, {},
                                             [&](const ObjectKey& key, const ObjectHead&) {
                                               if (seen_.count(key.ToString()) == 0)
                                                 gone.push_back(key);
                                               return true;
                                             }));
    for (const ObjectKey& key : gone) {
      if (!writer_) writer_ = indexer_->BeginWrite();
      LARDER_RETURN_IF_ERROR(writer_->Delete(key, {}, {}));
      if (++in_batch_ == kImportBatch) LARDER_RETURN_IF_ERROR(Commit());
    }
    return {};
  }

  Result<void> Commit() {
    in_batch_ = 0;
    if (!writer_) return {};
    auto done = writer_->Commit(Durability::kRelaxed);
    writer_.reset();
    return done;
  }

  Store* const store_;
  ExportReader* const reader_;
  Progress progress_{"importing", 0};
  CollectionInfo info_;
  std::unique_ptr<Indexer> indexer_;
  std::unique_ptr<Indexer::Writer> writer_;
  std::unordered_set<std::string> seen_;  // keys of this collection
  uint64_t line_number_ = 0, objects_ = 0, bytes_ = 0, total_ = 0;
  size_t in_batch_ = 0, collections_ = 0;
};

Result<int> Run(const ImportArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto reader, ExportReader::Open(arguments.file));
  // Before the store is made: what is no export leaves none behind.
  LARDER_ASSIGN_OR_RETURN(const auto first, reader->Line());
  if (!first || first->rfind(fmt::format("{{\"{}\":", kCollectionLine), 0) != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is not what larder export wrote: that begins with a line {{\"{}\": ...}}; "
                     "objects of a cluster come into a store by larder run",
                     arguments.file == "-" ? "the input" : arguments.file, kCollectionLine);
  }
  StoreOptions options = arguments.store.Options();
  options.create_if_missing = true;
  auto store = Store::Open(options);
  if (!store) return tl::unexpected(ExplainStoreError(store.error(), arguments.store, "importing"));
  Import import(store->get(), reader.get());
  LARDER_RETURN_IF_ERROR(import.Run(first));
  std::fprintf(stderr, "imported %s of %s\n", Plural(import.objects(), "object").c_str(),
               Plural(import.collections(), "collection").c_str());
  return kOk;
}

}  // namespace

void AddImport(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand(
      "import", "Put exported objects into a store; needs the store to itself, and makes it");
  AddStoreOptions(command, arguments->store);
  command->add_option("-f,--file", arguments->file, "Where from")
      ->type_name("FILE")
      ->capture_default_str();
  command->callback([arguments, &context] { context.exit_code = ExitCode(Run(*arguments)); });
}

}  // namespace larder::tools
