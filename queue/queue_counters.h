// What a work queue counts about itself. Plain numbers, changed under the queue's lock and copied
// out by whoever publishes them (queue/queue_metrics.h): counting costs the worker's path no atomic
// and no second lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace larder {

// Durations by powers of ten from 10 ns to 1000 s, as controller-runtime's histograms.
struct DurationHistogram {
  static constexpr size_t kBuckets = 12;

  std::array<uint64_t, kBuckets + 1> counts{};  // the last one: longer than all bounds
  uint64_t total = 0;
  int64_t sum_nanos = 0;

  static constexpr std::array<int64_t, kBuckets> kBoundsNanos = {
      10,         100,         1'000,         10'000,         100'000,         1'000'000,
      10'000'000, 100'000'000, 1'000'000'000, 10'000'000'000, 100'000'000'000, 1'000'000'000'000};

  void Observe(int64_t nanos) {
    size_t bucket = 0;
    while (bucket < kBuckets && nanos > kBoundsNanos[bucket]) ++bucket;
    ++counts[bucket];
    ++total;
    sum_nanos += nanos;
  }
};

struct QueueCounters {
  // client-go's.
  uint64_t adds = 0;
  uint64_t retries = 0;
  size_t depth = 0;  // ready, or added again while in process
  DurationHistogram queue_duration;
  DurationHistogram work_duration;
  // Of those in process: how many, and the sum of their start times, from which the unfinished work
  // follows.
  size_t processing = 0;
  int64_t sum_started_nanos = 0;
  int64_t oldest_started_nanos = 0;

  // What durability adds.
  size_t items = 0;  // known in all: ready, delayed, in process, dead
  size_t delayed = 0;
  size_t dead = 0;
  size_t unwritten = 0;  // changes that are not on disk yet
  uint64_t flushes = 0;
  uint64_t flush_errors = 0;
  uint64_t records_written = 0;
  uint64_t records_deleted = 0;
  uint64_t loaded = 0;
  DurationHistogram flush_duration;
};

}  // namespace larder
