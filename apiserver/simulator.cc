#include "apiserver/simulator.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/kubeconfig_file.h"
#include "apiserver/simulator_impl.h"
#include "base/base64.h"

namespace larder::apiserver {
namespace {

WriteOptions Trusted() {
  WriteOptions out;
  out.trusted = true;
  return out;
}

Result<Json> ParseJson(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "the object is not a JSON object");
  }
  return json;
}

std::string MetadataText(const Json& object, const char* key) {
  const Json metadata = object.value("metadata", Json::object());
  return metadata.is_object() ? metadata.value(key, "") : "";
}

}  // namespace

Simulator::Simulator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Simulator::~Simulator() = default;

Result<std::unique_ptr<Simulator>> Simulator::Start(SimulatorOptions options) {
  if (!options.clock) options.clock = RealClock();
  auto impl = std::make_unique<Impl>(std::move(options));
  LARDER_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Simulator>(new Simulator(std::move(impl)));
}

void Simulator::Stop() { impl_->Stop(); }

std::string Simulator::Url() const {
  return fmt::format("{}://{}:{}", impl_->options.tls ? "https" : "http", impl_->options.host,
                     Port());
}

int Simulator::Port() const { return impl_->server->port(); }

std::string Simulator::CaCertificate() const {
  return impl_->tls ? impl_->tls->ca_certificate() : std::string();
}

Result<std::pair<std::string, std::string>> Simulator::ClientCertificate(
    const std::string& user) const {
  if (!impl_->tls) {
    return MakeError(ErrorCode::kInvalidArgument, "a client certificate needs a server with TLS");
  }
  LARDER_ASSIGN_OR_RETURN(PemPair pair, impl_->tls->IssueClient(user));
  return std::pair(std::move(pair.certificate), std::move(pair.key));
}

std::string Simulator::Kubeconfig() const {
  // JSON is YAML, and needs no quoting rules.
  Json cluster = {{"server", Url()}};
  if (impl_->tls) cluster["certificate-authority-data"] = EncodeBase64(CaCertificate());
  Json user = Json::object();
  if (const std::string token = impl_->FirstToken(); !token.empty()) {
    user["token"] = token;
  } else if (impl_->tls) {
    // Everybody may do everything, but kubectl asks for a name and a password without one.
    user["token"] = "anybody";
  }
  const Json out = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"clusters", Json::array({{{"name", "simulator"}, {"cluster", cluster}}})},
      {"users", Json::array({{{"name", "simulator"}, {"user", user}}})},
      {"contexts", Json::array({{{"name", "simulator"},
                                 {"context", {{"cluster", "simulator"}, {"user", "simulator"}}}}})},
      {"current-context", "simulator"}};
  return out.dump(2) + "\n";
}

Result<std::string> Simulator::WriteKubeconfig(const std::string& path) const {
  LARDER_RETURN_IF_ERROR(WriteKubeconfigFile(path, "larder simulate", Kubeconfig()));
  return path;
}

void Simulator::SetUsers(std::vector<User> users) { impl_->authorizer.SetUsers(std::move(users)); }

Result<ObjectPtr> Simulator::Create(std::string_view resource, std::string_view json) {
  auto info = impl_->Lookup(resource);
  if (!info) return tl::unexpected(info.error().ToError());
  LARDER_ASSIGN_OR_RETURN(Json object, ParseJson(json));
  const std::string ns = (*info)->resource.namespaced ? MetadataText(object, "namespace") : "";
  auto written = impl_->writer.Create(**info, ns, std::move(object), Trusted());
  if (!written) return tl::unexpected(written.error().ToError());
  return impl_->Parse(**info, written->object);
}

Result<ObjectPtr> Simulator::Update(std::string_view resource, std::string_view json) {
  auto info = impl_->Lookup(resource);
  if (!info) return tl::unexpected(info.error().ToError());
  LARDER_ASSIGN_OR_RETURN(Json object, ParseJson(json));
  const std::string ns = (*info)->resource.namespaced ? MetadataText(object, "namespace") : "";
  const std::string name = MetadataText(object, "name");
  auto written = impl_->writer.Update(**info, ns, name, std::move(object), Trusted());
  if (!written) return tl::unexpected(written.error().ToError());
  return impl_->Parse(**info, written->object);
}

Result<ObjectPtr> Simulator::Patch(std::string_view resource, std::string_view ns,
                                   std::string_view name, std::string_view merge_patch) {
  auto info = impl_->Lookup(resource);
  if (!info) return tl::unexpected(info.error().ToError());
  LARDER_ASSIGN_OR_RETURN(const Json patch, ParseJson(merge_patch));
  auto written = impl_->writer.Patch(**info, std::string(ns), std::string(name), PatchType::kMerge,
                                     patch, Trusted());
  if (!written) return tl::unexpected(written.error().ToError());
  return impl_->Parse(**info, written->object);
}

Result<void> Simulator::Delete(std::string_view resource, std::string_view ns,
                               std::string_view name) {
  auto info = impl_->Lookup(resource);
  if (!info) return tl::unexpected(info.error().ToError());
  auto deleted = impl_->writer.Delete(**info, std::string(ns), std::string(name), {});
  if (!deleted) return tl::unexpected(deleted.error().ToError());
  return {};
}

Result<ObjectPtr> Simulator::Get(std::string_view resource, std::string_view ns,
                                 std::string_view name) const {
  auto info = impl_->Lookup(resource);
  if (!info) return tl::unexpected(info.error().ToError());
  const TablePtr table = impl_->state.FindTable(resource);
  const StoredPtr stored = impl_->state.Get(*table, ObjectWriter::KeyOf(std::string(ns), name));
  if (!stored) return tl::unexpected(NotFoundStatus(**info, name).ToError());
  return impl_->Parse(**info, stored);
}

Result<void> Simulator::CreateNamespace(std::string_view name) {
  const Json object = {{"metadata", {{"name", name}}}};
  LARDER_RETURN_IF_ERROR(Create("namespaces", object.dump()));
  return {};
}

size_t Simulator::Count(std::string_view resource) const {
  const TablePtr table = impl_->state.FindTable(resource);
  return table ? impl_->state.Count(*table) : 0;
}

std::map<std::string, std::pair<std::string, std::string>> Simulator::Snapshot(
    std::string_view resource) const {
  std::map<std::string, std::pair<std::string, std::string>> out;
  const TablePtr table = impl_->state.FindTable(resource);
  if (!table) return out;
  for (const StoredPtr& object : impl_->state.WatchNow(*table, "").objects) {
    out.emplace(object->identity->key,
                std::pair(object->identity->uid, std::to_string(object->version)));
  }
  return out;
}

Result<void> Simulator::Load(uint64_t pods) { return impl_->churn->Load(pods); }
void Simulator::StartChurn(const ChurnOptions& options) { impl_->churn->Start(options); }
void Simulator::StopChurn() { impl_->churn->Stop(); }
bool Simulator::WaitForChurnLimit() { return impl_->churn->WaitForLimit(); }
void Simulator::RunChurn(uint64_t changes, const ChurnOptions& options) {
  impl_->churn->Run(changes, options);
}
ChurnCounts Simulator::ChurnDone() const { return impl_->churn->Counts(); }

uint64_t Simulator::Version() const { return impl_->state.Version(); }
std::vector<HistoryEntry> Simulator::History(uint64_t from, size_t limit) const {
  return impl_->state.ReadHistory(from, limit);
}

void Simulator::ExpireHistory(std::string_view resource) {
  const TablePtr table = resource.empty() ? nullptr : impl_->state.FindTable(resource);
  if (resource.empty() || table) impl_->state.ExpireHistory(table.get());
}

void Simulator::SaveState() { impl_->state.Save(); }

Result<void> Simulator::RestoreState() {
  if (!impl_->state.Restore()) {
    return MakeError(ErrorCode::kNotFound, "the simulator has no saved state to return to");
  }
  DropConnections();
  return {};
}

Result<void> Simulator::SetClusterUid(const std::string& uid) {
  const TablePtr table = impl_->state.FindTable("namespaces");
  while (true) {
    const StoredPtr current = impl_->state.Get(*table, "kube-system");
    Json object = ObjectWriter::Read(*current);
    object["metadata"]["uid"] = uid;
    if (impl_->state.Put(*table, "kube-system", uid, current->version, PrepareBody(object),
                         nullptr) == State::Outcome::kDone) {
      return {};
    }
  }
}

std::string Simulator::ClusterUid() const {
  const TablePtr table = impl_->state.FindTable("namespaces");
  return impl_->state.Get(*table, "kube-system")->identity->uid;
}

int Simulator::AddFault(Fault fault) { return impl_->faults.Add(std::move(fault)); }
bool Simulator::RemoveFault(int id) { return impl_->faults.Remove(id); }
void Simulator::ClearFaults() { impl_->faults.Clear(); }
void Simulator::DropConnections() {
  impl_->server->AbortConnections([](const Connection&) { return true; });
}
std::map<std::string, ResourceStats> Simulator::Stats() const { return impl_->stats.Copy(); }
ResourceStats Simulator::StatsOf(const std::string& resource) const {
  return impl_->stats.Of(resource).Copy();
}
void Simulator::ResetStats() { impl_->stats.Reset(); }

}  // namespace larder::apiserver
