// What was measured, in a file: a line of JSON for each run, appended and synced as soon as it is
// known, so that nothing measured is lost by Ctrl-C, a crash or a full disk, and a search goes on
// where it stopped.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tuning/measures.h"

namespace larder::tuning {

// What all results of a file have in common.
struct ResultsHeader {
  std::string workload;     // its name
  std::string fingerprint;  // of its operations
  std::string current;      // options, as text
  uint64_t memory_limit = 0;
  uint64_t disk_budget = 0;
  std::string rounds;   // the share of the workload that each replays: "0.25, 0.5, 1"
  std::string version;  // of the measurements and of RocksDB: others cannot be compared

  auto operator<=>(const ResultsHeader&) const = default;
};

struct RunKey {
  std::string candidate;
  unsigned round = 0;
  unsigned repeat = 0;
  auto operator<=>(const RunKey&) const = default;
};

struct RunResult {
  std::string engine;  // options, as text
  std::optional<Measures> measures;
  std::string failure;  // why there are none: a broken guard rail
};

class Results {
 public:
  // Goes on with a file that has the same header; kInvalidArgument names what differs. An empty
  // path keeps everything in memory.
  static Result<std::unique_ptr<Results>> Open(const std::string& path,
                                               const ResultsHeader& header);
  // Reads a file whatever its header: to report on it.
  static Result<std::unique_ptr<Results>> Load(const std::string& path);
  ~Results();

  const ResultsHeader& header() const { return header_; }
  const RunResult* Find(const RunKey& key) const;
  const std::map<RunKey, RunResult>& all() const { return results_; }
  Result<void> Add(const RunKey& key, const RunResult& result);
  size_t resumed() const { return resumed_; }  // how many were there already

 private:
  Results() = default;
  Result<void> Read(const std::string& path, bool& found);

  std::string path_;
  int fd_ = -1;
  ResultsHeader header_;
  std::map<RunKey, RunResult> results_;
  size_t resumed_ = 0;
};

}  // namespace larder::tuning
