#include "controller/health_server.h"

#include <httplib.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <sstream>
#include <vector>

#include "base/mutex.h"
#include "controller/probe_server.h"

namespace larder {
namespace {

using Checks = std::map<std::string, HealthCheck>;

struct Address {
  std::string host;  // empty: all
  int port = 0;
};

Result<Address> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  Address address;
  if (colon == std::string::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "\"{}\" is not host:port or :port", text);
  }
  address.host = text.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  const std::string port = text.substr(colon + 1);
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos || std::stoi(port) > 65535) {
    return MakeError(ErrorCode::kInvalidArgument, "\"{}\" has no port between 0 and 65535", text);
  }
  address.port = std::stoi(port);
  return address;
}

// A check that throws has failed.
Result<void> RunCheck(const HealthCheck& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    return MakeError(ErrorCode::kInternal, "the check threw: {}", error.what());
  }
}

void Answer(const std::string& path, const Checks& checks, const httplib::Request& request,
            httplib::Response& response) {
  std::string lines;
  bool healthy = true;
  for (const auto& [name, check] : checks) {
    bool excluded = false;
    for (size_t i = 0; i < request.get_param_value_count("exclude"); ++i) {
      excluded = excluded || request.get_param_value("exclude", i) == name;
    }
    if (excluded) {
      lines += fmt::format("[+]{} excluded: ok\n", name);
      continue;
    }
    const Result<void> outcome = RunCheck(check);
    healthy = healthy && outcome;
    lines += outcome ? fmt::format("[+]{} ok\n", name)
                     : fmt::format("[-]{} failed: {}\n", name, outcome.error().ToString());
  }
  const bool verbose = request.has_param("verbose") || !healthy;
  response.status = healthy ? 200 : 500;
  response.set_content(
      verbose ? fmt::format("{}{} check {}\n", lines, path, healthy ? "passed" : "failed") : "ok",
      "text/plain; charset=utf-8");
}

void AnswerOne(const Checks& checks, const std::string& name, httplib::Response& response) {
  const auto check = checks.find(name);
  if (check == checks.end()) {
    response.status = 404;
    response.set_content("there is no check " + name + "\n", "text/plain; charset=utf-8");
    return;
  }
  const Result<void> outcome = RunCheck(check->second);
  response.status = outcome ? 200 : 500;
  response.set_content(outcome ? "ok" : outcome.error().ToString() + "\n",
                       "text/plain; charset=utf-8");
}

}  // namespace

class HealthServer::Impl {
 public:
  explicit Impl(prometheus::Registry* metrics) : registry(metrics) {}

  Checks Copy(Checks Impl::*checks) {
    MutexLock lock(mutex);
    return this->*checks;
  }

  void AddRoutes() {
    AddChecks("/healthz", &Impl::health);
    AddChecks("/readyz", &Impl::ready);
    server->Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      std::vector<std::function<void()>> before;
      {
        MutexLock lock(mutex);
        before = refresh;
      }
      for (const auto& one : before) one();
      std::ostringstream text;
      if (registry) prometheus::TextSerializer().Serialize(text, registry->Collect());
      response.set_content(text.str(), "text/plain; version=0.0.4; charset=utf-8");
    });
  }

  void AddChecks(const std::string& path, Checks Impl::*checks) {
    server->Get(path,
                [this, path, checks](const httplib::Request& request, httplib::Response& response) {
                  Answer(path.substr(1), Copy(checks), request, response);
                });
    server->Get(path + "/(.+)",
                [this, checks](const httplib::Request& request, httplib::Response& response) {
                  AnswerOne(Copy(checks), request.matches[1], response);
                });
  }

  prometheus::Registry* const registry;
  Mutex mutex;
  Checks health LARDER_GUARDED_BY(mutex);
  Checks ready LARDER_GUARDED_BY(mutex);
  std::vector<std::function<void()>> refresh LARDER_GUARDED_BY(mutex);
  std::unique_ptr<internal::ProbeServer> server;
  std::atomic<int> port = 0;  // asked for by whoever waits for the start
};

HealthServer::HealthServer(prometheus::Registry* registry)
    : impl_(std::make_unique<Impl>(registry)) {}

HealthServer::~HealthServer() { Stop(); }

void HealthServer::AddHealthCheck(std::string name, HealthCheck check) {
  MutexLock lock(impl_->mutex);
  impl_->health[std::move(name)] = std::move(check);
}

void HealthServer::AddReadyCheck(std::string name, HealthCheck check) {
  MutexLock lock(impl_->mutex);
  impl_->ready[std::move(name)] = std::move(check);
}

void HealthServer::OnScrape(std::function<void()> refresh) {
  MutexLock lock(impl_->mutex);
  impl_->refresh.push_back(std::move(refresh));
}

Result<void> HealthServer::Start(const Options& options) {
  LARDER_ASSIGN_OR_RETURN(const Address address, ParseAddress(options.address));
  std::unique_ptr<internal::ServingCertificate> certificate;
  if (!options.tls_cert_file.empty()) {
    LARDER_ASSIGN_OR_RETURN(certificate, internal::ServingCertificate::Load(options.tls_cert_file,
                                                                            options.tls_key_file));
  }
  impl_->server = std::make_unique<internal::ProbeServer>(std::move(certificate));
  impl_->AddRoutes();
  const int port = impl_->server->Start(address.host, address.port);
  if (port < 0) {
    return MakeError(ErrorCode::kUnavailable, "cannot listen on {}: is the port in use?",
                     options.address);
  }
  impl_->port = port;
  spdlog::info("serving /metrics, /healthz and /readyz on {}:{}",
               address.host.empty() ? "*" : address.host, port);
  return {};
}

void HealthServer::Stop() { impl_->server.reset(); }

int HealthServer::port() const { return impl_->port; }

}  // namespace larder
