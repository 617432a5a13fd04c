// /metrics, /healthz and /readyz on one port.
//
// /healthz and /readyz answer 200 "ok" when all their checks pass, else 500 with what failed;
// ?verbose lists every check, /readyz/NAME asks one, ?exclude=NAME leaves one out, as the API
// server's own. A check runs on the server's thread for each request: be quick. /metrics is the
// registry in Prometheus' text form.
//
// Whoever reaches the port may ask: a request is GET or HEAD, of at most 16 KiB and 3 s, and
// clients that are slow or silent keep no probe waiting. A certificate whose files change is read
// again.
//
// Thread-safe. Errors: Start says kUnavailable where the port is taken, kInvalidArgument where the
// certificate cannot be used.
//
//   HealthServer server(&registry);
//   server.AddReadyCheck("store", [&] { return store->Health(); });
//   LARDER_RETURN_IF_ERROR(server.Start({.address = ":8080"}));
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"

namespace prometheus {
class Registry;
}

namespace larder {

using HealthCheck = std::function<Result<void>()>;

class HealthServer {
 public:
  struct Options {
    std::string address = ":8080";  // "host:port" or ":port" (IPv6 and IPv4); port 0: any free
    // Both set: TLS.
    std::string tls_cert_file{};
    std::string tls_key_file{};
  };

  // `registry` must outlive it; null: /metrics is empty.
  explicit HealthServer(prometheus::Registry* registry);
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  // At any time; another of the same name replaces it.
  void AddHealthCheck(std::string name, HealthCheck check);
  void AddReadyCheck(std::string name, HealthCheck check);
  // Called before /metrics is answered, to bring figures up to date.
  void OnScrape(std::function<void()> refresh);

  Result<void> Start(const Options& options);
  void Stop();
  // 0: not started.
  int port() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace larder
