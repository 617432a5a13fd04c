// A simulated Kubernetes cluster's API server: for tests, for demonstrations, for benchmarks.
//
// Speaks enough of the real protocol to be trusted: lists with pages, versions and selectors,
// watches with bookmarks and initial events, real 410s, writes with conflicts, CRDs, discovery, TLS
// and tokens (docs in the headers of this folder; the same conformance suite runs against it and a
// real server). It keeps its full history for an oracle, counts what it sends, and misbehaves on
// demand (faults.h). Everything is in memory and gone with the object.
//
// Thread-safe. Stop, and the destructor, end open requests and watches at once.
//
//   auto simulator = Simulator::Start({.port = 0});
//   (*simulator)->Load(20'000);
//   (*simulator)->StartChurn({.rate = 500});
//   UseServer((*simulator)->Url());
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/authorizer.h"
#include "apiserver/churn.h"
#include "apiserver/faults.h"
#include "apiserver/history.h"
#include "apiserver/stats.h"
#include "apiserver/workload.h"
#include "base/clock.h"
#include "base/error.h"
#include "schema/object.h"

namespace larder::apiserver {

struct SimulatorOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  bool tls = false;
  // What the server's certificate is for.
  std::vector<std::string> certificate_hosts = {"127.0.0.1", "localhost"};
  // Empty: everybody may do everything.
  std::vector<User> users = {};
  // The UID of namespace kube-system, by which clients know a cluster again; empty: made from the
  // seed.
  std::string cluster_uid = {};
  uint64_t first_version = 1000;
  // How many events of a resource a watch can go back. The real server keeps 100 to 102,400.
  size_t watch_window = 102'400;
  std::chrono::milliseconds bookmark_interval{60'000};
  // How long a request waits for a version from the future before it gets a 504. The real server: 3
  // s.
  std::chrono::milliseconds version_patience{250};
  // For watches that name no timeoutSeconds.
  std::chrono::seconds watch_timeout{1800};
  size_t max_connections = 256;
  // For names, UIDs and pods.
  uint64_t seed = 1;
  uint32_t workload_namespaces = 20;
  uint32_t workload_nodes = 100;
  // Times in objects, bookmarks and time-outs follow this clock.
  Clock* clock = nullptr;  // null: the real one
};

class Simulator {
 public:
  // Fails with kUnavailable where the port is in use, and names it.
  static Result<std::unique_ptr<Simulator>> Start(SimulatorOptions options = {});
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  void Stop();

  // How to reach it.
  std::string Url() const;
  int Port() const;
  // PEM; empty without TLS.
  std::string CaCertificate() const;
  // A client certificate and key for a user, as one PEM text each.
  Result<std::pair<std::string, std::string>> ClientCertificate(const std::string& user) const;
  // With the first user's token; of a server with TLS and no users, with one that means nothing.
  std::string Kubeconfig() const;
  // Written with mode 0600. Returns the path. Fails with kAlreadyExists where there is a file that
  // no simulator wrote.
  Result<std::string> WriteKubeconfig(const std::string& path) const;
  void SetUsers(std::vector<User> users);

  // The cluster's objects. `resource`: "pods", "deployments.apps", "widgets.example.com". These
  // writes keep what the object says (status, uid, creationTimestamp), which a request over HTTP
  // would not.
  Result<ObjectPtr> Create(std::string_view resource, std::string_view json);
  Result<ObjectPtr> Update(std::string_view resource, std::string_view json);
  // A JSON merge patch.
  Result<ObjectPtr> Patch(std::string_view resource, std::string_view ns, std::string_view name,
                          std::string_view merge_patch);
  Result<void> Delete(std::string_view resource, std::string_view ns, std::string_view name);
  Result<ObjectPtr> Get(std::string_view resource, std::string_view ns,
                        std::string_view name) const;
  Result<void> CreateNamespace(std::string_view name);
  size_t Count(std::string_view resource) const;
  // key ("ns/name") -> (uid, resourceVersion) of everything there is now: what a cache should have.
  std::map<std::string, std::pair<std::string, std::string>> Snapshot(
      std::string_view resource) const;

  // Load and churn (churn.h, workload.h).
  Result<void> Load(uint64_t pods);
  void StartChurn(const ChurnOptions& options);
  void StopChurn();
  bool WaitForChurnLimit();
  // This many changes at once, on this thread.
  void RunChurn(uint64_t changes, const ChurnOptions& options = {});
  ChurnCounts ChurnDone() const;

  // Versions and history.
  uint64_t Version() const;
  std::vector<HistoryEntry> History(uint64_t from = 0, size_t limit = SIZE_MAX) const;
  // Drops the watch windows of a resource, or of all: a watch from before now gets a 410.
  void ExpireHistory(std::string_view resource = {});
  // A backup of the cluster, and the return to it: what came after never happened, and versions are
  // given out again, as when an etcd is restored. Connections break. Fails with kNotFound where
  // nothing was saved.
  void SaveState();
  Result<void> RestoreState();
  // As if another cluster were at this address.
  Result<void> SetClusterUid(const std::string& uid);
  std::string ClusterUid() const;

  // Faults and figures.
  int AddFault(Fault fault);
  bool RemoveFault(int id);
  void ClearFaults();
  // Breaks all connections that are open now.
  void DropConnections();
  std::map<std::string, ResourceStats> Stats() const;
  ResourceStats StatsOf(const std::string& resource) const;
  void ResetStats();

 private:
  class Impl;
  explicit Simulator(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace larder::apiserver
