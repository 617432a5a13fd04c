// What the demo found out, and how it shows it.
#pragma once

#include <cstdint>
#include <string>

namespace larder::tools {

// One start of the controller, measured at the moment it was ready.
struct Phase {
  double seconds = 0;
  uint64_t lists = 0;
  uint64_t bytes = 0;
  uint64_t objects = 0;
  uint64_t rewritten = 0;  // rows added, changed or removed
  double rss_mb = 0;
};

struct DemoReport {
  uint64_t objects = 0;
  Phase cold, resume, relist;
  uint64_t pending_at_kill = 0, pending_resumed = 0;
  uint64_t changed_while_down = 0;
  uint64_t deleted_while_down = 0, deletes_delivered = 0;
  uint64_t lost = 0;
  std::string store;

  std::string ToJson() const;
  std::string ToTable() const;
};

// Says on stderr what is going on: a line that is rewritten on a terminal, plain lines elsewhere.
class DemoProgress {
 public:
  explicit DemoProgress(bool on);
  ~DemoProgress();
  void Begin(const std::string& what);
  // Only on a terminal.
  void Update(const std::string& detail);
  void End();

 private:
  bool on_;
  bool terminal_;
  bool open_ = false;
  std::string what_;
};

}  // namespace larder::tools
