// What the sub-commands of `larder` share: how one is added, how it ends, how it hears of Ctrl-C.
//
// Exit codes: 0 success; 1 the command ran and the answer is bad (lost work, damage, not found); 2
// wrong usage or bad input, a kubeconfig included; 3 the store or the server cannot be used; 130
// ended by Ctrl-C or SIGTERM.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <stop_token>
#include <string>

#include "base/error.h"

namespace larder::tools {

inline constexpr int kOk = 0;
inline constexpr int kBadResult = 1;
inline constexpr int kUsage = 2;
inline constexpr int kUnusable = 3;
inline constexpr int kInterrupted = 130;

// Ctrl-C and SIGTERM. As long as nobody took the token, they end the process at once with
// kInterrupted: stores are safe to kill, and most commands have nothing to tidy up. Who takes it
// (it converts by itself) ends soon after a stop was requested.
class StopOnSignal {
 public:
  StopOnSignal() = default;
  StopOnSignal(std::stop_token token, std::atomic<bool>* taken)
      : token_(std::move(token)), taken_(taken) {}
  operator std::stop_token() const {  // NOLINT(google-explicit-constructor)
    if (taken_) *taken_ = true;
    return token_;
  }

 private:
  std::stop_token token_;
  std::atomic<bool>* taken_ = nullptr;
};

// For who took the token and comes to work that cannot be stopped:
//   const std::stop_callback at_once(stop, EndInterrupted);
[[noreturn]] void EndInterrupted();

// Set by a sub-command's callback, returned by main.
struct Context {
  int exit_code = kOk;
  StopOnSignal stop{};
};

// Prints "larder: message" on stderr and gives the exit code that fits.
int Fail(const Error& error);

// The code that a command ended with, or Fail of its error.
int ExitCode(const Result<int>& result);

// For an option that is a number of things; empty: it is.
std::string CheckCount(const std::string& text);
// For an option that is HOST:PORT or :PORT; empty: it is.
std::string CheckListen(const std::string& text);

// Makes SIGINT and SIGTERM what StopOnSignal says; a second one ends the process in any case.
// SIGPIPE and SIGUSR1 are ignored. Call once, before any thread.
StopOnSignal HandleSignals();

// Each adds one sub-command.
void AddCollections(CLI::App& app, Context& context);
void AddCompact(CLI::App& app, Context& context);
void AddCompletion(CLI::App& app, Context& context);
void AddDemo(CLI::App& app, Context& context);
void AddDescribe(CLI::App& app, Context& context);
void AddDiff(CLI::App& app, Context& context);
void AddDoctor(CLI::App& app, Context& context);
void AddExport(CLI::App& app, Context& context);
void AddGet(CLI::App& app, Context& context);
void AddHelp(CLI::App& app, Context& context);
void AddHistory(CLI::App& app, Context& context);
void AddImport(CLI::App& app, Context& context);
void AddIndex(CLI::App& app, Context& context);
void AddMan(CLI::App& app, Context& context);
void AddQueue(CLI::App& app, Context& context);
void AddRun(CLI::App& app, Context& context);
void AddServe(CLI::App& app, Context& context);
void AddSimulate(CLI::App& app, Context& context);
void AddSnapshot(CLI::App& app, Context& context);
void AddStats(CLI::App& app, Context& context);
void AddTree(CLI::App& app, Context& context);
void AddTune(CLI::App& app, Context& context);
void AddVerify(CLI::App& app, Context& context);
void AddVersion(CLI::App& app, Context& context);

// All of them, in the order in which help lists them.
void AddCommands(CLI::App& app, Context& context);

}  // namespace larder::tools
