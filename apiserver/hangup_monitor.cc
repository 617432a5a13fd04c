#include "apiserver/hangup_monitor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

namespace larder::apiserver {

HangupMonitor::HangupMonitor()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

HangupMonitor::~HangupMonitor() {
  Stop();
  close(epoll_);
  close(wake_);
}

void HangupMonitor::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void HangupMonitor::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  const uint64_t one = 1;
  // Cannot fail in a way that matters: a counter that is full wakes the thread too.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
  thread_.join();
}

void HangupMonitor::Watch(Connection& connection) {
  MutexLock lock(mutex_);
  if (!watched_.emplace(connection.fd(), &connection).second) return;
  epoll_event event{};
  event.events = EPOLLRDHUP | EPOLLONESHOT;
  event.data.fd = connection.fd();
  epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd(), &event);
}

void HangupMonitor::Forget(Connection& connection) {
  MutexLock lock(mutex_);
  if (watched_.erase(connection.fd()) > 0) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.fd(), nullptr);
  }
}

void HangupMonitor::Run(const std::stop_token& stop) {
  std::array<epoll_event, 32> events;
  while (!stop.stop_requested()) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      // The lock is held over the call, so that Forget returns only when no call is under way.
      MutexLock lock(mutex_);
      const auto found = watched_.find(events[static_cast<size_t>(i)].data.fd);
      if (found != watched_.end()) found->second->Hangup();
    }
  }
}

}  // namespace larder::apiserver
