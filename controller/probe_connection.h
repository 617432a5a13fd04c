// One connection of the health server, plain or TLS, under httplib's request handling.
//
// httplib's own streams bound each read, not all of them: who sends a byte now and then has a
// thread for ever, and what has no end is read to the end. Here a request has so many bytes and so
// much time, handshake included, and an answer so much time.
//
// Used by the connection's own thread, except Abort and phase, which any thread may call.
#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

namespace larder::internal {

class ProbeConnection final : public httplib::Stream {
 public:
  struct Limits {
    size_t request_bytes = size_t{16} << 10;
    std::chrono::milliseconds request_time = std::chrono::seconds(3);
    std::chrono::milliseconds answer_time = std::chrono::seconds(10);
  };
  enum class Phase { kReading, kHandling, kWriting };

  // Takes over the socket. `tls` null: plain.
  ProbeConnection(int socket, std::shared_ptr<SSL_CTX> tls, const Limits& limits);
  ~ProbeConnection() override;
  ProbeConnection(const ProbeConnection&) = delete;
  ProbeConnection& operator=(const ProbeConnection&) = delete;

  // The TLS handshake, where there is one.
  bool Accept();
  // The request was read: what follows is the handler's time.
  void EndReading() { phase_ = Phase::kHandling; }
  Phase phase() const { return phase_; }
  // Ends reading and writing at once. Any thread.
  void Abort();
  bool aborted() const { return aborted_; }

  bool is_readable() const override { return !aborted_; }
  bool is_writable() const override { return !aborted_; }
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  // Nobody asks who it was.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  // httplib only compares it with FD_SETSIZE, a limit that does not concern us.
  socket_t socket() const override { return 0; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  // Repeats what would block until it is done or the time is over; -1: it is not done.
  template <typename Operation>
  ssize_t Repeat(const Operation& operation, short events);
  bool Wait(short events) const;

  const int socket_;
  const std::shared_ptr<SSL_CTX> tls_;
  const Limits limits_;
  SSL* ssl_ = nullptr;
  Time deadline_;
  size_t bytes_left_;
  std::atomic<Phase> phase_ = Phase::kReading;
  std::atomic<bool> aborted_ = false;
  // httplib reads a request's head byte by byte.
  std::string buffer_;
  size_t buffer_at_ = 0;
};

}  // namespace larder::internal
