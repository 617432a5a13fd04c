// A manager's configuration: from flags, environment, a YAML file, and defaults, in this order.
//
// Every setting has one name in three spellings: INFORMER_RESYNC_PERIOD in the environment,
// --informer-resync-period on the command line, informerResyncPeriod in the file. The file is named
// by --config or LARDER_CONFIG. `--help` prints all of them with their defaults. Durations are Go's
// (10m, 1h30m, 500ms), sizes are Kubernetes' (64Mi).
//
// Loading reads, and changes nothing. Errors: kInvalidArgument names where the value came from, the
// value, and what is allowed; an unknown flag or key of the file is an error, too.
//
//   LARDER_ASSIGN_OR_RETURN(ManagerConfig config, ManagerConfig::Load(argc, argv));
//   LARDER_ASSIGN_OR_RETURN(auto manager, Manager::Create({.config = config}));
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace larder {

struct ManagerConfig {
  using Duration = std::chrono::nanoseconds;

  // Where the server is. Both empty: KUBECONFIG, ~/.kube/config, or the pod's service account.
  std::string kubeconfig{};
  std::string context{};
  // The store's directory. The same one after a restart is what makes the restart fast.
  std::string store = "larder-store";
  uint64_t memory_limit = uint64_t{64} << 20;
  uint64_t disk_limit = 0;  // 0: no bound
  bool compression = true;
  // The key for secrets on disk: in a file, or in this environment variable. Both empty: none.
  std::string encryption_key_file{};
  std::string encryption_key_variable{};

  // Every key again, this often, at low priority; 0: never. Counted across restarts.
  Duration resync_period = std::chrono::hours(10);
  // Which objects: the namespaces, with commas between them, for every resource; the selectors for
  // those named in For() unless the source has its own.
  std::string ns{};
  std::string label_selector{};
  std::string field_selector{};

  // Retries in a row before a key becomes a dead letter with its next failure; none: it is tried
  // for ever.
  std::optional<uint32_t> max_retries{};
  Duration base_delay = std::chrono::milliseconds(5);
  Duration max_delay = std::chrono::seconds(1000);
  double qps_limit = 10;
  uint32_t burst = 100;
  uint32_t max_concurrent_reconciles = 1;

  // Decoded objects in memory: how many, or how many bytes; none of both: by the memory limit.
  uint64_t cache_objects = 0;
  uint64_t cache_bytes = 0;
  Duration cache_ttl{0};

  bool leader_election = false;
  std::string leader_election_name{};       // empty: the program's name
  std::string leader_election_namespace{};  // empty: the pod's, or the context's
  std::string leader_election_id{};         // before a random part; empty: the host's name
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);

  // /metrics, /healthz, /readyz: "host:port" or ":port"; "0": no server.
  std::string listen = ":8080";
  std::string tls_cert_file{};
  std::string tls_key_file{};
  // How long running reconciles may take after SIGTERM.
  Duration shutdown_timeout = std::chrono::seconds(30);
  std::string log_level = "info";

  std::string program = "controller";      // argv[0] without its folder
  std::vector<std::string> arguments{};    // what follows "--", for the program itself
  std::optional<std::string> help_text{};  // set when --help was asked for: print it and exit

  using Environment = std::function<const char*(const char* name)>;
  // `environment` null: the process's own.
  static Result<ManagerConfig> Load(int argc, const char* const* argv,
                                    const Environment& environment = nullptr);

  // Settings that do not go together: the lease's times, TLS halves, delays.
  Result<void> Validate() const;
};

}  // namespace larder
