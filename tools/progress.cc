#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "tools/age.h"
#include "tools/output.h"

namespace larder::tools {
namespace {

constexpr std::chrono::milliseconds kOnTerminal{100};
constexpr std::chrono::seconds kElsewhere{5};

}  // namespace

Progress::Progress(std::string what, uint64_t total, bool quiet)
    : what_(std::move(what)),
      total_(total),
      quiet_(quiet),
      width_(TerminalWidth(STDERR_FILENO)),
      next_(SteadyClock::now() + (width_ > 0 ? std::chrono::milliseconds(200)
                                             : std::chrono::milliseconds(kElsewhere))) {}

void Progress::Show(uint64_t done, const std::string& what) {
  if (!IsDue()) return;
  const uint64_t percent = total_ == 0 ? 0 : std::min<uint64_t>(100, done * 100 / total_);
  std::string text = total_ == 0 ? fmt::format("{}: {}", what, HumanCount(done))
                                 : fmt::format("{}: {}%", what, percent);
  const int room = width_ - static_cast<int>(text.size()) - 4;
  if (total_ != 0 && room >= 10) {
    const auto length = static_cast<size_t>(std::min(room, 40));
    const size_t full = length * percent / 100;
    text += " [" + std::string(full, '#') + std::string(length - full, ' ') + "]";
  }
  Say(std::move(text));
}

void Progress::Say(std::string text) {
  if (!IsDue()) return;
  next_ = SteadyClock::now() + (width_ > 0 ? kOnTerminal : std::chrono::milliseconds(kElsewhere));
  if (width_ == 0) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  text.resize(std::min(text.size(), static_cast<size_t>(width_ - 1)));
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::Finish() {
  if (!shown_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

Waiting::Waiting(std::string what, bool quiet) {
  if (quiet) return;
  shown_ = std::jthread([what = std::move(what)](const std::stop_token& over) {
    Progress progress(what, 0);
    const Clock::Steady begin = RealClock()->Now();
    while (RealClock()->SleepFor(std::chrono::seconds(1), over)) {
      const auto passed =
          std::chrono::duration_cast<std::chrono::seconds>(RealClock()->Now() - begin);
      progress.Say(fmt::format("{}: {}", what, HumanDuration(passed)));
    }
  });
}

}  // namespace larder::tools
