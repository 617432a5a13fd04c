// How far a long command is: a bar on a terminal, a plain line every few seconds elsewhere.
//
// Writes to stderr, so that stdout stays clean. The bar is erased at the end. Not thread-safe.
//
//   Progress progress("verifying", total);
//   progress.Update(done);
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace larder::tools {

class Progress {
  using SteadyClock = std::chrono::steady_clock;

 public:
  // `total` 0: not known; then the count is shown. `quiet`: nothing at all.
  Progress(std::string what, uint64_t total, bool quiet = false);
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(uint64_t done) { Show(done, what_); }
  // The same with another text in front.
  void Show(uint64_t done, const std::string& what);
  // Any text.
  void Say(std::string text);
  void Finish();

 private:
  bool IsDue() const { return !quiet_ && SteadyClock::now() >= next_; }
  const std::string what_;
  const uint64_t total_;
  const bool quiet_;
  const int width_;  // of the terminal; 0: none
  bool shown_ = false;
  SteadyClock::time_point next_;
};

// For work that cannot say how far it is: how long it has taken so far.
//
//   const Waiting waiting("copying");
//   Copy();
class Waiting {
 public:
  explicit Waiting(std::string what, bool quiet = false);
  void Finish() { shown_ = {}; }

 private:
  std::jthread shown_;
};

}  // namespace larder::tools
