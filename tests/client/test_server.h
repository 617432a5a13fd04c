// A real HTTP server on a loopback port, plain or with TLS, for one test.
#pragma once

#include <httplib.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "client/config.h"
#include "tests/client/test_certificates.h"

namespace larder::testing {

class TestServer {
 public:
  // Plain http.
  TestServer();
  // TLS; with `client_authority` it asks for a client certificate signed by it.
  explicit TestServer(const Identity& identity, const Authority* client_authority = nullptr);
  ~TestServer();

  httplib::Server& http() { return *server_; }
  // After the handlers are set.
  void Start();

  int port() const { return port_; }
  std::string Url(const std::string& host = "127.0.0.1") const;
  ClientConfig Config() const { return ForUrl(Url()); }

  // For content providers that never end by themselves: true once the server is being stopped.
  const std::atomic<bool>& stopping() const { return stopping_; }

 private:
  void Prepare();

  std::unique_ptr<httplib::Server> server_;
  bool tls_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::jthread thread_;
};

}  // namespace larder::testing
