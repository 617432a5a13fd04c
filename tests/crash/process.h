// Processes that a programme starts, waits for and kills.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace larder::crash {

// The first argument is the program. What it says on stderr goes to the file, which is made anew;
// empty: to where the caller's goes. Ends the caller, with 2, where there can be no process.
pid_t Spawn(std::vector<std::string> arguments, const std::string& stderr_file = {});
// The exit code, or minus the signal; nullopt: it still runs at the deadline.
std::optional<int> WaitFor(pid_t pid, std::chrono::steady_clock::time_point deadline);
void Kill(pid_t pid);
// The assertion that ended a process, "FILE:LINE: FUNCTION: Assertion `...' failed.", in what it
// said; empty: none did.
std::string AssertionIn(const std::string& said);
// One that RocksDB is known to end a process by (docs/reliability.md): some only when its disk
// fails.
bool IsKnownAssertion(const std::string& assertion, bool disk_failed);

}  // namespace larder::crash
