#include "tests/client/http2_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <stdexcept>

namespace larder::testing {
namespace {

constexpr int kServerSliceMs = 5;
constexpr int kBlockedAfterMs = 200;

nghttp2_nv Header(const char* name, const char* value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name)),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value)), std::strlen(name),
          std::strlen(value), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

// One connection, on its own thread.
struct Http2Connection {
  Http2Server* server;
  SSL* tls;
  int number;
  nghttp2_session* session = nullptr;
  std::vector<int32_t> waiting;
  std::map<int32_t, size_t> sent;  // bytes of the body, by stream

  static ssize_t ReadBody(nghttp2_session*, int32_t stream, uint8_t* out, size_t size,
                          uint32_t* flags, nghttp2_data_source* source, void*) {
    auto* self = static_cast<Http2Connection*>(source->ptr);
    const std::string& body = self->server->body_;
    size_t& at = self->sent[stream];
    const size_t n = std::min(size, body.size() - at);
    std::copy_n(body.data() + at, n, out);
    at += n;
    if (at == body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(n);
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto* self = static_cast<Http2Connection*>(user);
    const bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!ended || !carries) return 0;
    ++self->server->requests_;
    if (self->number < self->server->stuck_below_) return 0;
    self->waiting.push_back(frame->hd.stream_id);
    return 0;
  }

  void Answer() {
    const bool together = static_cast<int>(waiting.size()) >= server->together_;
    if (!together || server->hold_http2_) return;
    for (const int32_t stream : waiting) {
      const nghttp2_nv headers[] = {Header(":status", "200"),
                                    Header("content-type", "application/json")};
      nghttp2_data_provider provider{};
      provider.source.ptr = this;
      provider.read_callback = &ReadBody;
      nghttp2_submit_response(session, stream, headers, 2, &provider);
    }
    waiting.clear();
  }

  bool Send() {
    const uint8_t* data = nullptr;
    for (ssize_t n = 0; (n = nghttp2_session_mem_send(session, &data)) > 0;) {
      for (ssize_t done = 0; done < n;) {
        const int wrote = SSL_write(tls, data + done, static_cast<int>(n - done));
        if (wrote <= 0) return false;
        done += wrote;
      }
    }
    return true;
  }

  void Run(int socket) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &OnFrame);
    nghttp2_session_server_new(&session, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, server->max_streams_}};
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 1);
    uint8_t block[16384];
    while (!server->stopping_ && number >= server->close_below_) {
      Answer();
      if (!Send()) break;
      pollfd waiting_for{socket, POLLIN, 0};
      if (SSL_pending(tls) == 0 && ::poll(&waiting_for, 1, kServerSliceMs) == 0) continue;
      const int n = SSL_read(tls, block, sizeof block);
      if (n <= 0) break;
      if (nghttp2_session_mem_recv(session, block, static_cast<size_t>(n)) < 0) break;
    }
    nghttp2_session_del(session);
  }
};

// One connection of HTTP/1.1, on its own thread.
struct Http1Connection {
  Http2Server* server;
  SSL* tls;
  int socket;
  int number;

  bool Send(const std::string& text) {
    return SSL_write(tls, text.data(), static_cast<int>(text.size())) > 0;
  }

  bool Poll(short events, int wait_ms) const {
    pollfd waiting_for{socket, events, 0};
    return ::poll(&waiting_for, 1, wait_ms) > 0;
  }

  // The head of the next request; empty at the end. Nobody sends a body here.
  std::string ReadHead() {
    std::string head;
    char block[4096];
    while (!server->stopping_ && !head.ends_with("\r\n\r\n")) {
      if (SSL_pending(tls) == 0 && !Poll(POLLIN, kServerSliceMs)) continue;
      const int n = SSL_read(tls, block, sizeof block);
      if (n <= 0) return {};
      head.append(block, static_cast<size_t>(n));
    }
    return server->stopping_ ? std::string() : head;
  }

  bool Intruded() {
    if (SSL_pending(tls) == 0 && !Poll(POLLIN, 0)) return false;
    char block[4096];
    const int n = SSL_read(tls, block, sizeof block);
    if (n <= 0) return true;
    server->intruding_bytes_ += n;
    return false;
  }

  void Watch() {
    bool open = Send(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: "
        "chunked\r\n\r\n");
    while (open && !server->stopping_ && !server->watch_ended_) {
      if (Intruded()) return;
      server->watch_blocked_ = !Poll(POLLOUT, kBlockedAfterMs);
      if (server->watch_blocked_) continue;
      char chunk[32];
      std::snprintf(chunk, sizeof chunk, "8\r\n%07d\n\r\n", server->watch_lines_.load());
      open = Send(chunk);
      ++server->watch_lines_;
    }
    Send("0\r\n\r\n");
  }

  void Run() {
    for (std::string head; !(head = ReadHead()).empty();) {
      ++server->requests_;
      if (head.starts_with("GET /watch")) {
        Watch();
        continue;
      }
      while (server->hold_http1_ && !server->stopping_) {
        if (Intruded()) return;
        ::poll(nullptr, 0, kServerSliceMs);
      }
      if (!Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(server->body_.size()) + "\r\n\r\n" + server->body_)) {
        return;
      }
    }
  }
};

int Http2Server::SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                                const unsigned char* in, unsigned in_size, void* server) {
  static constexpr unsigned char kBoth[] = "\x02h2\x08http/1.1";
  const size_t skip = static_cast<Http2Server*>(server)->offers_http2_ ? 0 : 3;
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kBoth + skip,
                            static_cast<unsigned>(sizeof kBoth - 1 - skip), in,
                            in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Http2Server::Http2Server(const Identity& identity, int together, std::string body)
    : tls_(SSL_CTX_new(TLS_server_method())), together_(together), body_(std::move(body)) {
  SSL_CTX_use_certificate(tls_.get(), identity.certificate.get());
  SSL_CTX_use_PrivateKey(tls_.get(), identity.key.get());
  SSL_CTX_set_alpn_select_cb(tls_.get(), &SelectProtocol, this);
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("the HTTP/2 test server did not start");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { Accept(); });
}

Http2Server::~Http2Server() {
  stopping_ = true;
  acceptor_.join();
  serving_.clear();
  ::close(listener_);
}

void Http2Server::CloseHttp2() {
  close_below_ = connections_.load();
  while (open_http2_ > 0) ::poll(nullptr, 0, 1);
}

void Http2Server::ResetHttp2() {
  reset_ = true;
  CloseHttp2();
  reset_ = false;
}

ClientConfig Http2Server::Config() const {
  return ForUrl("https://127.0.0.1:" + std::to_string(port_));
}

void Http2Server::Accept() {
  // Its threads inherit that: OpenSSL writes to sockets that the client has closed.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  while (!stopping_) {
    pollfd waiting_for{listener_, POLLIN, 0};
    if (::poll(&waiting_for, 1, kServerSliceMs) <= 0) continue;
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) serving_.emplace_back([this, socket] { Serve(socket); });
  }
}

void Http2Server::Serve(int socket) {
  const int number = connections_++;
  SSL* tls = SSL_new(tls_.get());
  SSL_set_fd(tls, socket);
  bool http2 = false;
  if (SSL_accept(tls) == 1) {
    const unsigned char* protocol = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(tls, &protocol, &size);
    http2 = size == 2;
    if (http2) {
      ++open_http2_;
      Http2Connection{this, tls, number, nullptr, {}, {}}.Run(socket);
    } else {
      Http1Connection{this, tls, socket, number}.Run();
    }
  }
  SSL_free(tls);
  const linger at_once{1, 0};
  if (reset_) ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(socket);
  if (http2) --open_http2_;
}

}  // namespace larder::testing
