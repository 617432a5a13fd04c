// Processes that a programme starts, waits for and kills.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace larder::crash {

// The first argument is the program. Ends the caller, with 2, where there can be no process.
pid_t Spawn(std::vector<std::string> arguments);
// The exit code, or minus the signal; nullopt: it still runs at the deadline.
std::optional<int> WaitFor(pid_t pid, std::chrono::steady_clock::time_point deadline);
void Kill(pid_t pid);

}  // namespace larder::crash
