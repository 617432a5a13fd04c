// A small HTTP/2 server, TLS only, for one test: it answers when enough requests are waiting.
//
// Holding all answers back until `together` requests are there at once proves that they share
// connections: a client that sends one after the other would wait for ever.
//
// Who asks for HTTP/1.1 gets that: a body for every request, or for "/watch" numbered lines, as
// many as the client takes, until EndWatch().
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
  // While it is set, requests of HTTP/2 or of HTTP/1.1 get no answers.
  void HoldHttp2(bool hold) { hold_http2_ = hold; }
  void HoldHttp1(bool hold) { hold_http1_ = hold; }
  // How many requests a connection of HTTP/2 takes at once. Before the first connection.
  void SetMaxStreams(uint32_t max_streams) { max_streams_ = max_streams; }
  // Ends the HTTP/2 connections, as a server does with idle ones; returns when they are closed.
  void CloseHttp2();
  // The same with a reset, as a server or a load balancer does that is started anew. To libcurl,
  // unlike a close, a reason to send a request again.
  void ResetHttp2();
  // New connections are HTTP/1.1, as with a load balancer that has older servers behind it.
  void OnlyHttp1FromNowOn() { offers_http2_ = false; }
  // The client takes no more of the watch: it paused it.
  bool watch_blocked() const { return watch_blocked_; }
  void EndWatch() { watch_ended_ = true; }
  int watch_lines() const { return watch_lines_; }
  // Bytes that arrived on a connection of HTTP/1.1 while it was being answered.
  int intruding_bytes() const { return intruding_bytes_; }
  int connections() const { return connections_; }
  int requests() const { return requests_; }

 private:
  friend struct Http2Connection;
  friend struct Http1Connection;
  static int SelectProtocol(SSL* tls, const unsigned char** out, unsigned char* out_size,
                            const unsigned char* in, unsigned in_size, void* server);
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
  std::atomic<bool> offers_http2_{true};
  std::atomic<bool> hold_http2_{false};
  std::atomic<bool> hold_http1_{false};
  std::atomic<uint32_t> max_streams_{100};
  std::atomic<int> close_below_{0};  // HTTP/2 connections with a lower number are to be closed
  std::atomic<bool> reset_{false};
  std::atomic<int> open_http2_{0};
  std::atomic<bool> watch_blocked_{false};
  std::atomic<bool> watch_ended_{false};
  std::atomic<int> watch_lines_{0};
  std::atomic<int> intruding_bytes_{0};
  std::vector<std::jthread> serving_;  // the acceptor's
  std::jthread acceptor_;
};

}  // namespace larder::testing
