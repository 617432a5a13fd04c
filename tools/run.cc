// `larder run`: keep resources of a cluster in a store, without writing a controller.
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "base/process.h"
#include "client/api_client.h"
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

constexpr size_t kLeastMemory = size_t{16} << 20;
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
  // `until`: the version by its fingerprint that a collection has caught up with when it has passed
  // it.
  StatusLine(const SharedInformerFactory& factory, std::map<std::string, std::string> until)
      : factory_(factory), until_(std::move(until)), width_(TerminalWidth(STDERR_FILENO)) {}
  ~StatusLine() {
    if (width_ > 0) std::fprintf(stderr, "\r\033[K");
  }

  // True when everything is synced, and what resumed has caught up.
  bool Show() {
    std::string line;
    uint64_t changes = 0, heard = 0;
    bool all = true, caught_up = true;
    const std::vector<FactoryInformerStatus> statuses = factory_.Status();
    for (const FactoryInformerStatus& entry : statuses) {
      const CollectionSyncStats& sync = entry.status.sync;
      changes += sync.added + sync.updated + sync.deleted;
      all = all && entry.status.synced;
      caught_up = caught_up && (entry.status.reflector.lists > 0 || Passed(entry));
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
    SayWhy(statuses);
    first_ = false;
    synced_ = all;
    changes_ = changes;
    // A watch that resumes tells first what happened meanwhile, without a pause. That this is over
    // shows in a version that was the server's after the start; where nothing happens any more,
    // only in its silence.
    const Clock::Steady now = RealClock()->Now();
    if (heard != heard_) heard_at_ = now;
    heard_ = heard;
    return all && (caught_up || now - heard_at_ >= kQuiet);
  }

 private:
  bool Passed(const FactoryInformerStatus& entry) const {
    const auto found = until_.find(entry.fingerprint);
    return found != until_.end() &&
           CompareResourceVersions(entry.status.cursor.resource_version, found->second)
                   .value_or(-1) >= 0;
  }

  // What keeps a collection from being synced, once for each reason.
  void SayWhy(const std::vector<FactoryInformerStatus>& statuses) {
    for (const FactoryInformerStatus& entry : statuses) {
      if (entry.status.synced || !entry.status.reflector.error) continue;
      std::string why = entry.status.reflector.error->ToString();
      std::string& said = said_[entry.fingerprint];
      if (why == said) continue;
      std::fprintf(stderr, "%s%s: %s; trying again\n", width_ > 0 ? "\r\033[K" : "",
                   entry.collection.c_str(), Printable(why).c_str());
      said = std::move(why);
    }
  }

  const SharedInformerFactory& factory_;
  const std::map<std::string, std::string> until_;
  std::map<std::string, std::string> said_;  // by fingerprint
  const int width_;
  bool first_ = true;
  bool synced_ = false;
  uint64_t changes_ = 0;
  uint64_t heard_ = 0;
  Clock::Steady heard_at_ = RealClock()->Now();
};

struct PlannedInformer {
  InformerOptions options;
  std::vector<std::string> namespaces;
};

// Before the store is made: what is misspelt leaves nothing behind.
Result<std::vector<PlannedInformer>> PlanInformers(const RunArguments& arguments,
                                                   HttpTransport& transport,
                                                   const std::stop_token& stop) {
  std::vector<IndexRequest> indexes;
  for (const std::string& text : arguments.indexes) {
    LARDER_ASSIGN_OR_RETURN(IndexRequest index, ParseIndex(text));
    indexes.push_back(std::move(index));
  }
  Discovery discovery(transport);
  std::vector<PlannedInformer> planned;
  for (const std::string& name : arguments.resources) {
    PlannedInformer one;
    InformerOptions& options = one.options;
    LARDER_ASSIGN_OR_RETURN(options.resource, discovery.Resolve(name, stop));
    const auto encrypted = StoreOptions().encrypted_resources;
    if (arguments.store.key_file.empty() &&
        std::find(encrypted.begin(), encrypted.end(), options.resource.ToString()) !=
            encrypted.end()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} reach the disk only encrypted: give --encryption-key-file FILE, with a "
                       "line that openssl rand -base64 32 printed",
                       options.resource.ToString());
    }
    options.label_selector = arguments.labels;
    options.field_selector = arguments.fields;
    options.metadata_only = arguments.metadata_only;
    for (const IndexRequest& index : indexes) {
      LARDER_ASSIGN_OR_RETURN(const Resource of, discovery.Resolve(index.resource, stop));
      if (of == options.resource) options.indexes.push_back(index.definition);
    }
    if (options.resource.namespaced) one.namespaces = arguments.namespaces;
    planned.push_back(std::move(one));
  }
  return planned;
}

void AddChecks(HealthServer& health, Store& store, const SharedInformerFactory& factory) {
  health.AddHealthCheck("ping", []() -> Result<void> { return {}; });
  health.AddReadyCheck("store", [&store] { return store.Health(); });
  health.AddReadyCheck("sync", [&factory] { return factory.Ready(); });
}

// What the server is at. Whoever may not ask waits for silence.
std::string CurrentVersion(HttpTransport& transport, const InformerOptions& options,
                           const std::stop_token& stop) {
  ApiClient client(transport);
  const auto page = client.List(options.resource, {.ns = options.ns, .limit = 1}, stop);
  return page ? page->resource_version : std::string();
}

// Another cluster's objects must not come into this store. And who waits for the end need not wait
// where the server calls a request wrong: it will be wrong the next time, too.
Result<void> Hopeless(const SharedInformerFactory& factory, bool until_synced) {
  for (const FactoryInformerStatus& entry : factory.Status()) {
    const auto& error = entry.status.reflector.error;
    const bool another = entry.status.reflector.state == ReflectorState::kAnotherCluster;
    const bool wrong = error && error->code == ErrorCode::kInvalidArgument;
    if (!error || !(another || (until_synced && wrong))) continue;
    return MakeError(error->code, "{}: {}{}", entry.collection, error->message,
                     another ? "; run again to begin a collection of its own" : "");
  }
  return {};
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
  LARDER_ASSIGN_OR_RETURN(const auto planned, PlanInformers(arguments, *transport, stop));
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
  std::map<std::string, std::string> until;
  for (const PlannedInformer& one : planned) {
    LARDER_ASSIGN_OR_RETURN(const auto informers,
                            factory.ForNamespaces(one.options, one.namespaces));
    if (!arguments.until_synced) continue;
    const std::string version = CurrentVersion(*transport, informers.front()->options(), stop);
    for (const SharedInformer* informer : informers) {
      until[informer->GetIndexer().collection().spec.Fingerprint()] = version;
    }
  }
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
  bool synced = false;
  {
    StatusLine status(factory, std::move(until));
    do {
      synced = status.Show();
      if (synced && arguments.until_synced) break;
      LARDER_RETURN_IF_ERROR(Hopeless(factory, arguments.until_synced));
    } while (RealClock()->SleepFor(arguments.until_synced ? std::chrono::milliseconds(50) : kEvery,
                                   stop));
  }
  health.Stop();
  factory.Shutdown();
  LARDER_RETURN_IF_ERROR(store->Sync());
  if (arguments.until_synced) LetFlushEnd(*store, stop);
  std::fprintf(stderr, "stopped; the store is at %s\n", arguments.store.path.c_str());
  return arguments.until_synced && !synced ? kInterrupted : kOk;
}

}  // namespace

void AddRun(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command =
      app.add_subcommand("run", "Keep resources of a cluster in a store, until it is stopped");
  command
      ->add_option("resource", arguments->resources,
                   "pods deploy widgets.example.com ..., or pods,deploy")
      ->required()
      ->delimiter(',');
  AddStoreOptions(command, arguments->store);
  AddServerOptions(command, arguments->server);
  command->add_option("-n,--namespace", arguments->namespaces, "Only these namespaces")
      ->delimiter(',');
  command->add_option("-l,--selector", arguments->labels, "Only objects with these labels");
  command->add_option("--field-selector", arguments->fields, "Only objects with these fields");
  command->add_option("--index", arguments->indexes,
                      "pods:node=spec.nodeName or pods:label=app; may be repeated");
  command->add_flag("--metadata-only", arguments->metadata_only, "Leave the rest on the server");
  command
      ->add_option("--listen", arguments->listen,
                   "HOST:PORT for /metrics, /healthz and /readyz; port 0: any free one")
      ->check(CheckListen);
  command->add_option("--memory-limit", arguments->memory_limit, "For all that is kept in memory")
      ->transform(CLI::AsSizeValue(false))
      ->check([](const std::string& bytes) {
        return std::stoull(bytes) < kLeastMemory ? "less than 16 MiB is not enough" : "";
      })
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
