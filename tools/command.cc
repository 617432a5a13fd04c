#include "tools/command.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

namespace larder::tools {

int Fail(const Error& error) {
  std::fprintf(stderr, "larder: %s\n", error.message.c_str());
  switch (error.code) {
    case ErrorCode::kCancelled:
      return kInterrupted;
    case ErrorCode::kInvalidArgument:
      return kUsage;
    case ErrorCode::kNotFound:
    case ErrorCode::kCorruption:
      return kBadResult;
    default:
      return kUnusable;
  }
}

std::stop_token HandleSignals() {
  static std::stop_source source;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // Blocked in every thread; one thread waits for them, so that no code runs in a signal handler.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  static std::jthread waiter([signals](const std::stop_token& stop) {
    int received = 0;
    while (!stop.stop_requested()) {
      const timespec patience{0, 100'000'000};
      received = sigtimedwait(&signals, nullptr, &patience);
      if (received < 0) continue;
      if (source.stop_requested()) ::_exit(128 + received);
      source.request_stop();
    }
  });
  return source.get_token();
}

}  // namespace larder::tools
