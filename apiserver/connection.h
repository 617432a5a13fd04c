// One client's connection, plain or TLS, under httplib's request handling.
//
// httplib's own streams give up a write after some seconds, poll idle connections ten times a
// second and cannot be dropped from inside a handler; a simulator of long watches with
// back-pressure and faults needs the opposite. But that is for those who may ask: until a handler
// lifts the limits, a peer has so much time for its handshake and its request, and so many bytes.
//
// Used by the connection's own thread, except Abort, Hangup and closed, which any thread may call.
#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"

namespace larder::apiserver {

class Connection final : public httplib::Stream {
 public:
  // What a peer gets of whom nobody knows yet whether it may ask.
  struct Limits {
    // The request's line and headers. A token is some hundred bytes, a long selector a few
    // thousand.
    size_t head_bytes = size_t{64} << 10;
    // For the handshake and the first request's head, and for the head of each further one.
    std::chrono::milliseconds head_time = std::chrono::seconds(10);
    // For the body, of a few megabytes at most, and for an answer without LiftLimits.
    std::chrono::milliseconds body_time = std::chrono::seconds(30);
  };

  // Takes over the socket. `tls` null: plain.
  Connection(int socket, SSL_CTX* tls, const Limits& limits);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The TLS handshake, where there is one.
  bool Accept();
  // Waits for the next request's first byte, from where on its head is limited. `idle` is for a
  // peer whose last request lifted the limits; another one has the time of a head. False: the peer
  // closed, the time is over, or it was aborted.
  bool WaitForRequest(std::chrono::milliseconds idle);
  // The head was read: what is limited now is the body.
  void EndHead(size_t body_bytes);
  // The peer may ask what it asks, and that takes as long as it takes: a slow reader of a watch is
  // back-pressure, not an error. Until the next request.
  void LiftLimits();
  // A limit was met: there is no next request.
  bool exceeded() const { return exceeded_; }
  // The name in the client's verified certificate; empty: none.
  std::string CertificateUser() const;

  // Ends all reading and writing at once, and wakes whoever waits in them. Any thread.
  void Abort();
  // Called by the monitor when the peer has gone. Any thread.
  void Hangup();
  bool closed() const { return closed_.load(); }
  // What Hangup and Abort call, to wake the thread that serves this connection from its own wait.
  void SetWaker(std::function<void()> waker);

  // What is written from now on is counted there too.
  void CountInto(std::atomic<uint64_t>* bytes) { counter_ = bytes; }
  // Bytes a second; 0: as fast as it goes.
  void Throttle(uint64_t bytes_per_second) { throttle_ = bytes_per_second; }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !closed(); }
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  // httplib only compares it with FD_SETSIZE, a limit that does not concern us.
  socket_t socket() const override { return 0; }
  int fd() const { return socket_; }

  // The connection whose request this thread handles.
  static Connection* Current();
  void MakeCurrent();

 private:
  using Time = std::chrono::steady_clock::time_point;

  // Repeats what would block until it is done, or the time is over. 0: the peer closed; -1: it
  // failed.
  template <typename Operation>
  ssize_t Repeat(const Operation& operation, short events);
  bool Wait(short events);
  ssize_t WriteSome(const char* data, size_t size);
  void Close(bool shut);

  const int socket_;
  const Limits limits_;
  SSL* ssl_ = nullptr;
  std::optional<Time> deadline_;      // none: as long as it takes
  std::optional<size_t> bytes_left_;  // of the head or the body; none: as many as come
  bool first_ = true;                 // no request was waited for yet
  bool exceeded_ = false;
  std::atomic<bool> closed_ = false;
  Mutex waker_mutex_;
  std::function<void()> waker_ LARDER_GUARDED_BY(waker_mutex_);
  std::atomic<uint64_t>* counter_ = nullptr;
  uint64_t throttle_ = 0;
  // httplib reads a request's head byte by byte.
  std::string buffer_;
  size_t buffer_at_ = 0;
};

}  // namespace larder::apiserver
