#include "tests/client/connect_proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace larder::testing {
namespace {

constexpr int kSliceMs = 5;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Moves what is there to read; false at the end.
bool Move(int from, int to) {
  char block[16384];
  const ssize_t n = ::recv(from, block, sizeof block, 0);
  return n > 0 && ::send(to, block, static_cast<size_t>(n), MSG_NOSIGNAL) == n;
}

}  // namespace

ConnectProxy::ConnectProxy() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("the proxy did not start");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { Accept(); });
}

ConnectProxy::~ConnectProxy() {
  stopping_ = true;
  acceptor_.join();
  tunnels_.clear();
  ::close(listener_);
}

std::vector<std::string> ConnectProxy::heads() const {
  std::lock_guard lock(mutex_);
  return heads_;
}

void ConnectProxy::Accept() {
  while (!stopping_) {
    pollfd waiting_for{listener_, POLLIN, 0};
    if (::poll(&waiting_for, 1, kSliceMs) <= 0) continue;
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) tunnels_.emplace_back([this, client] { Tunnel(client); });
  }
}

void ConnectProxy::Tunnel(int client) {
  std::string head;
  char c = 0;
  while (!head.ends_with("\r\n\r\n") && ::recv(client, &c, 1, 0) == 1) head += c;
  {
    std::lock_guard lock(mutex_);
    heads_.push_back(head);
  }
  // Whatever the host, tests only have servers on this machine.
  const sockaddr_in address = Loopback(std::atoi(head.c_str() + head.find(':') + 1));
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    constexpr std::string_view kAnswer =
        "HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n";
    ::send(client, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
    Relay(client, server);
  }
  ::close(server);
  ::close(client);
}

void ConnectProxy::Relay(int client, int server) {
  while (!stopping_) {
    pollfd ends[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (::poll(ends, 2, kSliceMs) <= 0) continue;
    if (ends[0].revents != 0 && !Move(client, server)) return;
    if (ends[1].revents != 0 && !Move(server, client)) return;
  }
}

}  // namespace larder::testing
