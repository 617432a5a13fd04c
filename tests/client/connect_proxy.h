// An HTTP proxy that only tunnels, for one test: it remembers what it was asked.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace larder::testing {

class ConnectProxy {
 public:
  ConnectProxy();
  ~ConnectProxy();

  std::string Url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // The heads of the requests that it got, headers included.
  std::vector<std::string> heads() const;

 private:
  void Accept();
  void Tunnel(int client);
  void Relay(int client, int server);

  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> heads_;
  std::vector<std::jthread> tunnels_;  // the acceptor's
  std::jthread acceptor_;
};

}  // namespace larder::testing
