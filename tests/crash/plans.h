// At which point a process is broken: plans for its disk (faulty_disk.h) and its transport
// (fetch_witness.h).
#pragma once

#include <string>

#include "tests/crash/dice.h"

namespace larder::crash {

// For a mode of the programme; empty: by time, or not at all. `left`: the process begins with what
// a crash has left.
std::string ChoosePlan(const std::string& mode, bool left, Dice& dice);

// For a disk that fails once, or for a while, and is well again.
std::string ChooseFault(Dice& dice);

// What a plan waits for, without how often: "kill:log:append".
inline std::string PointOf(const std::string& plan) { return plan.substr(0, plan.rfind(':')); }

}  // namespace larder::crash
