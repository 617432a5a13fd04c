#include "controller/health_server.h"

#include <httplib.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <sstream>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/thread_name.h"

namespace larder {
namespace {

using Checks = std::map<std::string, HealthCheck>;

constexpr size_t kThreads = 16;
constexpr time_t kIdleSeconds = 1;
constexpr time_t kWriteSeconds = 5;

struct Address {
  std::string host;
  int port = 0;
};

Result<Address> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  Address address;
  if (colon == std::string::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "\"{}\" is not host:port or :port", text);
  }
  address.host = colon == 0 ? "0.0.0.0" : text.substr(0, colon);
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

  std::unique_ptr<httplib::Server> MakeServer(const Options& options) {
    if (options.tls_cert_file.empty()) return std::make_unique<httplib::Server>();
    return std::make_unique<httplib::SSLServer>(options.tls_cert_file.c_str(),
                                                options.tls_key_file.c_str());
  }

  Checks Copy(Checks Impl::*checks) {
    MutexLock lock(mutex);
    return this->*checks;
  }

  void AddRoutes() {
    // A connection has a thread for as long as it is open. So each serves one request, and one that
    // asks nothing is closed before a kubelet gives up on a probe that waits for its thread.
    server->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server->set_keep_alive_max_count(1);
    server->set_keep_alive_timeout(kIdleSeconds);
    server->set_read_timeout(kIdleSeconds);
    server->set_write_timeout(kWriteSeconds);
    // Not the library's default, with which two processes would share one port unnoticed.
    server->set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
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
  std::unique_ptr<httplib::Server> server;
  std::atomic<int> port = 0;  // asked for by whoever waits for the start
  std::atomic<bool> ended{false};
  std::jthread thread;
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
  impl_->server = impl_->MakeServer(options);
  if (!impl_->server->is_valid()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cannot serve with the certificate {} and the key {}", options.tls_cert_file,
                     options.tls_key_file);
  }
  impl_->AddRoutes();
  const int port =
      address.port == 0
          ? impl_->server->bind_to_any_port(address.host)
          : (impl_->server->bind_to_port(address.host, address.port) ? address.port : -1);
  if (port < 0) {
    return MakeError(ErrorCode::kUnavailable, "cannot listen on {}: is the port in use?",
                     options.address);
  }
  impl_->port = port;
  impl_->ended = false;
  impl_->thread = std::jthread([impl = impl_.get()] {
    NameThread("larder-health");
    impl->server->listen_after_bind();
    impl->ended = true;
  });
  spdlog::info("serving /metrics, /healthz and /readyz on {}:{}", address.host, port);
  return {};
}

void HealthServer::Stop() {
  if (!impl_->server) return;
  // stop() before the thread listens would be forgotten.
  while (impl_->thread.joinable() && !impl_->ended && !impl_->server->is_running()) {
    std::this_thread::yield();
  }
  impl_->server->stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->server.reset();
}

int HealthServer::port() const { return impl_->port; }

}  // namespace larder
