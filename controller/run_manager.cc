// What a main() needs around a manager: signals, logging, messages.
#include <pthread.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/process.h"
#include "controller/manager.h"

namespace larder {
namespace {

constexpr std::chrono::seconds kOneWish{1};

// Lives as long as the process, like the signals that it waits for.
class SignalWaiter {
 public:
  SignalWaiter() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    thread_ = std::jthread([this, signals](const std::stop_token& ended) {
      int received = 0;
      sigwait(&signals, &received);
      if (ended.stop_requested()) return;
      spdlog::info("signal {}: shutting down", received);
      source_.request_stop();
      // A wrapper and a terminal often send the same signal twice: that is one wish.
      const Clock::Steady first = RealClock()->Now();
      do {
        sigwait(&signals, &received);
        if (ended.stop_requested()) return;
      } while (RealClock()->Now() < first + kOneWish);
      spdlog::warn("a second signal: ending at once");
      std::_Exit(128 + received);
    });
  }
  ~SignalWaiter() {
    thread_.request_stop();
    // It waits for this signal, and takes it.
    // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
    pthread_kill(thread_.native_handle(), SIGTERM);
  }
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread thread_;
};

}  // namespace

std::stop_token StopOnSignals() {
  static SignalWaiter waiter;
  return waiter.token();
}

int RunManager(int argc, const char* const* argv,
               const std::function<Result<void>(Manager& manager)>& setup) {
  PrepareProcess();
  const std::stop_token stop = StopOnSignals();
  const Result<ManagerConfig> config = ManagerConfig::Load(argc, argv);
  if (!config) {
    std::fprintf(stderr, "%s: %s\n", argc > 0 ? argv[0] : "controller",
                 config.error().message.c_str());
    return 2;
  }
  if (config->help_text) {
    std::fputs(config->help_text->c_str(), stdout);
    return 0;
  }
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      config->program, std::make_shared<spdlog::sinks::stderr_color_sink_mt>()));
  UseLogFormat();
  spdlog::set_level(spdlog::level::from_str(config->log_level));
  const Result<void> outcome = [&]() -> Result<void> {
    LARDER_ASSIGN_OR_RETURN(auto manager, Manager::Create({.config = *config}));
    LARDER_RETURN_IF_ERROR(setup(*manager));
    return manager->Run(stop);
  }();
  if (outcome) return 0;
  spdlog::error("{}", outcome.error().ToString());
  return 1;
}

}  // namespace larder
