// `larder export`: a store's objects as JSON lines.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tools/catalog.h"
#include "tools/command.h"
#include "tools/export_file.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store_access.h"

namespace larder::tools {
namespace {

struct ExportArguments {
  StoreArguments store;
  std::string resources;
  std::string file = "-";
  bool compress = false;
};

Result<std::vector<CollectionInfo>> Chosen(Store& store, const std::string& resources) {
  if (resources.empty()) return store.Collections();
  LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(store));
  LARDER_ASSIGN_OR_RETURN(const auto found, catalog.Resolve(resources));
  std::vector<CollectionInfo> out;
  for (const StoredResource& resource : found) {
    out.insert(out.end(), resource.collections.begin(), resource.collections.end());
  }
  return out;
}

// A file in the clear of what is encrypted at rest should surprise nobody.
void SayWhatIsDecrypted(const Store& store, const std::vector<CollectionInfo>& collections) {
  const auto& listed = store.options().encrypted_resources;
  std::set<std::string> decrypted;
  for (const CollectionInfo& info : collections) {
    const std::string resource = info.spec.resource.ToString();
    if (info.encrypted || std::find(listed.begin(), listed.end(), resource) != listed.end()) {
      decrypted.insert(resource);
    }
  }
  for (const std::string& resource : decrypted) {
    std::fprintf(stderr, "larder: %s are written decrypted: guard the file as you do the key\n",
                 resource.c_str());
  }
}

void SayWhatIsBeingListed(const std::vector<CollectionInfo>& collections) {
  for (const CollectionInfo& info : collections) {
    if (info.cursor.state == SyncState::kSynced) continue;
    std::fprintf(stderr,
                 "larder: %s: not listed to the end: what is written of it is not of one moment\n",
                 info.spec.ToString().c_str());
  }
}

Result<int> Run(const ExportArguments& arguments, const StopOnSignal& signals) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const auto collections, Chosen(*store, arguments.resources));
  const bool compress =
      arguments.compress ||
      (arguments.file.size() > 4 && arguments.file.substr(arguments.file.size() - 4) == ".zst");
  if (!arguments.store.key_file.empty()) SayWhatIsDecrypted(*store, collections);
  SayWhatIsBeingListed(collections);
  const std::stop_token stop = signals;  // a part of a file is removed
  LARDER_ASSIGN_OR_RETURN(const auto writer, ExportWriter::Open(arguments.file, compress));
  Progress progress("exporting", 0);
  uint64_t total = 0;
  for (const CollectionInfo& info : collections) {
    LARDER_RETURN_IF_ERROR(writer->Line(Json{{kCollectionLine, CollectionToJson(info)}}.dump()));
    uint64_t objects = 0;
    Result<void> written;
    LARDER_RETURN_IF_ERROR(store->Scan(info.id, {}, {}, [&](const ObjectPtr& object) {
      written = writer->Line(OneLine(object->json()));
      ++objects;
      progress.Update(++total);
      return written.has_value() && !writer->closed() && !stop.stop_requested();
    }));
    if (!written) return tl::unexpected(written.error());
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
    if (writer->closed()) return kOk;
    LARDER_RETURN_IF_ERROR(writer->Line(Json{{kEndLine, objects}}.dump()));
  }
  LARDER_RETURN_IF_ERROR(writer->Finish());
  progress.Finish();
  std::fprintf(stderr, "exported %s of %s\n", Plural(total, "object").c_str(),
               Plural(collections.size(), "collection").c_str());
  return kOk;
}

}  // namespace

void AddExport(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export", "Write a store's objects as JSON lines");
  command->add_option("resource", arguments->resources, "Only these: pods,deploy");
  AddStoreOptions(command, arguments->store);
  command->add_option("-f,--file", arguments->file, "Where to; a name in .zst is compressed")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_flag("--zstd", arguments->compress, "Compress");
  command->callback([arguments, &context] {
    context.exit_code = ExitCode(Run(*arguments, context.stop), arguments->store);
  });
}

}  // namespace larder::tools
