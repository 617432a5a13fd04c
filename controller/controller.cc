#include "controller/controller.h"

#include <algorithm>
#include <exception>
#include <random>

#include "base/duration.h"
#include "base/thread_name.h"
#include "client/retry.h"

namespace larder {
namespace {

std::string NewReconcileId() {
  thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{:016x}", random());
}

}  // namespace

Controller::Controller(Definition definition, std::unique_ptr<WorkQueue> queue,
                       Environment environment)
    : definition_(std::move(definition)),
      environment_(std::move(environment)),
      queue_(std::move(queue)),
      metrics_(environment_.registry, definition_.name,
               definition_.options.max_concurrent_reconciles),
      requeues_(environment_.base_delay, environment_.max_delay) {
  if (definition_.options.reconcile_timeout.count() > 0) {
    deadlines_ = std::make_unique<internal::Deadlines>(environment_.clock);
  }
}

Controller::~Controller() { Stop(); }

void Controller::Start() {
  const uint32_t count = definition_.options.max_concurrent_reconciles;
  {
    MutexLock lock(mutex_);
    alive_ += count;
  }
  for (uint32_t i = 0; i < count; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
  spdlog::info("starting workers controller={} workers={}", name(), count);
}

void Controller::BeginStop() { workers_.request_stop(); }

bool Controller::WaitUntilIdle(Clock::Steady deadline) {
  MutexLock lock(mutex_);
  while (alive_ > 0) {
    if (environment_.clock->Now() >= deadline) return false;
    environment_.clock->WaitUntil(mutex_, idle_, deadline, {});
  }
  return true;
}

std::set<std::string> Controller::Running() const {
  MutexLock lock(mutex_);
  return running_;
}

void Controller::Stop() {
  BeginStop();
  CancelRuns();
  threads_.clear();  // joins
}

bool Controller::WaitForSources() const {
  return std::all_of(waits_for_.begin(), waits_for_.end(), [this](const SharedInformer* source) {
    return source->WaitForSync(Clock::Steady::max(), workers_.get_token()).has_value();
  });
}

void Controller::Work() {
  NameThread("larder-worker");
  const bool ready = WaitForSources();
  while (ready) {
    const auto item = queue_->GetWithPriority(workers_.get_token());
    if (!item) break;
    Process(*item);
  }
  MutexLock lock(mutex_);
  --alive_;
  idle_.notify_all();
}

void Controller::ServeNamespacesOf(const std::vector<SharedInformer*>& informers) {
  for (const SharedInformer* informer : informers) namespaces_.insert(informer->options().ns);
}

bool Controller::Serves(const std::string& ns) const {
  return namespaces_.empty() || namespaces_.contains("") || namespaces_.contains(ns);
}

void Controller::Drop(const WorkItem& item) {
  queue_->Forget(item.item);
  queue_->Done(item.item);
}

void Controller::Process(const WorkItem& item) {
  const ReconcileLog log(name(), item.item, NewReconcileId());
  const auto key = ObjectKey::Parse(item.item);
  if (!key) {
    log.Error("not a key, dropped: {}", key.error().message);
    Drop(item);
    return;
  }
  if (!Serves(key->ns)) {
    log.Info("dropped: its namespace is not watched any more");
    Drop(item);
    return;
  }
  log.Debug("processing");
  const Clock::Steady begin = environment_.clock->Now();
  {
    MutexLock lock(mutex_);
    running_.insert(item.item);
  }
  metrics_.Started();
  const Result<Outcome> outcome = Run(*key, item, log);
  // What comes next is stored before the run counts as over: a crash in between repeats the run.
  const auto result = Settle(item, log, outcome);
  {
    // Before another worker can have it.
    MutexLock lock(mutex_);
    running_.erase(item.item);
  }
  queue_->Done(item.item);
  const auto took = environment_.clock->Now() - begin;
  metrics_.Finished(result, took);
  if (result != internal::ControllerMetrics::Result::kError) {
    log.Debug("reconciled in {}", FormatDuration(took));
  }
}

Result<Outcome> Controller::Run(const ObjectKey& key, const WorkItem& item,
                                const ReconcileLog& log) {
  std::stop_source run;
  const std::stop_callback forward(runs_.get_token(), [&run] { run.request_stop(); });
  ReconcileContext context(*environment_.client, environment_.events, log, run.get_token(),
                           environment_.clock);
  const ReconcileRequest request{key, item.failures};
  if (!deadlines_) return Call(context, request);
  const auto guard = deadlines_->Watch(
      run, Clock::After(environment_.clock->Now(), definition_.options.reconcile_timeout));
  Result<Outcome> outcome = Call(context, request);
  if (!guard.Expired() || runs_.stop_requested()) return outcome;
  metrics_.TimedOut();
  if (outcome) return outcome;  // it finished all the same
  return MakeError(ErrorCode::kTimeout, "stopped because its time was over: {}",
                   outcome.error().message);
}

Result<Outcome> Controller::Call(ReconcileContext& context, const ReconcileRequest& request) {
  if (!definition_.options.recover_panic) {
    return definition_.reconciler->Reconcile(context, request);
  }
  try {
    return definition_.reconciler->Reconcile(context, request);
  } catch (const std::exception& error) {
    metrics_.Threw();
    return MakeError(ErrorCode::kInternal, "the reconciler threw: {}", error.what());
  } catch (...) {
    metrics_.Threw();
    return MakeError(ErrorCode::kInternal, "the reconciler threw something that is no exception");
  }
}

internal::ControllerMetrics::Result Controller::Settle(const WorkItem& item,
                                                       const ReconcileLog& log,
                                                       const Result<Outcome>& outcome) {
  using Count = internal::ControllerMetrics::Result;
  if (!outcome) {
    SettleError(item, log, outcome.error());
    return Count::kError;
  }
  const auto again = [&](std::chrono::nanoseconds delay) {
    AddOptions options;
    options.after = delay;
    options.priority = item.priority;
    if (auto added = queue_->AddWithOptions(item.item, options); !added) {
      log.Warn("queued again, but not stored yet: {}", added.error().ToString());
    }
  };
  queue_->Forget(item.item);
  switch (outcome->kind()) {
    case Outcome::Kind::kRequeue:
      again(requeues_.When(item.item));
      return Count::kRequeue;
    case Outcome::Kind::kRequeueAfter:
      requeues_.Forget(item.item);
      again(outcome->delay());
      return Count::kRequeueAfter;
    case Outcome::Kind::kGiveUp:
      requeues_.Forget(item.item);
      metrics_.Terminal();
      log.Error("given up until something changes: {}", outcome->why());
      return Count::kError;
    case Outcome::Kind::kDone:
      break;
  }
  requeues_.Forget(item.item);
  return Count::kSuccess;
}

bool Controller::Interrupted(const Error& error) const {
  if (runs_.stop_requested()) return true;
  return error.code == ErrorCode::kCancelled && environment_.leads && !environment_.leads();
}

void Controller::SettleError(const WorkItem& item, const ReconcileLog& log, const Error& error) {
  requeues_.Forget(item.item);
  const std::string text = error.ToString();
  AddOptions options;
  // Not that of what was added meanwhile: a resync must not put a live change's retry behind.
  options.priority = item.priority;
  if (Interrupted(error)) {
    // It stays for the next start.
    log.Info("interrupted, kept for later: {}", text);
  } else {
    options.rate_limited = true;
    options.at_least = ServerPause(error);
    options.error = text;
    log.Error("failed: {} failures={}", text, item.failures + 1);
  }
  const Result<void> added = queue_->AddWithOptions(item.item, options);
  if (!added) log.Warn("queued again, but not stored yet: {}", added.error().ToString());
}

}  // namespace larder
