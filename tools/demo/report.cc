#include "tools/demo/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "schema/object.h"

namespace larder::tools {
namespace {

Json ToJson(const Phase& phase) {
  return {{"seconds", phase.seconds}, {"lists", phase.lists},         {"bytes", phase.bytes},
          {"objects", phase.objects}, {"rewritten", phase.rewritten}, {"rss_mb", phase.rss_mb}};
}

std::string Thousands(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Bytes(uint64_t bytes) {
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{} B", bytes);
}

std::string Seconds(double seconds) {
  return seconds < 0.1 ? fmt::format("{:.0f} ms", seconds * 1000)
                       : fmt::format("{:.2f} s", seconds);
}

std::string Row(const std::string& name, const std::string& a, const std::string& b,
                const std::string& c) {
  return fmt::format("  {:<26}{:>14}{:>14}{:>22}\n", name, a, b, c);
}

}  // namespace

std::string DemoReport::ToJson() const {
  Json json = {{"objects", objects},
               {"cold", tools::ToJson(cold)},
               {"resume", tools::ToJson(resume)},
               {"relist", tools::ToJson(relist)},
               {"pending_at_kill", pending_at_kill},
               {"pending_resumed", pending_resumed},
               {"changed_while_down", changed_while_down},
               {"deleted_while_down", deleted_while_down},
               {"deletes_delivered", deletes_delivered},
               {"lost", lost}};
  return json.dump();
}

std::string DemoReport::ToTable() const {
  std::string out = fmt::format("\n  {} pods\n\n", Thousands(objects));
  out += Row("", "first start", "after kill -9", "after expired history");
  out +=
      Row("ready after", Seconds(cold.seconds), Seconds(resume.seconds), Seconds(relist.seconds));
  out += Row("lists of the cluster", Thousands(cold.lists), Thousands(resume.lists),
             Thousands(relist.lists));
  out += Row("received", Bytes(cold.bytes), Bytes(resume.bytes), Bytes(relist.bytes));
  out += Row("objects transferred", Thousands(cold.objects), Thousands(resume.objects),
             Thousands(relist.objects));
  out += Row("rows written", Thousands(cold.rewritten), Thousands(resume.rewritten),
             Thousands(relist.rewritten));
  out += Row("peak memory", fmt::format("{:.0f} MB", cold.rss_mb),
             fmt::format("{:.0f} MB", resume.rss_mb), fmt::format("{:.0f} MB", relist.rss_mb));
  out += fmt::format("\n  The restart was ready {:.0f} times sooner than the first start.\n",
                     cold.seconds / std::max(resume.seconds, 1e-9));
  out += fmt::format("  Work pending at the kill: {}; resumed: {}.\n", Thousands(pending_at_kill),
                     Thousands(pending_resumed));
  out += fmt::format("  Deleted while it was dead: {}; delivered after the restart: {}.\n",
                     Thousands(deleted_while_down), Thousands(deletes_delivered));
  out += fmt::format("  Lost: {}.\n\n", Thousands(lost));
  out += fmt::format("  The store is at {}. Look inside:\n    larder stats --store {}\n", store,
                     store);
  out += fmt::format("    larder get pods --store {} -A --limit 5\n", store);
  return out;
}

DemoProgress::DemoProgress(bool on) : on_(on), terminal_(on && ::isatty(STDERR_FILENO) == 1) {}
DemoProgress::~DemoProgress() { End(); }

void DemoProgress::Begin(const std::string& what) {
  End();
  if (!on_) return;
  what_ = what;
  open_ = true;
  std::fprintf(stderr, terminal_ ? "  %s …" : "%s\n", what.c_str());
}

void DemoProgress::Update(const std::string& detail) {
  if (terminal_ && open_) std::fprintf(stderr, "\r\033[K  %s: %s", what_.c_str(), detail.c_str());
}

void DemoProgress::End() {
  if (terminal_ && open_) std::fprintf(stderr, "\r\033[K  %s. Done.\n", what_.c_str());
  open_ = false;
}

}  // namespace larder::tools
