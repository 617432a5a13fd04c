#include "controller/probe_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/thread_name.h"

namespace larder::internal {
namespace {

constexpr size_t kThreads = 16;

// Tells of every connection that comes.
class Announcing final : public httplib::TaskQueue {
 public:
  explicit Announcing(std::function<void()> came) : came_(std::move(came)) {}
  void enqueue(std::function<void()> task) override {
    came_();
    pool_.enqueue(std::move(task));
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  const std::function<void()> came_;
  httplib::ThreadPool pool_{kThreads};
};

// Also false where the kernel knows IPv6 and has no address of it.
bool HasIpv6() {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  const bool bound = ::bind(probe, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  ::close(probe);
  return bound;
}

}  // namespace

ProbeServer::ProbeServer(std::unique_ptr<ServingCertificate> certificate)
    : certificate_(std::move(certificate)) {
  new_task_queue = [this] { return new Announcing([this] { MakeRoom(); }); };
  set_socket_options([](socket_t socket) {
    const int yes = 1;
    const int no = 0;
    // Not the library's default, with which two processes would share one port unnoticed.
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    // An IPv6 socket takes IPv4, too; for one of IPv4 this means nothing.
    ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  });
  // Before a body would be read.
  set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    if (request.method == "GET" || request.method == "HEAD") return HandlerResponse::Unhandled;
    response.status = 405;
    response.set_header("Allow", "GET, HEAD");
    return HandlerResponse::Handled;
  });
}

ProbeServer::~ProbeServer() { Stop(); }

int ProbeServer::Start(const std::string& host, int port) {
  const std::string address = !host.empty() ? host : HasIpv6() ? "::" : "0.0.0.0";
  if (port == 0) {
    port = bind_to_any_port(address);
  } else if (!bind_to_port(address, port)) {
    port = -1;
  }
  if (port < 0) return port;
  acceptor_ = std::jthread([this] {
    NameThread("larder-health");
    listen_after_bind();
    ended_ = true;
  });
  return port;
}

void ProbeServer::Stop() {
  if (!acceptor_.joinable()) return;
  // stop() before the thread listens would be forgotten.
  while (!ended_ && !is_running()) std::this_thread::yield();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (ProbeConnection* connection : connections_) connection->Abort();
  }
  stop();
  acceptor_.join();
}

void ProbeServer::MakeRoom() {
  MutexLock lock(mutex_);
  ++waiting_;
  const auto open = static_cast<size_t>(std::count_if(
      connections_.begin(), connections_.end(), [](const auto* one) { return !one->aborted(); }));
  if (open + waiting_ <= kThreads) return;
  // Who asks nothing first, then who does not take an answer.
  for (const auto phase : {ProbeConnection::Phase::kReading, ProbeConnection::Phase::kWriting}) {
    for (ProbeConnection* connection : connections_) {
      if (connection->aborted() || connection->phase() != phase) continue;
      connection->Abort();
      return;
    }
  }
}

bool ProbeServer::process_and_close_socket(socket_t socket) {
  ProbeConnection connection(socket, certificate_ ? certificate_->Current() : nullptr, {});
  {
    MutexLock lock(mutex_);
    --waiting_;
    // One that came after Stop ended the others would not be ended.
    if (stopping_) return false;
    connections_.push_back(&connection);
  }
  if (connection.Accept()) {
    bool closed = false;
    process_request(connection, true, closed, [&](httplib::Request& request) {
      connection.EndReading();
      // An answer is whole. The library would make one part of it for each range that is named,
      // also where a few bytes of header name the whole a thousand times.
      request.ranges.clear();
    });
  }
  MutexLock lock(mutex_);
  connections_.remove(&connection);
  return true;
}

}  // namespace larder::internal
