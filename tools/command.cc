#include "tools/command.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stop_token>
#include <thread>

#include "tools/backup.h"
#include "tools/output.h"

namespace larder::tools {

int Fail(const Error& error) {
  std::fprintf(stderr, "larder: %s\n", Printable(error.message).c_str());
  switch (error.code) {
    case ErrorCode::kCancelled:
      return kInterrupted;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kAlreadyExists:
      return kUsage;
    case ErrorCode::kNotFound:
    case ErrorCode::kCorruption:
      return kBadResult;
    default:
      return kUnusable;
  }
}

int ExitCode(const Result<int>& result) { return result ? *result : Fail(result.error()); }

std::string CheckCount(const std::string& text) {
  // CLI11 would read -1 as the greatest of all numbers.
  const bool digits = !text.empty() && text.size() <= 18 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? "" : text + " is no number of things";
}

std::string CheckListen(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool number = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  if (number && std::stoi(port) <= 65535) return {};
  return text + " is not HOST:PORT with a port between 0 and 65535";
}

void AddCommands(CLI::App& app, Context& context) {
  AddDemo(app, context);
  AddSimulate(app, context);
  AddRun(app, context);
  AddServe(app, context);
  AddGet(app, context);
  AddDescribe(app, context);
  AddTree(app, context);
  AddHistory(app, context);
  AddDiff(app, context);
  AddCollections(app, context);
  AddIndex(app, context);
  AddQueue(app, context);
  AddStats(app, context);
  AddDoctor(app, context);
  AddVerify(app, context);
  AddCompact(app, context);
  AddTune(app, context);
  AddSnapshot(app, context);
  AddBackup(app, context);
  AddExport(app, context);
  AddImport(app, context);
  AddCompletion(app, context);
  AddHelp(app, context);
  AddMan(app, context);
  AddVersion(app, context);
}

namespace {

// One thread waits for the signals, which are blocked everywhere else, so that no code runs in a
// signal handler.
class SignalWaiter {
 public:
  explicit SignalWaiter(const sigset_t& signals) : signals_(signals), thread_([this] { Wait(); }) {}
  ~SignalWaiter() {
    over_ = true;
    pthread_kill(thread_.native_handle(), kEnd);
    thread_.join();
  }
  StopOnSignal stop() { return {stop_.get_token(), &taken_}; }

  // Wakes the thread when the program is over; from anybody else it means nothing.
  static constexpr int kEnd = SIGUSR1;

 private:
  void Wait() {
    for (;;) {
      int received = 0;
      if (sigwait(&signals_, &received) != 0 || over_) return;
      if (received == kEnd) continue;
      if (!taken_ || stop_.stop_requested()) EndInterrupted();
      stop_.request_stop();
    }
  }

  const sigset_t signals_;
  std::stop_source stop_;
  std::atomic<bool> taken_{false}, over_{false};
  std::thread thread_;
};

}  // namespace

void EndInterrupted() { ::_exit(kInterrupted); }

StopOnSignal HandleSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SignalWaiter::kEnd}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A pipe that is closed early shows in the write (tools/output.h).
  ::signal(SIGPIPE, SIG_IGN);
  static SignalWaiter waiter(signals);
  return waiter.stop();
}

}  // namespace larder::tools
