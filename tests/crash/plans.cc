#include "tests/crash/plans.h"

#include <fmt/format.h>

namespace larder::crash {

std::string ChooseFault(Dice& dice) {
  static constexpr const char* kFaults[] = {
      "log:append",    "log:sync",   "table:append", "table:sync", "manifest:append",
      "manifest:sync", "any:append", "any:sync",     "any:rename", "table:open",
      "table:read",    "table:read", "log:read",     "any:read",   "any:open"};
  const std::string fault = dice.OneOf(kFaults);
  // A process renames next to nothing, and reads a log only when it starts.
  const uint64_t most = fault == "any:rename" ? 3 : fault == "log:read" ? 8 : 40;
  return fmt::format("{}:{}", fault, 1 + dice.Below(most));
}

std::string ChoosePlan(const std::string& mode, bool left, Dice& dice) {
  static constexpr const char* kPoints[] = {"log:append",    "log:appended",    "log:sync",
                                            "log:synced",    "table:append",    "table:sync",
                                            "table:synced",  "manifest:append", "manifest:appended",
                                            "manifest:sync", "current:rename",  "options:append"};
  if (mode == "io") return (dice.Chance(50) ? "fail:" : "break:") + ChooseFault(dice);
  // These come once or twice, when a store is opened.
  const auto at_the_start = [](const std::string& point) {
    return point.starts_with("current:") || point.starts_with("options:");
  };
  // Soon after a start from what is not synced.
  if (mode == "power" && left && dice.Chance(80)) {
    static constexpr const char* kEarly[] = {"log:append", "log:sync", "manifest:sync"};
    return fmt::format("power:{}:{}", dice.OneOf(kEarly), 1 + dice.Below(15));
  }
  if (mode == "power") {
    const std::string point = dice.OneOf(kPoints);
    const uint64_t most = at_the_start(point) ? 2 : dice.Chance(50) ? 12 : 150;
    return fmt::format("power:{}:{}", point, 1 + dice.Below(most));
  }
  // Where the bug is between two writes, so is the crash.
  static constexpr const char* kAcknowledgements[] = {"log:acknowledge", "log:acknowledged"};
  if (mode == "kill" && dice.Chance(60)) {
    const std::string point = dice.Chance(12)   ? "relist:fetch"
                              : dice.Chance(20) ? dice.OneOf(kAcknowledgements)
                              : dice.Chance(50) ? "log:append"
                                                : dice.OneOf(kPoints);
    const bool rare = point.starts_with("log:acknowledge") || point == "relist:fetch";
    const uint64_t most = at_the_start(point) ? 2 : rare || dice.Chance(50) ? 20 : 200;
    return fmt::format("kill:{}:{}", point, 1 + dice.Below(most));
  }
  return {};
}

}  // namespace larder::crash
