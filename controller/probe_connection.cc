#include "controller/probe_connection.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace larder::internal {

ProbeConnection::ProbeConnection(int socket, std::shared_ptr<SSL_CTX> tls, const Limits& limits)
    : socket_(socket),
      tls_(std::move(tls)),
      limits_(limits),
      deadline_(std::chrono::steady_clock::now() + limits.request_time),
      bytes_left_(limits.request_bytes) {
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  if (!tls_) return;
  ssl_ = SSL_new(tls_.get());
  SSL_set_fd(ssl_, socket_);
}

ProbeConnection::~ProbeConnection() {
  if (ssl_) {
    if (SSL_is_init_finished(ssl_) && !aborted_) SSL_shutdown(ssl_);
    SSL_free(ssl_);
  }
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

void ProbeConnection::Abort() {
  aborted_ = true;
  ::shutdown(socket_, SHUT_RDWR);
}

bool ProbeConnection::Wait(short events) const {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    if (aborted_ || left.count() <= 0) return false;
    pollfd wait{socket_, events, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

template <typename Operation>
ssize_t ProbeConnection::Repeat(const Operation& operation, short events) {
  for (;;) {
    // Also where there is always more to do at once.
    if (aborted_ || std::chrono::steady_clock::now() >= deadline_) return -1;
    ERR_clear_error();
    const ssize_t done = operation();
    if (done > 0) return done;
    short wanted = events;
    if (ssl_) {
      const int error = SSL_get_error(ssl_, static_cast<int>(done));
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return -1;
      wanted = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    } else if (done == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return -1;
    }
    if (!Wait(wanted)) return -1;
  }
}

bool ProbeConnection::Accept() {
  return !ssl_ || Repeat([this] { return SSL_accept(ssl_); }, POLLIN) > 0;
}

ssize_t ProbeConnection::read(char* data, size_t size) {
  if (buffer_at_ == buffer_.size()) {
    if (bytes_left_ == 0) return -1;
    buffer_.resize(std::min<size_t>(bytes_left_, 4096));
    buffer_at_ = 0;
    const ssize_t got = Repeat(
        [this]() -> ssize_t {
          return ssl_ ? SSL_read(ssl_, buffer_.data(), static_cast<int>(buffer_.size()))
                      : ::recv(socket_, buffer_.data(), buffer_.size(), 0);
        },
        POLLIN);
    buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
    if (got <= 0) return -1;
    bytes_left_ -= buffer_.size();
  }
  const size_t count = std::min(size, buffer_.size() - buffer_at_);
  std::copy_n(buffer_.data() + buffer_at_, count, data);
  buffer_at_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t ProbeConnection::write(const char* data, size_t size) {
  if (size == 0) return 0;
  if (phase_.exchange(Phase::kWriting) != Phase::kWriting) {
    deadline_ = std::chrono::steady_clock::now() + limits_.answer_time;
  }
  return Repeat(
      [&]() -> ssize_t {
        return ssl_ ? SSL_write(ssl_, data, static_cast<int>(std::min<size_t>(size, 1 << 30)))
                    : ::send(socket_, data, size, MSG_NOSIGNAL);
      },
      POLLOUT);
}

}  // namespace larder::internal
