// What the benchmarks share: how they fail, measure, run commands, and print what came out.
//
//   Rows rows;
//   rows.push_back({"larder / client-go", ours / theirs, "x", 1.0, /*at_least=*/true});
//   Print(rows, json_output, note);
//   return AllPass(rows) ? 0 : 1;
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace larder::bench {

using SteadyClock = std::chrono::steady_clock;
// What a phase in a process of its own found out.
using Figures = std::map<std::string, double>;

// Says so, with the program's name in front, and ends the process.
[[noreturn]] void Die(const std::string& message);
template <typename T>
T OrDie(Result<T> result) {
  if (!result) Die(result.error().ToString());
  return std::move(*result);
}
inline void OrDie(const Result<void>& result) {
  if (!result) Die(result.error().ToString());
}

double SecondsSince(SteadyClock::time_point start);
double Median(std::vector<double> values);
// Of this process, user and system.
double CpuSeconds();
// Of this process: "VmRSS:" now, "VmHWM:" at its highest.
double MemoryMiB(const std::string& field);
// The numbers in lines of JSON objects, as the programs in bench/peers print them; a later line
// wins.
Figures FiguresIn(const std::string& lines);
// What a command without user input in it prints; nullopt when it fails.
std::optional<std::string> Output(const std::string& command);

// Builds the program `name` of the Go module bench/peers/go (`module`) into the cache folder;
// nullopt without a Go toolchain that can.
std::optional<std::string> BuildPeer(const std::string& module, const std::string& name);

// A directory that goes away. Store() does not exist yet.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string Store() const { return path_ + "/store"; }

 private:
  std::string path_;
};

struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> bar{};  // none: only for information
  bool at_least = false;        // otherwise: at most
  std::string note{};

  bool Pass() const { return !bar || (at_least ? value >= *bar : value <= *bar); }
};
using Rows = std::vector<Row>;

bool AllPass(const Rows& rows);
// A table, or one JSON object.
void Print(const Rows& rows, bool json_output, const std::string& note = {});

}  // namespace larder::bench
