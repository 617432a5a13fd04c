#include "apiserver/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace larder::apiserver {
namespace {

thread_local Connection* current_connection = nullptr;

void Address(const sockaddr_storage& storage, std::string& ip, int& port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    port = ntohs(v4.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    port = ntohs(v6.sin6_port);
  }
  ip = text;
}

}  // namespace

Connection::Connection(int socket, SSL_CTX* tls, const Limits& limits)
    : socket_(socket),
      limits_(limits),
      deadline_(std::chrono::steady_clock::now() + limits.head_time),
      bytes_left_(limits.head_bytes) {
  // A time-out of the socket would be for each read, and who sends a byte now and then has none.
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (tls) {
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, socket_);
  }
}

Connection::~Connection() {
  if (ssl_) {
    if (!closed() && SSL_is_init_finished(ssl_)) SSL_shutdown(ssl_);
    SSL_free(ssl_);
  }
  shutdown(socket_, SHUT_RDWR);
  close(socket_);
  if (current_connection == this) current_connection = nullptr;
}

bool Connection::Wait(short events) {
  for (;;) {
    int left = -1;
    if (deadline_) {
      const auto time = std::chrono::ceil<std::chrono::milliseconds>(
          *deadline_ - std::chrono::steady_clock::now());
      if (time.count() <= 0) {
        exceeded_ = true;
        return false;
      }
      left = static_cast<int>(time.count());
    }
    pollfd wait{socket_, events, 0};
    const int ready = poll(&wait, 1, left);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

template <typename Operation>
ssize_t Connection::Repeat(const Operation& operation, short events) {
  for (;;) {
    // Also where there is always more to do at once.
    if (deadline_ && std::chrono::steady_clock::now() >= *deadline_) {
      exceeded_ = true;
      return -1;
    }
    ERR_clear_error();
    const ssize_t done = operation();
    if (done > 0) return done;
    short wanted = events;
    if (ssl_) {
      const int error = SSL_get_error(ssl_, static_cast<int>(done));
      if (error == SSL_ERROR_ZERO_RETURN) return 0;
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return -1;
      wanted = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    } else if (done == 0) {
      return 0;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      return -1;
    }
    if (!Wait(wanted)) return -1;
  }
}

bool Connection::Accept() {
  return !ssl_ || Repeat([this] { return SSL_accept(ssl_); }, POLLIN) > 0;
}

bool Connection::WaitForRequest(std::chrono::milliseconds idle) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  // The time for the first one began with the connection.
  if (!first_) deadline_ = now() + (deadline_ ? limits_.head_time : idle);
  const bool here = buffer_at_ < buffer_.size() || (ssl_ && SSL_pending(ssl_) > 0);
  if (!here && !Wait(POLLIN)) return false;
  if (!first_) deadline_ = now() + limits_.head_time;
  first_ = false;
  bytes_left_ = limits_.head_bytes;
  return !closed();
}

void Connection::EndHead(size_t body_bytes) {
  deadline_ = std::chrono::steady_clock::now() + limits_.body_time;
  bytes_left_ = body_bytes;
}

void Connection::LiftLimits() {
  deadline_.reset();
  bytes_left_.reset();
}

std::string Connection::CertificateUser() const {
  if (!ssl_) return {};
  X509* const certificate = SSL_get1_peer_certificate(ssl_);
  if (!certificate) return {};
  char name[256] = "";
  if (SSL_get_verify_result(ssl_) == X509_V_OK) {
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof(name));
  }
  X509_free(certificate);
  return name;
}

void Connection::Close(bool shut) {
  closed_ = true;
  if (shut) shutdown(socket_, SHUT_RDWR);
  std::function<void()> waker;
  {
    MutexLock lock(waker_mutex_);
    waker = waker_;
  }
  if (waker) waker();
}

void Connection::Abort() { Close(true); }
void Connection::Hangup() { Close(false); }

void Connection::SetWaker(std::function<void()> waker) {
  MutexLock lock(waker_mutex_);
  waker_ = std::move(waker);
}

ssize_t Connection::read(char* data, size_t size) {
  if (bytes_left_ && *bytes_left_ == 0 && size > 0) {
    exceeded_ = true;
    return -1;
  }
  if (buffer_at_ == buffer_.size()) {
    buffer_.resize(16 * 1024);
    buffer_at_ = 0;
    const ssize_t got = Repeat(
        [this]() -> ssize_t {
          return ssl_ ? SSL_read(ssl_, buffer_.data(), static_cast<int>(buffer_.size()))
                      : recv(socket_, buffer_.data(), buffer_.size(), 0);
        },
        POLLIN);
    buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
    if (got <= 0) return got;
  }
  size_t count = std::min(size, buffer_.size() - buffer_at_);
  if (bytes_left_) {
    count = std::min(count, *bytes_left_);
    *bytes_left_ -= count;
  }
  std::copy_n(buffer_.data() + buffer_at_, count, data);
  buffer_at_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::WriteSome(const char* data, size_t size) {
  if (closed()) return -1;
  if (size == 0) return 0;
  const ssize_t sent = Repeat(
      [&]() -> ssize_t {
        return ssl_ ? SSL_write(ssl_, data, static_cast<int>(std::min<size_t>(size, 1 << 30)))
                    : send(socket_, data, size, MSG_NOSIGNAL);
      },
      POLLOUT);
  if (sent <= 0) return -1;
  if (counter_) counter_->fetch_add(static_cast<uint64_t>(sent), std::memory_order_relaxed);
  return sent;
}

ssize_t Connection::write(const char* data, size_t size) {
  if (throttle_ == 0) return WriteSome(data, size);
  // In pieces of a twentieth of a second, or of one byte.
  const size_t piece = std::min(size, std::max<size_t>(1, throttle_ / 20));
  const ssize_t sent = WriteSome(data, piece);
  if (sent > 0) {
    pollfd hangup{socket_, POLLRDHUP, 0};
    poll(&hangup, 1, static_cast<int>(static_cast<uint64_t>(sent) * 1000 / throttle_));
  }
  return sent;
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getpeername(socket_, reinterpret_cast<sockaddr*>(&storage), &size) == 0) {
    Address(storage, ip, port);
  }
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&storage), &size) == 0) {
    Address(storage, ip, port);
  }
}

Connection* Connection::Current() { return current_connection; }
void Connection::MakeCurrent() { current_connection = this; }

}  // namespace larder::apiserver
