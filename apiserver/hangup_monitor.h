// One thread that notices when the peer of a waiting connection hangs up, so that an open watch
// costs no polling.
//
// Thread-safe. A connection must be forgotten before it is destroyed.
#pragma once

#include <map>
#include <stop_token>
#include <thread>

#include "apiserver/connection.h"
#include "base/mutex.h"

namespace larder::apiserver {

class HangupMonitor {
 public:
  HangupMonitor();
  ~HangupMonitor();

  void Start();
  void Stop();
  // Calls connection.Hangup() once when the peer closes.
  void Watch(Connection& connection);
  void Forget(Connection& connection);

 private:
  void Run(const std::stop_token& stop);

  int epoll_;
  int wake_;
  Mutex mutex_;
  std::map<int, Connection*> watched_ LARDER_GUARDED_BY(mutex_);  // by file descriptor
  std::jthread thread_;
};

}  // namespace larder::apiserver
