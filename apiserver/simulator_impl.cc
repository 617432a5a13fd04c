#include "apiserver/simulator_impl.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace larder::apiserver {

Simulator::Impl::Impl(SimulatorOptions given)
    : options(std::move(given)),
      state({options.clock, options.first_version, options.watch_window}),
      writer(state, registry, *options.clock, options.seed),
      authorizer(options.users) {
  MakeTables();
  churn = std::make_unique<Churn>(
      state, writer, registry, *options.clock,
      WorkloadShape{options.seed, options.workload_namespaces, options.workload_nodes});
}

Simulator::Impl::~Impl() { Stop(); }

void Simulator::Impl::MakeTables() {
  for (const ResourceInfoPtr& info : registry.All()) {
    state.AddTable(info->resource.ToString(), info->TypePrefix(), info->resource.namespaced);
  }
}

Result<void> Simulator::Impl::MakeNamespaces() {
  const ResourceInfoPtr namespaces = registry.Find("", "v1", "namespaces");
  WriteOptions trusted;
  trusted.trusted = true;
  for (const char* name : {"kube-system", "default", "kube-public", "kube-node-lease"}) {
    Json object = {{"metadata", {{"name", name}}}};
    if (std::string_view(name) == "kube-system" && !options.cluster_uid.empty()) {
      object["metadata"]["uid"] = options.cluster_uid;
    }
    ApiResult<Written> written = writer.Create(*namespaces, "", object, trusted);
    if (!written) return tl::unexpected(written.error().ToError());
  }
  return {};
}

Result<void> Simulator::Impl::Start() {
  LARDER_RETURN_IF_ERROR(MakeNamespaces());
  if (options.tls) {
    LARDER_ASSIGN_OR_RETURN(tls, TlsAuthority::Create(options.certificate_hosts));
  }
  const ServerParts parts{state, registry, writer, faults, stats, authorizer};
  api =
      std::make_unique<ApiHandler>(parts,
                                   ServerSettings{options.clock, options.bookmark_interval,
                                                  options.version_patience, options.watch_timeout},
                                   stop_source.get_token());
  control = std::make_unique<ControlHandler>(parts, *churn, [this] {
    const Connection* const own = Connection::Current();
    server->AbortConnections([&](const Connection& connection) { return &connection != own; });
  });
  server = std::make_unique<HttpServer>(
      HttpServer::Options{options.host, options.port, options.max_connections,
                          tls ? tls->server_context() : nullptr},
      [this](const httplib::Request& request, httplib::Response& response, Connection& connection) {
        if (!control->Handle(request, response)) return api->Handle(request, response, connection);
        connection.LiftLimits();  // a history may be long
      });
  api->SetMonitor(&server->monitor());
  return server->Start();
}

void Simulator::Impl::Stop() {
  churn->Stop();
  stop_source.request_stop();
  faults.Wake();
  if (server) server->Stop();
}

ApiResult<ResourceInfoPtr> Simulator::Impl::Lookup(std::string_view resource) const {
  ResourceInfoPtr info = registry.FindByName(resource);
  if (!info) {
    ApiStatus status = NoSuchPathStatus();
    status.message = fmt::format(
        "the simulator serves no resource \"{}\"; spell it like pods, deployments.apps", resource);
    return tl::unexpected(std::move(status));
  }
  return info;
}

Result<ObjectPtr> Simulator::Impl::Parse(const ResourceInfo& info, const StoredPtr& stored) const {
  return Object::Parse(info.TypePrefix() + stored->Render().text.substr(1));
}

std::string Simulator::Impl::FirstToken() const {
  return options.users.empty() ? "" : options.users.front().token;
}

}  // namespace larder::apiserver
