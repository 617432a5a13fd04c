// The HTTP side: cpp-httplib for requests and responses, our own connections and threads beneath
// it.
//
// A thread for each connection, made when one comes and none is free, up to a limit; further
// connections wait, most of them unaccepted. Idle connections and open watches sleep in the kernel
// or on a condition; one thread notices peers that hang up. Stop ends open requests at once.
//
//   HttpServer server({.port = 0}, handler);
//   LARDER_RETURN_IF_ERROR(server.Start());
//   server.port();
#pragma once

#include <httplib.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "apiserver/connection.h"
#include "apiserver/hangup_monitor.h"
#include "base/error.h"
#include "base/mutex.h"

namespace larder::apiserver {

class HttpServer final : private httplib::Server {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    int port = 0;  // 0: any free one
    size_t max_connections = 256;
    SSL_CTX* tls = nullptr;  // must outlive the server; null: plain HTTP
    // Until a handler says that it knows who asks (Connection::LiftLimits).
    Connection::Limits limits{};
  };
  // Called on the connection's thread, when the body was read; must not throw.
  using RequestHandler =
      std::function<void(const httplib::Request&, httplib::Response&, Connection&)>;

  HttpServer(Options options, RequestHandler handler);
  ~HttpServer() override;

  // Fails with kUnavailable, naming host and port, where the port is in use.
  Result<void> Start();
  void Stop();
  int port() const { return port_; }
  HangupMonitor& monitor() { return monitor_; }
  // Breaks every connection that `chosen` says yes to.
  void AbortConnections(const std::function<bool(const Connection&)>& chosen);

  // The header that a request's Accept-Encoding is moved to: httplib would compress by itself
  // otherwise.
  static constexpr const char* kAcceptEncoding = "X-Accept-Encoding";

 private:
  bool process_and_close_socket(socket_t sock) override;

  const Options options_;
  const RequestHandler handler_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  std::set<Connection*> connections_ LARDER_GUARDED_BY(mutex_);
  HangupMonitor monitor_;
  std::jthread acceptor_;
};

}  // namespace larder::apiserver
