#include "tuning/runner.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "storage/measure.h"

namespace larder::tuning {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr double kMiB = 1024.0 * 1024;
constexpr uint64_t kSamples = 128;
// How often a calm replay looks whether it should let compactions catch up.
constexpr uint64_t kCalmEvery = 64;
constexpr int kRestarts = 4;
// A restart is measured when the log is about half as long as it gets.
constexpr double kLongLog = 0.5, kStillLong = 0.4;
constexpr uint64_t kRestartEvery = 16;

double CpuMicros() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto micros = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return micros(usage.ru_utime) + micros(usage.ru_stime);
}

double MicrosSince(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

double Percentile(std::vector<float>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return static_cast<double>(values[static_cast<size_t>(at)]);
}

class Run {
 public:
  Run(const Prepared& prepared, const Prepared& reference, const RunOptions& options)
      : prepared_(prepared), reference_(reference), options_(options) {
    store_options_.path = options.folder + "/candidate";
    store_options_.engine = options.engine;
    store_options_.memory_limit = options.memory_limit;
    store_options_.collection_ttl = std::chrono::seconds(0);
  }
  ~Run() {
    store_.reset();
    std::error_code ignored;
    fs::remove_all(store_options_.path, ignored);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Result<Measures> Do() {
    std::error_code ignored;
    fs::remove_all(store_options_.path, ignored);
    LARDER_RETURN_IF_ERROR(Fill());
    LARDER_RETURN_IF_ERROR(Replay());
    if (!measures_.broken.empty()) return measures_;
    LARDER_RETURN_IF_ERROR(HashContent());
    LARDER_RETURN_IF_ERROR(Restart());
    Summarise();
    return measures_;
  }

 private:
  Result<void> Open() {
    LARDER_ASSIGN_OR_RETURN(store_, MeasuredStore::Open(store_options_));
    return {};
  }

  Result<void> Fill() {
    LARDER_RETURN_IF_ERROR(Open());
    LARDER_ASSIGN_OR_RETURN(const auto base, TraceReader::Open(prepared_.base_path));
    TraceStep step;
    for (;;) {
      LARDER_ASSIGN_OR_RETURN(const bool more, base->Next(step));
      if (!more) break;
      LARDER_RETURN_IF_ERROR(Interrupted());
      LARDER_RETURN_IF_ERROR(store_->Apply(step));
    }
    // As an informer does behind its first list.
    store_->store().StartFlush();
    LARDER_RETURN_IF_ERROR(store_->Settle(options_.stop));
    store_.reset();
    return Open();
  }

  Result<void> Replay() {
    LARDER_ASSIGN_OR_RETURN(steps_, TraceReader::Open(prepared_.steps_path));
    const auto count = static_cast<uint64_t>(
        std::max(1.0, options_.fraction * static_cast<double>(steps_->steps())));
    const uint64_t sample_every = std::max<uint64_t>(1, count / kSamples);
    const double cpu = CpuMicros();
    const auto begin = SteadyClock::now();
    TraceStep step;
    for (uint64_t i = 0; i < count; ++i) {
      LARDER_ASSIGN_OR_RETURN(const bool more, steps_->Next(step));
      if (!more) break;
      LARDER_RETURN_IF_ERROR(Timed(step));
      if (!prepared_.burst && i % kCalmEvery == 0 && store_->Busy()) {
        LARDER_RETURN_IF_ERROR(store_->Settle(options_.stop));
      }
      if (i % sample_every == 0) LARDER_RETURN_IF_ERROR(Sample());
      if (!measures_.broken.empty()) return {};
    }
    // What is due is part of the price.
    LARDER_RETURN_IF_ERROR(store_->Settle(options_.stop));
    LARDER_RETURN_IF_ERROR(Sample());
    cpu_micros_ = CpuMicros() - cpu;
    measures_.seconds = MicrosSince(begin) / 1e6;
    counters_ = store_->Counters();
    return {};
  }

  Result<void> Timed(const TraceStep& step) {
    const auto begin = SteadyClock::now();
    LARDER_ASSIGN_OR_RETURN(const MeasuredStore::Outcome outcome, store_->Apply(step));
    const auto micros = static_cast<float>(MicrosSince(begin));
    switch (step.kind) {
      case TraceStep::Kind::kCommit:
        commits_.push_back(micros);
        committed_bytes_ += step.batch.size();
        break;
      case TraceStep::Kind::kGet:
        gets_.push_back(micros);
        [[fallthrough]];
      case TraceStep::Kind::kScan:
        rows_read_ += outcome.rows;
    }
    return {};
  }

  Result<void> Interrupted() const {
    if (!options_.stop.stop_requested()) return {};
    return MakeError(ErrorCode::kCancelled, "interrupted");
  }

  Result<void> Sample() {
    LARDER_RETURN_IF_ERROR(Interrupted());
    const EngineState state = store_->State();
    const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / kMiB; };
    measures_.memory_mib = std::max(measures_.memory_mib, mib(state.memory_bytes));
    measures_.disk_peak_mib = std::max(measures_.disk_peak_mib, mib(state.disk_bytes));
    measures_.log_peak_mib = std::max(measures_.log_peak_mib, mib(state.log_bytes));
    disk_sum_ += static_cast<double>(state.disk_bytes);
    ++samples_;
    if (options_.disk_budget != 0 && state.disk_bytes > options_.disk_budget) {
      measures_.broken =
          fmt::format("its store takes {:.0f} MiB, above the disk budget of {:.0f} MiB",
                      mib(state.disk_bytes), mib(options_.disk_budget));
    }
    return {};
  }

  Result<void> HashContent() {
    uint64_t hash = 0, rows = 0;
    for (size_t i = 0; i < kFamilyNames.size(); ++i) {
      const auto family = static_cast<Family>(i);
      LARDER_RETURN_IF_ERROR(
          ForEachStoredRow(store_->store(), family, [&](std::string_view key, std::string_view) {
            // Which dictionaries there are is the encoding's business.
            if (family == Family::kMeta && IsDictionaryRow(key)) return true;
            hash = XXH3_64bits_withSeed(key.data(), key.size(), hash + i);
            return ++rows != 0;
          }));
    }
    measures_.content = fmt::format("{}-{:016x}", rows, hash);
    return {};
  }

  // How long the log is at the moment of a crash is chance; to be fair to all, it is let grow again
  // until it is about half as long as it gets: what a crash finds on average.
  Result<void> Restart() {
    const auto log_share = [this] {
      return static_cast<double>(store_->State().log_bytes) / kMiB /
             std::max(measures_.log_peak_mib, 1e-3);
    };
    TraceStep step;
    LARDER_RETURN_IF_ERROR(steps_->Rewind());
    for (uint64_t i = 0; i < steps_->steps(); ++i) {
      if (i % kRestartEvery == 0) {
        LARDER_RETURN_IF_ERROR(Interrupted());
        if (log_share() >= kLongLog) {
          // Where a flush was under way, it takes the log with it: on to the next.
          LARDER_RETURN_IF_ERROR(store_->Settle(options_.stop));
          if (log_share() >= kStillLong) break;
        }
      }
      LARDER_ASSIGN_OR_RETURN(const bool more, steps_->Next(step));
      if (!more) break;
      if (step.kind == TraceStep::Kind::kCommit) LARDER_RETURN_IF_ERROR(store_->Apply(step));
    }
    LARDER_RETURN_IF_ERROR(store_->Settle(options_.stop));
    store_.reset();
    // Each time on a copy, because an open may change what the next one finds. The least counts:
    // whatever else the machine does can only make it longer.
    const std::string original = store_options_.path;
    store_options_.path = original + "-restart";
    Result<void> outcome;
    for (int i = 0; i < kRestarts && outcome; ++i) {
      outcome = CopyStore(original, store_options_.path);
      if (!outcome) break;
      const auto begin = SteadyClock::now();
      outcome = Open();
      const double millis = MicrosSince(begin) / 1000;
      measures_.restart_ms = i == 0 ? millis : std::min(measures_.restart_ms, millis);
      store_.reset();
    }
    std::error_code ignored;
    fs::remove_all(store_options_.path, ignored);
    store_options_.path = original;
    return outcome;
  }

  // Tables never change, so links do; the log and the manifest are copied.
  static Result<void> CopyStore(const std::string& from, const std::string& to) {
    std::error_code error;
    fs::remove_all(to, error);
    fs::create_directory(to, error);
    fs::permissions(to, fs::perms::owner_all, error);
    for (const auto& entry : fs::directory_iterator(from, error)) {
      if (error) break;
      if (!entry.is_regular_file()) continue;
      const fs::path target = fs::path(to) / entry.path().filename();
      const std::string extension = entry.path().extension().string();
      if (extension == ".sst" || extension == ".blob") {
        fs::create_hard_link(entry.path(), target, error);
      } else {
        fs::copy_file(entry.path(), target, error);
      }
      if (error) break;
    }
    if (!error) return {};
    return MakeError(error == std::errc::no_space_on_device ? ErrorCode::kNoSpace : ErrorCode::kIo,
                     "copying the store {}: {}", from, error.message());
  }

  void Summarise() {
    const auto ratio = [](double a, double b) { return a / std::max(b, 1.0); };
    // The share of the workload that was replayed, in the reference's bytes.
    const double share = ratio(static_cast<double>(committed_bytes_),
                               static_cast<double>(prepared_.committed_bytes));
    const double written =
        static_cast<double>(counters_.log_bytes + counters_.table_bytes + counters_.other_bytes);
    measures_.write_amplification =
        ratio(written, share * static_cast<double>(reference_.committed_bytes));
    measures_.space_amplification = ratio(disk_sum_ / static_cast<double>(samples_),
                                          static_cast<double>(reference_.base_bytes));
    const double row_bytes = ratio(static_cast<double>(reference_.base_bytes),
                                   static_cast<double>(reference_.base_rows));
    measures_.read_amplification = ratio(static_cast<double>(counters_.read_bytes),
                                         static_cast<double>(rows_read_) * row_bytes);
    measures_.commit_p50_us = Percentile(commits_, 0.5);
    measures_.commit_p99_us = Percentile(commits_, 0.99);
    measures_.get_p50_us = Percentile(gets_, 0.5);
    measures_.get_p99_us = Percentile(gets_, 0.99);
    measures_.stall_ms = static_cast<double>(counters_.stall_micros) / 1000;
    const double events = std::max(1.0, share * static_cast<double>(prepared_.objects));
    measures_.cpu_us_per_event = cpu_micros_ / events + prepared_.encode_micros;
    measures_.syncs = static_cast<double>(counters_.syncs);
  }

  const Prepared& prepared_;
  const Prepared& reference_;
  const RunOptions& options_;
  StoreOptions store_options_;
  std::unique_ptr<MeasuredStore> store_;
  std::unique_ptr<TraceReader> steps_;
  Measures measures_;
  EngineCounters counters_;
  std::vector<float> commits_, gets_;
  uint64_t committed_bytes_ = 0, rows_read_ = 0, samples_ = 0;
  double disk_sum_ = 0, cpu_micros_ = 0;
};

}  // namespace

Result<Measures> Measure(const Prepared& prepared, const Prepared& reference,
                         const RunOptions& options) {
  return Run(prepared, reference, options).Do();
}

}  // namespace larder::tuning
