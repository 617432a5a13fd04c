// A small HTTP/2 server, TLS only, for one test: it answers when enough requests are waiting.
//
// Holding all answers back until `together` requests are there at once proves that they share
// connections: a client that sends one after the other would wait for ever.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/config.h"
#include "tests/client/test_certificates.h"

namespace larder::testing {

class Http2Server {
 public:
  Http2Server(const Identity& identity, int together, std::string body);
  ~Http2Server();

  ClientConfig Config() const;
  // Connections that are open when it is called get no answers any more.
  void GetStuck() { stuck_below_ = connections_.load(); }
  int connections() const { return connections_; }
  int requests() const { return requests_; }

 private:
  friend struct Http2Connection;
  void Accept();
  void Serve(int socket);

  struct ContextDeleter {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  std::unique_ptr<SSL_CTX, ContextDeleter> tls_;
  const int together_;
  const std::string body_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::atomic<int> requests_{0};
  std::atomic<int> stuck_below_{0};
  std::vector<std::jthread> serving_;  // the acceptor's
  std::jthread acceptor_;
};

}  // namespace larder::testing
