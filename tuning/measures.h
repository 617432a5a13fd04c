// What was measured of one candidate in one run, and the names by which tables, plots and files
// know the figures. Less is better in all of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/object.h"

namespace larder::tuning {

struct Measures {
  // Bytes written to disk, log included, for each byte of the workload's commits as larder encodes
  // them by default: the same denominator for every candidate of a workload.
  double write_amplification = 0;
  // Bytes on disk, log included, on average over the run, for each byte of the rows that are there.
  double space_amplification = 0;
  // Bytes fetched from files for each byte of the rows that gets and scans read, as larder encodes
  // them by default.
  double read_amplification = 0;
  double commit_p50_us = 0;
  double commit_p99_us = 0;
  double get_p50_us = 0;  // with decoding
  double get_p99_us = 0;
  double stall_ms = 0;
  double cpu_us_per_event = 0;  // encoding, committing, reading, flushing, compacting
  double memory_mib = 0;  // the most that memtables, caches, table indexes and dictionaries took
  double restart_ms = 0;  // opening the store when its log is half as long as it gets
  // For guard rails and information.
  double disk_peak_mib = 0;
  double log_peak_mib = 0;
  double seconds = 0;
  double syncs = 0;
  // A checksum of all keys after the replay: the same for all candidates, or something is wrong.
  std::string content;
  // A guard rail that it broke: it was not replayed to the end. Empty: none.
  std::string broken;
};

struct MeasureInfo {
  const char* key;    // in JSON
  const char* title;  // in tables
  const char* unit;
  double Measures::*value;
  // A difference below this is nothing: for figures that may be zero.
  double floor = 0;
  // A time, which the rest of the machine disturbs; otherwise bytes.
  bool time = false;
};
// Those that are compared; the rest is information.
const std::vector<MeasureInfo>& ComparedMeasures();
const MeasureInfo& MeasureOf(std::string_view key);

// How many times as much `a` is as `b`, both lifted to the figure's floor.
double RatioOf(const MeasureInfo& info, const Measures& a, const Measures& b);

Json ToJson(const Measures& measures);
Result<Measures> MeasuresFromJson(const Json& json);
// Of several runs: the mean of bytes, the least of times, because whatever else a machine does can
// only add to them.
Measures MeanOf(const std::vector<Measures>& runs);

}  // namespace larder::tuning
