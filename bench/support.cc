#include "bench/support.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace larder::bench {

void Die(const std::string& message) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").filename().string();
  std::fprintf(stderr, "%s: %s\n", self.c_str(), message.c_str());
  // A child of fork() must not run its parent's destructors.
  std::_Exit(1);
}

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double MemoryMiB(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stod(line.substr(field.size())) / 1024;
  }
  return 0;
}

Figures FiguresIn(const std::string& lines) {
  Figures figures;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const auto parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object()) Die("not a line of figures: " + line);
    for (const auto& [name, value] : parsed.items()) {
      if (value.is_number()) figures[name] = value.get<double>();
    }
  }
  return figures;
}

std::optional<std::string> Output(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::array<char, 4096> chunk;
  while (const size_t size = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    out.append(chunk.data(), size);
  }
  if (::pclose(pipe) != 0) return std::nullopt;
  return out;
}

namespace {

// Where built peers are kept from run to run.
std::string CacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr) return std::string(cache) + "/larder";
  const char* home = std::getenv("HOME");
  return (home != nullptr ? std::string(home) : std::string("/tmp")) + "/.cache/larder";
}

}  // namespace

std::optional<std::string> BuildPeer(const std::string& module, const std::string& name) {
  if (!Output("command -v go")) return std::nullopt;
  const std::string folder = CacheFolder() + "/peers";
  std::string program = folder + "/" + name;
  const std::string build = "mkdir -p '" + folder + "' && cd '" + module +
                            "' && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o '" +
                            program + "' './" + name + "' >&2";
  if (!Output(build)) return std::nullopt;
  return program;
}

TempDir::TempDir() {
  path_ = (std::filesystem::temp_directory_path() / "larder-bench-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) Die("no temporary directory");
}
TempDir::~TempDir() { std::filesystem::remove_all(path_); }

bool AllPass(const Rows& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.Pass(); });
}

void Print(const Rows& rows, bool json_output, const std::string& note) {
  if (json_output) {
    nlohmann::ordered_json out;
    out["rows"] = nlohmann::ordered_json::array();
    for (const Row& row : rows) {
      nlohmann::ordered_json entry{{"name", row.name}, {"value", row.value}, {"unit", row.unit}};
      entry["bar"] = row.bar ? nlohmann::ordered_json(*row.bar) : nlohmann::ordered_json(nullptr);
      entry["ok"] = row.Pass();
      if (!row.note.empty()) entry["note"] = row.note;
      out["rows"].push_back(std::move(entry));
    }
    if (!note.empty()) out["note"] = note;
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  for (const Row& row : rows) {
    std::string bar, verdict;
    if (row.bar) {
      bar = fmt::format("{} {:.6g}", row.at_least ? "at least" : "at most ", *row.bar);
      verdict = row.Pass() ? "pass" : "short";
    }
    fmt::print("{:<65} {:>10.4g} {:<10} {:<18} {:<5} {}\n", row.name, row.value, row.unit, bar,
               verdict, row.note);
  }
  if (!note.empty()) std::printf("%s\n", note.c_str());
}

}  // namespace larder::bench
