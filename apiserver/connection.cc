#include "apiserver/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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

Connection::Connection(int socket, SSL_CTX* tls) : socket_(socket) {
  // No time-outs: a slow reader of a watch is back-pressure, not an error.
  const timeval forever{};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof(forever));
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (tls) {
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, socket_);
  }
}

Connection::~Connection() {
  if (ssl_) {
    if (!closed()) SSL_shutdown(ssl_);
    SSL_free(ssl_);
  }
  shutdown(socket_, SHUT_RDWR);
  close(socket_);
  if (current_connection == this) current_connection = nullptr;
}

bool Connection::Accept() { return !ssl_ || SSL_accept(ssl_) == 1; }

bool Connection::WaitForRequest(std::chrono::milliseconds timeout) {
  if (buffer_at_ < buffer_.size() || (ssl_ && SSL_pending(ssl_) > 0)) return true;
  pollfd wait{socket_, POLLIN, 0};
  return poll(&wait, 1, static_cast<int>(timeout.count())) == 1 && !closed();
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
  if (buffer_at_ == buffer_.size()) {
    buffer_.resize(16 * 1024);
    buffer_at_ = 0;
    const ssize_t got = ssl_ ? SSL_read(ssl_, buffer_.data(), static_cast<int>(buffer_.size()))
                             : recv(socket_, buffer_.data(), buffer_.size(), 0);
    buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
    if (got <= 0) return got == 0 ? 0 : -1;
  }
  const size_t count = std::min(size, buffer_.size() - buffer_at_);
  std::copy_n(buffer_.data() + buffer_at_, count, data);
  buffer_at_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::WriteSome(const char* data, size_t size) {
  if (closed()) return -1;
  ssize_t sent = 0;
  if (ssl_) {
    sent = SSL_write(ssl_, data, static_cast<int>(std::min<size_t>(size, 1 << 30)));
  } else {
    sent = send(socket_, data, size, MSG_NOSIGNAL);
  }
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
