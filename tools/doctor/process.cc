// Findings from a live process's /metrics.
#include <fmt/format.h>

#include <algorithm>

#include "reflector/reflector_status.h"
#include "tools/doctor/report.h"
#include "tools/output.h"

namespace larder::tools {
namespace {

// A figure that is a rate, over the time that was watched.
double RateOf(const std::vector<MetricsMoment>& moments, const std::string& name,
              const Labels& labels) {
  const MetricsMoment &first = moments.front(), &last = moments.back();
  const double seconds = last.seconds - first.seconds;
  if (seconds <= 0) return 0;
  return (last.metrics.Sum(name, labels).value_or(0) -
          first.metrics.Sum(name, labels).value_or(0)) /
         seconds;
}

std::string Seconds(std::optional<double> seconds) {
  if (!seconds) return "-";
  if (*seconds < 0.001) return fmt::format("{:.0f} us", *seconds * 1e6);
  if (*seconds < 1) return fmt::format("{:.1f} ms", *seconds * 1e3);
  return fmt::format("{:.1f} s", *seconds);
}

std::string Count(std::optional<double> value) {
  return value ? HumanCount(static_cast<uint64_t>(std::max(0.0, *value))) : "-";
}

std::vector<double> Series(const std::vector<MetricsMoment>& moments, const std::string& name,
                           const Labels& labels) {
  std::vector<double> out;
  out.reserve(moments.size());
  for (const MetricsMoment& moment : moments) {
    out.push_back(moment.metrics.Sum(name, labels).value_or(0));
  }
  return out;
}

void Sync(const std::vector<MetricsMoment>& moments, DoctorReport& report) {
  constexpr double kSlow = 5, kBad = 60;
  const Metrics& now = moments.back().metrics;
  ReportTable table{"Sync", {"collection", "objects", "lag", "cursor age", "events/s"}, {}};
  for (const std::string& name : now.ValuesOf("cache_size", "collection")) {
    const Labels labels = {{"collection", name}};
    const auto lag = now.Sum("cache_sync_lag", labels);
    const auto age = now.Sum("larder_informer_cursor_age_seconds", labels);
    table.rows.push_back(
        {name, Count(now.Sum("cache_size", labels)), Seconds(lag), Seconds(age),
         fmt::format("{:.1f}", RateOf(moments, "larder_informer_events_total", labels))});
    if (lag.value_or(0) > kSlow) {
      report.findings.push_back(
          {*lag > kBad ? Severity::kProblem : Severity::kWarning, "sync",
           name + " is behind the cluster", "sync lag " + Seconds(lag),
           "Look at the disk (write stalls below) and at handlers that block; check that the API "
           "server answers. Narrow the watch with a selector or a projection if it is too much."});
    }
    if (age.value_or(0) > 600) {
      report.findings.push_back(
          {Severity::kWarning, "sync", name + " has heard nothing for long",
           "the cursor last moved " + Seconds(age) + " ago",
           "A live watch gets a bookmark about every minute: look for a broken connection, a proxy "
           "that buffers, or missing permission to watch."});
    }
  }
  if (!table.rows.empty()) report.tables.push_back(std::move(table));
}

// What a reflector that waits before it tries again has met, most often first.
std::string FailuresOf(const Metrics& now, const std::string& collection) {
  std::vector<std::pair<double, std::string>> counts;
  for (const std::string& reason : now.ValuesOf("larder_reflector_restarts_total", "reason")) {
    const double count =
        now.Sum("larder_reflector_restarts_total", {{"collection", collection}, {"reason", reason}})
            .value_or(0);
    if (count > 0 && reason != "closed") counts.emplace_back(count, reason);
  }
  std::sort(counts.rbegin(), counts.rend());
  std::string out;
  for (const auto& [count, reason] : counts) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", Count(count), reason);
  }
  return out.empty() ? "no reason is counted" : "so far " + out;
}

void Reflectors(const std::vector<MetricsMoment>& moments, DoctorReport& report) {
  const Metrics& now = moments.back().metrics;
  for (const std::string& name : now.ValuesOf("larder_reflector_state", "collection")) {
    const double state = now.Sum("larder_reflector_state", {{"collection", name}}).value_or(0);
    if (state == static_cast<double>(ReflectorState::kBackingOff)) {
      report.findings.push_back(
          {Severity::kProblem, "sync", "the server refuses " + name + " or cannot be reached",
           FailuresOf(now, name),
           "NotFound: the server does not know the resource any more; was its CRD deleted? "
           "Forbidden: the permission to list and watch is missing. The log and /readyz have the "
           "server's words; it is tried again all the time."});
    } else if (state == static_cast<double>(ReflectorState::kAnotherCluster)) {
      report.findings.push_back({Severity::kProblem, "sync", name + " is of another cluster",
                                 "the server is not the one that the store was filled from",
                                 "Check the kubeconfig's context, or use another store."});
    }
  }
}

void Queues(const std::vector<MetricsMoment>& moments, DoctorReport& report) {
  const Metrics& now = moments.back().metrics;
  ReportTable table{
      "Work queues",
      {"queue", "depth", "adds/s", "wait p50", "wait p99", "work p99", "retries/s", "dead"},
      {}};
  for (const std::string& name : now.ValuesOf("workqueue_depth", "name")) {
    const Labels labels = {{"name", name}};
    const auto depth = now.Sum("workqueue_depth", labels);
    const auto wait = now.Quantile("workqueue_queue_duration_seconds", labels, 0.99);
    const auto work = now.Quantile("workqueue_work_duration_seconds", labels, 0.99);
    const double adds = RateOf(moments, "workqueue_adds_total", labels);
    const double retries = RateOf(moments, "workqueue_retries_total", labels);
    const auto dead = now.Sum("workqueue_dead_letters", labels);
    table.rows.push_back({name, Count(depth), fmt::format("{:.1f}", adds),
                          Seconds(now.Quantile("workqueue_queue_duration_seconds", labels, 0.5)),
                          Seconds(wait), Seconds(work), fmt::format("{:.2f}", retries),
                          Count(dead)});
    const auto series = Series(moments, "workqueue_depth", labels);
    const bool grows = series.size() > 1 && series.back() > series.front() * 1.1 + 10;
    if (depth.value_or(0) > 1000 || grows) {
      report.findings.push_back(
          {grows ? Severity::kWarning : Severity::kNote, "queue",
           name + (grows ? ": work comes faster than it is done" : ": much work waits"),
           fmt::format("depth {}, wait p99 {}, {:.1f} adds a second", Count(depth), Seconds(wait),
                       adds),
           "Raise the number of workers, make the reconciler quicker, or cause less work with a "
           "predicate on the watch."});
    }
    if (adds > 0 && retries > adds * 0.1) {
      report.findings.push_back(
          {Severity::kWarning, "queue", name + ": many items fail",
           fmt::format("{:.1f} retries a second of {:.1f} adds", retries, adds),
           "Read the reconciler's errors; larder queue show " + name +
               " has the last error of each item."});
    }
    if (dead.value_or(0) > 0) {
      report.findings.push_back(
          {Severity::kWarning, "queue", name + " has dead letters",
           Count(dead) + " items used up their retries",
           fmt::format("See them with larder queue show {0} --dead; after the "
                       "fix, larder queue requeue {0} --all.",
                       name)});
    }
    const auto running = now.Sum("workqueue_longest_running_processor_seconds", labels);
    if (running.value_or(0) > 60) {
      report.findings.push_back({Severity::kWarning, "queue",
                                 name + ": a worker does not come back",
                                 "one item has been in process for " + Seconds(running),
                                 "Give calls in the reconciler a deadline."});
    }
    if (series.size() > 2) {
      report.charts.push_back({"Depth of " + name, "items", true, {}, series});
    }
    Chart waits{"How long items of " + name + " waited", "items", false, {}, {}};
    for (const auto& [upper, count] : now.Buckets("workqueue_queue_duration_seconds", labels)) {
      waits.labels.push_back("<= " + Seconds(upper));
      waits.values.push_back(count);
    }
    if (!waits.values.empty()) report.charts.push_back(std::move(waits));
  }
  if (!table.rows.empty()) report.tables.push_back(std::move(table));
}

void Reconcilers(const std::vector<MetricsMoment>& moments, DoctorReport& report) {
  const Metrics& now = moments.back().metrics;
  ReportTable table{
      "Reconcilers", {"controller", "runs/s", "errors/s", "p50", "p99", "panics"}, {}};
  for (const std::string& name : now.ValuesOf("controller_runtime_reconcile_total", "controller")) {
    const Labels labels = {{"controller", name}};
    const char* const time = "controller_runtime_reconcile_time_seconds";
    const auto slow = now.Quantile(time, labels, 0.99);
    const double runs = RateOf(moments, "controller_runtime_reconcile_total", labels);
    const double errors = RateOf(moments, "controller_runtime_reconcile_errors_total", labels);
    const auto panics = now.Sum("controller_runtime_reconcile_panics_total", labels);
    table.rows.push_back({name, fmt::format("{:.1f}", runs), fmt::format("{:.2f}", errors),
                          Seconds(now.Quantile(time, labels, 0.5)), Seconds(slow), Count(panics)});
    if (slow.value_or(0) > 1) {
      report.findings.push_back({Severity::kNote, "handler", name + " is slow at times",
                                 "a reconcile takes " + Seconds(slow) + " at the 99th percentile",
                                 "Measure what it waits for; read from the cache instead of the "
                                 "API server."});
    }
    if (panics.value_or(0) > 0) {
      report.findings.push_back({Severity::kProblem, "handler", name + " has thrown",
                                 Count(panics) + " exceptions so far",
                                 "The log has the text of each; fix the reconciler."});
    }
  }
  if (!table.rows.empty()) report.tables.push_back(std::move(table));
}

void Handlers(const std::vector<MetricsMoment>& moments, DoctorReport& report) {
  const Metrics& now = moments.back().metrics;
  ReportTable table{"Handlers", {"handler", "delivered/s", "waiting", "lag", "merged"}, {}};
  for (const std::string& name : now.ValuesOf("larder_handler_delivered_total", "handler")) {
    const Labels labels = {{"handler", name}};
    const auto waiting = now.Sum("larder_handler_waiting", labels);
    const auto lag = now.Sum("larder_handler_lag_seconds", labels);
    table.rows.push_back(
        {name, fmt::format("{:.1f}", RateOf(moments, "larder_handler_delivered_total", labels)),
         Count(waiting), Seconds(lag), Count(now.Sum("larder_handler_merges_total", labels))});
    if (now.Sum("larder_handler_spilling", labels).value_or(0) > 0 || lag.value_or(0) > 10) {
      report.findings.push_back(
          {Severity::kWarning, "handler", "handler " + name + " is behind",
           fmt::format("{} changes wait, the oldest for {}", Count(waiting), Seconds(lag)),
           "Its changes wait on disk, merged per key; nothing is lost and nobody else is held up. "
           "Do less in the handler, or let it fill a work queue."});
    }
  }
  if (!table.rows.empty()) report.tables.push_back(std::move(table));
}

void CacheAndMemory(const std::vector<MetricsMoment>& moments, DoctorReport& report) {
  const Metrics& now = moments.back().metrics;
  const auto hits = now.Sum("cache_hits_total"), misses = now.Sum("cache_misses_total");
  ReportTable table{"Cache and memory", {"figure", "value"}, {}};
  if (hits && misses && *hits + *misses > 0) {
    const double rate = *hits / (*hits + *misses);
    table.rows.push_back({"hit rate of the hot tier", fmt::format("{:.1f} %", rate * 100)});
    if (rate < 0.8 && *hits + *misses > 1000) {
      report.findings.push_back(
          {Severity::kNote, "cache", "many reads go to the disk",
           fmt::format("hit rate {:.1f} %, {} evictions", rate * 100,
                       Count(now.Sum("larder_hot_tier_evictions_total"))),
           "Raise memory_limit: the hot tier gets 35 % of it. A read from disk takes microseconds, "
           "so do it only where the reads matter."});
    }
  }
  if (const auto bytes = now.Sum("larder_hot_tier_bytes")) {
    table.rows.push_back({"hot tier", HumanBytes(static_cast<uint64_t>(*bytes))});
  }
  if (const auto resident = now.Sum("process_resident_memory_bytes")) {
    table.rows.push_back({"resident memory", HumanBytes(static_cast<uint64_t>(*resident))});
  }
  if (!table.rows.empty()) report.tables.push_back(std::move(table));
}

}  // namespace

void DiagnoseProcess(const std::vector<MetricsMoment>& moments, DoctorReport& report) {
  if (moments.empty()) return;
  if (moments.back().metrics.Empty()) {
    report.findings.push_back({Severity::kProblem, "sync", "the process shows no metrics",
                               "/metrics is empty", "Is this the right address?"});
    return;
  }
  Sync(moments, report);
  Reflectors(moments, report);
  Queues(moments, report);
  Reconcilers(moments, report);
  Handlers(moments, report);
  CacheAndMemory(moments, report);
}

}  // namespace larder::tools
