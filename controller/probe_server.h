// The HTTP side of the health server: httplib with connections of our own (ProbeConnection).
//
// It is open to whoever reaches the port, so a request is GET or HEAD, small and quick, and a
// connection serves one. A thread has a connection for as long as it is open; when none is free,
// the connection that has had its thread for longest without being asked anything is closed for the
// next one. So probes are answered beside clients that say nothing, or everything slowly.
//
// Stop ends open connections at once; only checks that run are waited for.
#pragma once

#include <httplib.h>

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "controller/probe_connection.h"
#include "controller/serving_certificate.h"

namespace larder::internal {

class ProbeServer final : public httplib::Server {
 public:
  // `certificate` null: plain HTTP.
  explicit ProbeServer(std::unique_ptr<ServingCertificate> certificate);
  ~ProbeServer() override;

  // Listens and serves. `host` empty: all addresses, IPv6 and IPv4. Returns the port; -1: taken.
  int Start(const std::string& host, int port);
  void Stop();

 private:
  bool process_and_close_socket(socket_t socket) override;
  // A connection waits for a thread.
  void MakeRoom();

  const std::unique_ptr<ServingCertificate> certificate_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> ended_ = false;
  Mutex mutex_;
  size_t waiting_ LARDER_GUARDED_BY(mutex_) = 0;                       // for a thread
  std::list<ProbeConnection*> connections_ LARDER_GUARDED_BY(mutex_);  // the oldest first
  std::jthread acceptor_;
};

}  // namespace larder::internal
