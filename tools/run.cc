// `larder run`: keep resources of a cluster in a store, without writing a controller.
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/process.h"
#include "client/discovery.h"
#include "controller/health_server.h"
#include "informer/factory.h"
#include "reflector/reflector.h"
#include "storage/maintenance.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/server_access.h"
#include "tools/store_access.h"

namespace larder::tools {
namespace {

struct RunArguments {
  StoreArguments store;
  ServerArguments server;
  std::vector<std::string> resources;
  std::vector<std::string> namespaces;
  std::string labels;
  std::string fields;
  std::vector<std::string> indexes;
  bool metadata_only = false;
  std::string listen;
  size_t memory_limit = size_t{256} << 20;
  std::string options_file;
  bool until_synced = false;
};

constexpr std::chrono::seconds kEvery{1};
constexpr std::chrono::milliseconds kQuiet{500};

// "pods:node=spec.nodeName" or "pods:label=app".
struct IndexRequest {
  std::string resource;
  IndexDefinition definition;
};

Result<IndexRequest> ParseIndex(const std::string& text) {
  const size_t colon = text.find(':'), equals = text.find('=');
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--index {}: spell it RESOURCE:NAME=PATH or RESOURCE:label=LABEL", text);
  }
  const std::string name = text.substr(colon + 1, equals - colon - 1);
  const std::string value = text.substr(equals + 1);
  if (name == "label") return IndexRequest{text.substr(0, colon), IndexDefinition::ByLabel(value)};
  LARDER_ASSIGN_OR_RETURN(IndexDefinition definition, IndexDefinition::ByField(name, value));
  return IndexRequest{text.substr(0, colon), std::move(definition)};
}

// What the terminal or the log shows, once a second.
class StatusLine {
 public:
  explicit StatusLine(const SharedInformerFactory& factory)
      : factory_(factory), width_(TerminalWidth(STDERR_FILENO)) {}
  ~StatusLine() {
    if (width_ > 0) std::fprintf(stderr, "\r\033[K");
  }

  // True when everything is synced, and what resumed has caught up.
  bool Show() {
    std::string line;
    uint64_t changes = 0, heard = 0;
    bool all = true, resumed = false;
    for (const FactoryInformerStatus& entry : factory_.Status()) {
      const CollectionSyncStats& sync = entry.status.sync;
      changes += sync.added + sync.updated + sync.deleted;
      all = all && entry.status.synced;
      resumed = resumed || entry.status.reflector.lists == 0;
      heard += entry.status.reflector.objects;
      line += fmt::format("{}{} {} {}", line.empty() ? "" : " | ", entry.collection,
                          HumanCount(sync.objects),
                          entry.status.synced ? "synced" : ToString(entry.status.reflector.state));
    }
    if (width_ > 0) {
      line += fmt::format(" | {}/s", HumanCount(changes - changes_));
      line.resize(std::min(line.size(), static_cast<size_t>(width_ - 1)));
      std::fprintf(stderr, "\r\033[K%s", line.c_str());
      std::fflush(stderr);
    } else if (all != synced_ || first_) {
      std::fprintf(stderr, "%s\n", line.c_str());
    }
    first_ = false;
    synced_ = all;
    changes_ = changes;
    // A watch that resumes tells first what happened meanwhile, without a pause. That this is over
    // shows in nothing but its silence.
    const Clock::Steady now = RealClock()->Now();
    if (heard != heard_) heard_at_ = now;
    heard_ = heard;
    return all && (!resumed || now - heard_at_ >= kQuiet);
  }

 private:
  const SharedInformerFactory& factory_;
  const int width_;
  bool first_ = true;
  bool synced_ = false;
  uint64_t changes_ = 0;
  uint64_t heard_ = 0;
  Clock::Steady heard_at_ = RealClock()->Now();
};

Result<void> AddInformers(SharedInformerFactory& factory, const RunArguments& arguments,
                          HttpTransport& transport, const std::stop_token& stop) {
  std::vector<IndexRequest> indexes;
  for (const std::string& text : arguments.indexes) {
    LARDER_ASSIGN_OR_RETURN(IndexRequest index, ParseIndex(text));
    indexes.push_back(std::move(index));
  }
  Discovery discovery(transport);
  std::vector<std::pair<std::string, Resource>> resources;
  for (const std::string& name : arguments.resources) {
    LARDER_ASSIGN_OR_RETURN(Resource resource, discovery.Resolve(name, stop));
    resources.emplace_back(name, std::move(resource));
  }
  for (const auto& [name, resource] : resources) {
    InformerOptions options;
    options.resource = resource;
    options.label_selector = arguments.labels;
    options.field_selector = arguments.fields;
    options.metadata_only = arguments.metadata_only;
    for (const IndexRequest& index : indexes) {
      LARDER_ASSIGN_OR_RETURN(const Resource of, discovery.Resolve(index.resource, stop));
      if (of == resource) options.indexes.push_back(index.definition);
    }
    const std::vector<std::string> namespaces =
        resource.namespaced ? arguments.namespaces : std::vector<std::string>{};
    LARDER_RETURN_IF_ERROR(factory.ForNamespaces(options, namespaces));
  }
  return {};
}

void AddChecks(HealthServer& health, Store& store, const SharedInformerFactory& factory) {
  health.AddHealthCheck("ping", []() -> Result<void> { return {}; });
  health.AddReadyCheck("store", [&store] { return store.Health(); });
  health.AddReadyCheck("sync", [&factory]() -> Result<void> {
    for (const FactoryInformerStatus& entry : factory.Status()) {
      if (entry.status.synced) continue;
      return MakeError(ErrorCode::kNotReady, "{}: {}", entry.collection, entry.missing);
    }
    return {};
  });
}

// What is only in the log is read again by whoever opens the store next: let the flush that a first
// list causes end, where the process would not live on for it.
void LetFlushEnd(const Store& store, const std::stop_token& stop) {
  constexpr uint64_t kLittle = uint64_t{1} << 20;
  for (int i = 0; i < 200; ++i) {
    const auto stats = GetStats(store, {.count_objects = false});
    if (!stats || stats->log_bytes < kLittle) return;
    if (!RealClock()->SleepFor(std::chrono::milliseconds(25), stop)) return;
  }
}

Result<int> Run(const RunArguments& arguments, const std::stop_token& stop) {
  PrepareProcess();
  LARDER_ASSIGN_OR_RETURN(const auto transport, Connect(arguments.server));
  LARDER_ASSIGN_OR_RETURN(const std::string cluster, FetchClusterUid(*transport, stop));
  StoreOptions options = arguments.store.Options();
  options.create_if_missing = true;
  options.memory_limit = arguments.memory_limit;
  options.collection_ttl = StoreOptions().collection_ttl;
  if (!arguments.options_file.empty()) {
    LARDER_ASSIGN_OR_RETURN(options.engine, EngineOptions::Load(arguments.options_file));
  }
  auto opened = Store::Open(options);
  if (!opened) return tl::unexpected(ExplainStoreError(opened.error(), arguments.store, "running"));
  const std::unique_ptr<Store> store = *std::move(opened);
  HotTier hot({.max_bytes = DivideMemory(arguments.memory_limit).hot_tier});
  prometheus::Registry registry;
  SharedInformerFactory factory({store.get(), &hot, transport.get(), cluster, &registry});
  LARDER_RETURN_IF_ERROR(AddInformers(factory, arguments, *transport, stop));
  HealthServer health(&registry);
  AddChecks(health, *store, factory);
  if (!arguments.listen.empty()) {
    LARDER_RETURN_IF_ERROR(health.Start({.address = arguments.listen}));
    Stdout().Print("http://{}:{}/metrics\n",
                   arguments.listen.front() == ':'
                       ? "localhost"
                       : arguments.listen.substr(0, arguments.listen.rfind(':')),
                   health.port());
    Stdout().Flush();
  }
  factory.Start();
  {
    StatusLine status(factory);
    do {
      if (status.Show() && arguments.until_synced) break;
    } while (RealClock()->SleepFor(arguments.until_synced ? std::chrono::milliseconds(50) : kEvery,
                                   stop));
  }
  health.Stop();
  factory.Shutdown();
  LARDER_RETURN_IF_ERROR(store->Sync());
  if (arguments.until_synced) LetFlushEnd(*store, stop);
  std::fprintf(stderr, "stopped; the store is at %s\n", arguments.store.path.c_str());
  return kOk;
}

}  // namespace

void AddRun(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command =
      app.add_subcommand("run", "Keep resources of a cluster in a store, until it is stopped");
  command->add_option("resource", arguments->resources, "pods deploy widgets.example.com ...")
      ->required();
  AddStoreOptions(command, arguments->store);
  AddServerOptions(command, arguments->server);
  command->add_option("-n,--namespace", arguments->namespaces, "Only these namespaces")
      ->delimiter(',');
  command->add_option("-l,--selector", arguments->labels, "Only objects with these labels");
  command->add_option("--field-selector", arguments->fields, "Only objects with these fields");
  command->add_option("--index", arguments->indexes,
                      "pods:node=spec.nodeName or pods:label=app; may be repeated");
  command->add_flag("--metadata-only", arguments->metadata_only, "Leave the rest on the server");
  command->add_option("--listen", arguments->listen,
                      "HOST:PORT for /metrics, /healthz and /readyz; port 0: any free one");
  command->add_option("--memory-limit", arguments->memory_limit, "For all that is kept in memory")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command
      ->add_option(
          "--options", arguments->options_file,
          "How RocksDB keeps the store, as `larder tune` writes it; default: what was applied "
          "to the store")
      ->type_name("FILE");
  command->add_flag("--until-synced", arguments->until_synced,
                    "End as soon as everything is stored, what happened since the last run too");
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments, context.stop)); });
}

}  // namespace larder::tools
