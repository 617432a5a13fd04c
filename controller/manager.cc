#include "controller/manager.h"

#include <prometheus/gauge.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <random>

#include "controller/manager_impl.h"

namespace larder {
namespace {

Result<ClientConfig> FindServer(const ManagerOptions& options) {
  if (options.client) return *options.client;
  const ManagerConfig& config = options.config;
  if (config.kubeconfig.empty() && config.context.empty()) return DefaultConfig();
  return LoadKubeconfig(config.kubeconfig, config.context);
}

StoreOptions MakeStoreOptions(const ManagerConfig& config, Clock* clock) {
  StoreOptions options;
  options.path = config.store;
  options.memory_limit = config.memory_limit;
  options.disk_limit = config.disk_limit;
  options.compression = config.compression;
  options.encryption_key_file = config.encryption_key_file;
  options.encryption_key_variable = config.encryption_key_variable;
  options.clock = clock;
  return options;
}

HotTierOptions MakeHotTierOptions(const ManagerConfig& config, Clock* clock) {
  HotTierOptions options;
  options.max_bytes =
      config.cache_bytes > 0 ? config.cache_bytes : DivideMemory(config.memory_limit).hot_tier;
  options.max_objects = config.cache_objects;
  options.ttl = std::chrono::duration_cast<std::chrono::milliseconds>(config.cache_ttl);
  options.clock = clock;
  return options;
}

// Never the same twice: with one name for all replicas, each would take the lease for its own.
std::string NewIdentity(std::string name) {
  if (name.empty()) {
    char host[256] = "localhost";
    ::gethostname(host, sizeof host - 1);
    name = host;
  }
  std::random_device random;
  return fmt::format("{}_{:08x}{:08x}", name, random(), random());
}

// A program's name as the name of an object: other characters than a-z, 0-9 and '-' are not
// allowed.
std::string LeaseName(std::string program) {
  for (char& c : program) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return program;
}

LeaderElectionOptions MakeElectionOptions(const ManagerConfig& config, const ClientConfig& client,
                                          Clock* clock) {
  LeaderElectionOptions options;
  options.ns = config.leader_election_namespace.empty() ? client.default_namespace
                                                        : config.leader_election_namespace;
  options.name =
      config.leader_election_name.empty() ? LeaseName(config.program) : config.leader_election_name;
  options.identity = NewIdentity(config.leader_election_id);
  options.lease_duration = config.lease_duration;
  options.renew_deadline = config.renew_deadline;
  options.retry_period = config.retry_period;
  options.clock = clock;
  return options;
}

}  // namespace

Manager::Impl::Impl(ManagerOptions given)
    : options(std::move(given)), config(options.config), clock(options.clock) {}

Manager::Impl::~Impl() {
  Finish();
  // Informers write into the queues of controllers: they go first.
  factory.reset();
  controllers.clear();
}

Result<void> Manager::Impl::Open() {
  LARDER_RETURN_IF_ERROR(config.Validate());
  LARDER_ASSIGN_OR_RETURN(client_config, FindServer(options));
  LARDER_ASSIGN_OR_RETURN(transport, MakeTransport(client_config, clock));
  LARDER_ASSIGN_OR_RETURN(store, Store::Open(MakeStoreOptions(config, clock)));
  hot = std::make_unique<HotTier>(MakeHotTierOptions(config, clock));
  if (config.leader_election) {
    // Renewals do not queue behind other requests.
    ClientConfig unlimited = client_config;
    unlimited.qps = 0;
    LARDER_ASSIGN_OR_RETURN(election_transport, MakeTransport(unlimited, clock));
    elector = std::make_unique<LeaderElector>(*election_transport,
                                              MakeElectionOptions(config, client_config, clock));
  }
  client = std::make_unique<CachedClient>(
      *transport, [this] { return MayWrite(); }, clock);
  EventRecorder::Options recorder;
  recorder.component = config.program;
  recorder.clock = clock;
  events = std::make_unique<EventRecorder>(*transport, recorder);
  health = std::make_unique<HealthServer>(&registry);
  return {};
}

Result<void> Manager::Impl::MayWrite() const {
  if (!elector || elector->IsLeader()) return {};
  return MakeError(ErrorCode::kCancelled, "not written: the lease {}/{} is not ours",
                   elector->options().ns, elector->options().name);
}

void Manager::Impl::PublishLeadership() {
  if (!elector) return;
  prometheus::BuildGauge()
      .Name("leader_election_master_status")
      .Help("1 while this process leads")
      .Register(registry)
      .Add({{"name", elector->options().name}})
      .Set(elector->IsLeader() ? 1 : 0);
}

std::vector<Controller*> Manager::Impl::Controllers() const {
  std::vector<Controller*> all;
  MutexLock lock(mutex);
  for (const auto& controller : controllers) all.push_back(controller.get());
  return all;
}

SharedInformerFactory* Manager::Impl::Factory() const {
  MutexLock lock(mutex);
  return factory.get();
}

void Manager::Impl::Fail(Error reason) {
  {
    MutexLock lock(mutex);
    if (!failure) failure = std::move(reason);
    changed.notify_all();
  }
  ending.request_stop();
}

Manager::Manager(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Manager::~Manager() = default;

Result<std::unique_ptr<Manager>> Manager::Create(ManagerOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  LARDER_RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<Manager>(new Manager(std::move(impl)));
}

namespace {

Error TooLate(const char* what) {
  return {ErrorCode::kNotReady,
          std::string("the manager runs already: ") + what + " is added before Run",
          {},
          {}};
}

}  // namespace

Result<void> Manager::Add(Controller::Definition definition) {
  MutexLock lock(impl_->mutex);
  if (impl_->started) return tl::unexpected(TooLate("a controller"));
  for (const auto& other : impl_->definitions) {
    if (other.name != definition.name) continue;
    return MakeError(ErrorCode::kAlreadyExists,
                     "there is a controller {} already: give one of them another name with Named()",
                     definition.name);
  }
  impl_->definitions.push_back(std::move(definition));
  return {};
}

Result<void> Manager::Add(Runnable runnable) {
  MutexLock lock(impl_->mutex);
  if (impl_->started) return tl::unexpected(TooLate("a runnable"));
  if (!runnable.run) {
    return MakeError(ErrorCode::kInvalidArgument, "runnable {} has no function", runnable.name);
  }
  impl_->runnables.push_back(std::move(runnable));
  return {};
}

Result<void> Manager::Watch(ResourceName resource, SourceOptions options) {
  MutexLock lock(impl_->mutex);
  if (impl_->started) return tl::unexpected(TooLate("a watch"));
  impl_->watches.push_back(
      {SourceRole::kWatches, std::move(resource), nullptr, std::move(options)});
  return {};
}

void Manager::AddHealthCheck(std::string name, HealthCheck check) {
  impl_->health->AddHealthCheck(std::move(name), std::move(check));
}

void Manager::AddReadyCheck(std::string name, HealthCheck check) {
  impl_->health->AddReadyCheck(std::move(name), std::move(check));
}

Result<void> Manager::Run(const std::stop_token& stop) { return impl_->Run(stop); }

CachedClient& Manager::client() { return *impl_->client; }
EventRecorder& Manager::events() { return *impl_->events; }
Store& Manager::store() { return *impl_->store; }
prometheus::Registry& Manager::registry() { return impl_->registry; }
const ManagerConfig& Manager::config() const { return impl_->config; }
int Manager::port() const { return impl_->health->port(); }

SharedInformerFactory* Manager::informers() { return impl_->Factory(); }

Controller* Manager::FindController(const std::string& name) {
  for (Controller* controller : impl_->Controllers()) {
    if (controller->name() == name) return controller;
  }
  return nullptr;
}

bool Manager::IsLeader() const {
  if (impl_->elector) return impl_->elector->IsLeader();
  MutexLock lock(impl_->mutex);
  return impl_->working;
}

namespace {

Result<void> WaitFor(Manager::Impl& impl, bool Manager::Impl::*flag, const char* what,
                     Clock::Steady deadline, const std::stop_token& stop) {
  MutexLock lock(impl.mutex);
  while (!(impl.*flag)) {
    if (impl.failure) return tl::unexpected(*impl.failure);
    if (impl.clock->Now() >= deadline) return MakeError(ErrorCode::kTimeout, "not {} yet", what);
    if (!impl.clock->WaitUntil(impl.mutex, impl.changed, deadline, stop)) {
      return MakeError(ErrorCode::kCancelled, "stopped before it was {}", what);
    }
  }
  return {};
}

}  // namespace

Result<void> Manager::WaitForSync(Clock::Steady deadline, const std::stop_token& stop) {
  return WaitFor(*impl_, &Impl::synced, "in sync", deadline, stop);
}

Result<void> Manager::WaitUntilWorking(Clock::Steady deadline, const std::stop_token& stop) {
  return WaitFor(*impl_, &Impl::working, "working", deadline, stop);
}

}  // namespace larder
