#include "reflector/reflector.h"

#include <random>
#include <utility>

#include "reflector/reflector_machine.h"

namespace larder {
namespace {

std::string DefaultName(const ReflectorOptions& options) {
  std::string name = options.resource.ToString();
  if (!options.ns.empty()) name += " in " + options.ns;
  for (const std::string* part :
       {&options.label_selector, &options.field_selector, &options.shard_selector}) {
    if (!part->empty()) name += ", " + *part;
  }
  if (options.metadata_only) name += ", metadata";
  return name;
}

ReflectorOptions WithDefaults(ReflectorOptions options) {
  if (options.name.empty()) options.name = DefaultName(options);
  if (options.clock == nullptr) options.clock = RealClock();
  return options;
}

}  // namespace

Result<std::unique_ptr<Reflector>> Reflector::Create(ReflectorOptions options,
                                                     HttpTransport* transport, Target* target) {
  if (options.resource.resource.empty() || options.resource.version.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "a reflector needs a resource and its version");
  }
  if (!options.resource.namespaced && !options.ns.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "{} are not in namespaces; leave '{}' out",
                     options.resource.ToString(), options.ns);
  }
  if (options.page_size == 0 || options.max_event_bytes == 0 ||
      options.watch_timeout_min > options.watch_timeout_max) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "page_size and max_event_bytes must not be 0, watch_timeout_min not above the maximum");
  }
  LARDER_ASSIGN_OR_RETURN(ShardSelector shard, ShardSelector::Parse(options.shard_selector));
  const uint64_t seed = options.random_seed != 0 ? options.random_seed : std::random_device{}();
  return std::unique_ptr<Reflector>(new Reflector(std::make_unique<ReflectorMachine>(
      WithDefaults(std::move(options)), std::move(shard), seed, transport, target)));
}

Reflector::Reflector(std::unique_ptr<ReflectorMachine> machine) : machine_(std::move(machine)) {}

Reflector::~Reflector() = default;

Reflector::Outcome Reflector::Run(const std::stop_token& stop) { return machine_->Run(stop); }

void Reflector::Pause() { machine_->Pause(); }

void Reflector::Resume() { machine_->Resume(); }

void Reflector::TargetFailed(const Error& error) { machine_->TargetFailed(error); }

ReflectorStatus Reflector::Status() const { return machine_->Status(); }

const ReflectorOptions& Reflector::options() const { return machine_->options(); }

Result<std::string> FetchClusterUid(HttpTransport& transport, const std::stop_token& stop) {
  const ReflectorOptions defaults;
  const Requests requests(defaults, 0);
  LARDER_ASSIGN_OR_RETURN(const Response response, transport.Do(requests.ClusterNamespace(), stop));
  LARDER_ASSIGN_OR_RETURN(const ObjectPtr ns, Object::Parse(response.body, {"v1", "Namespace"}));
  if (ns->uid().empty()) {
    return MakeError(ErrorCode::kProtocol, "namespace kube-system has no uid");
  }
  return std::string(ns->uid());
}

}  // namespace larder
