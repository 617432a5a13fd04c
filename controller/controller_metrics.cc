#include "controller/controller_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>

namespace larder::internal {
namespace {

// controller-runtime's buckets.
const prometheus::Histogram::BucketBoundaries kBounds = {
    0.005, 0.01, 0.025, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6,
    0.7,   0.8,  0.9,   1.0,  1.25, 1.5,  1.75, 2.0,  2.5, 3.0,  3.5, 4.0,  4.5, 5,
    6,     7,    8,     9,    10,   15,   20,   25,   30,  40,   50,  60};

}  // namespace

struct ControllerMetrics::Rep {
  Rep(prometheus::Registry& registry, const std::string& controller)
      : total(prometheus::BuildCounter()
                  .Name("controller_runtime_reconcile_total")
                  .Help("Reconciles by result")
                  .Register(registry)),
        labels{{"controller", controller}} {
    const auto counter = [&](const char* name, const char* help) {
      return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
    };
    const auto gauge = [&](const char* name, const char* help) {
      return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
    };
    const std::array<const char*, 4> names = {"success", "error", "requeue", "requeue_after"};
    for (size_t i = 0; i < names.size(); ++i) {
      results[i] = &total.Add({{"controller", controller}, {"result", names[i]}});
    }
    errors = counter("controller_runtime_reconcile_errors_total", "Reconciles that failed");
    terminal = counter("controller_runtime_terminal_reconcile_errors_total",
                       "Reconciles that failed and are not tried again");
    panics = counter("controller_runtime_reconcile_panics_total", "Reconciles that threw");
    timeouts = counter("controller_runtime_reconcile_timeouts_total",
                       "Reconciles that were stopped because their time was over");
    active = gauge("controller_runtime_active_workers", "Reconciles that run now");
    max = gauge("controller_runtime_max_concurrent_reconciles", "Workers of the controller");
    time = &prometheus::BuildHistogram()
                .Name("controller_runtime_reconcile_time_seconds")
                .Help("How long a reconcile took")
                .Register(registry)
                .Add(labels, kBounds);
  }

  prometheus::Family<prometheus::Counter>& total;
  const prometheus::Labels labels;
  std::array<prometheus::Counter*, 4> results{};
  prometheus::Counter* errors = nullptr;
  prometheus::Counter* terminal = nullptr;
  prometheus::Counter* panics = nullptr;
  prometheus::Counter* timeouts = nullptr;
  prometheus::Gauge* active = nullptr;
  prometheus::Gauge* max = nullptr;
  prometheus::Histogram* time = nullptr;
};

ControllerMetrics::ControllerMetrics(prometheus::Registry* registry, const std::string& controller,
                                     uint32_t max_concurrent_reconciles) {
  if (!registry) return;
  rep_ = std::make_unique<Rep>(*registry, controller);
  rep_->max->Set(max_concurrent_reconciles);
}

ControllerMetrics::~ControllerMetrics() = default;

void ControllerMetrics::Started() {
  if (rep_) rep_->active->Increment();
}

void ControllerMetrics::Finished(Result result, std::chrono::nanoseconds took) {
  if (!rep_) return;
  rep_->active->Decrement();
  rep_->results[static_cast<size_t>(result)]->Increment();
  if (result == Result::kError) rep_->errors->Increment();
  rep_->time->Observe(std::chrono::duration<double>(took).count());
}

void ControllerMetrics::Terminal() {
  if (rep_) rep_->terminal->Increment();
}

void ControllerMetrics::Threw() {
  if (rep_) rep_->panics->Increment();
}

void ControllerMetrics::TimedOut() {
  if (rep_) rep_->timeouts->Increment();
}

}  // namespace larder::internal
