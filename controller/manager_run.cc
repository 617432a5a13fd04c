// The manager's life: from the health server's start to the last thread's end.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

#include "base/duration.h"
#include "base/thread_name.h"
#include "client/retry.h"
#include "controller/manager_impl.h"
#include "reflector/reflector.h"

namespace larder {
namespace {

using std::chrono::milliseconds;

// After the time for running reconciles is over they are asked to end: how long that may take.
constexpr std::chrono::seconds kCancelPatience{2};
// The same where no time is left: for workers that have nothing to do but to wake up.
constexpr milliseconds kLeastPatience{200};
constexpr std::chrono::seconds kEventPatience{2};
// How often a manager that is ending looks whether it still holds the lease.
constexpr milliseconds kLeaseLook{100};
// Of waiting for the first sync, and how many of them pass between two lines of the log.
constexpr std::chrono::seconds kSyncPiece{1};
constexpr int kPiecesPerLog = 10;

// Where a right is missing, waiting helps nobody; where none is there at all, so does going on.
bool OnlyRefusedAreMissing(const std::vector<FactoryInformerStatus>& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const FactoryInformerStatus& one) { return one.status.synced; }) &&
         std::all_of(all.begin(), all.end(), [](const FactoryInformerStatus& one) {
           return one.status.synced || one.refused;
         });
}

}  // namespace

Result<void> Manager::Impl::Run(const std::stop_token& stop) {
  {
    MutexLock lock(mutex);
    if (std::exchange(started, true)) {
      return MakeError(ErrorCode::kNotReady, "a manager runs once: make a new one");
    }
  }
  // A stop from outside and a failure inside end the same waits.
  const std::stop_callback forward(stop, [this] { ending.request_stop(); });
  const std::stop_token ended = ending.get_token();
  Result<void> outcome = [&]() -> Result<void> {
    LARDER_RETURN_IF_ERROR(Serve());
    LARDER_RETURN_IF_ERROR(FindCluster(ended));
    LARDER_RETURN_IF_ERROR(MakeControllers(ended));
    LARDER_RETURN_IF_ERROR(Sync(ended));
    LARDER_RETURN_IF_ERROR(AttachSources(/*mapped=*/true));
    ForgetFormerSources();
    return Work(ended);
  }();
  EndWork(!outcome && election.joinable() && !elector->IsLeader());
  Finish();
  {
    MutexLock lock(mutex);
    if (failure) outcome = tl::unexpected(*failure);
  }
  if (!outcome && outcome.error().code == ErrorCode::kCancelled && stop.stop_requested()) {
    outcome = Result<void>();
  }
  // For those who still wait for it to work.
  Fail(outcome ? Error{ErrorCode::kCancelled, "the manager has ended", {}, {}} : outcome.error());
  return outcome;
}

Result<void> Manager::Impl::Serve() {
  health->AddHealthCheck("ping", [] { return Result<void>(); });
  health->AddReadyCheck("store", [this] { return store->Health(); });
  health->AddReadyCheck("informers", [this]() -> Result<void> {
    {
      MutexLock lock(mutex);
      if (not_answered) {
        return MakeError(ErrorCode::kNotReady, "the server was not reached yet: {}",
                         not_answered->ToString());
      }
      if (!not_built.empty()) {
        return MakeError(ErrorCode::kNotReady, "indexes are being built: {}", not_built);
      }
    }
    const SharedInformerFactory* informers = Factory();
    if (informers == nullptr) {
      return MakeError(ErrorCode::kNotReady, "the server was not reached yet");
    }
    LARDER_RETURN_IF_ERROR(informers->Ready());
    MutexLock lock(mutex);
    if (synced) return {};
    return MakeError(ErrorCode::kNotReady, "not in sync yet");
  });
  if (elector) {
    health->AddReadyCheck("lease", [this] { return elector->Ready(); });
  }
  health->OnScrape([this] { PublishLeadership(); });
  if (config.listen == "0") return {};
  return health->Start({config.listen, config.tls_cert_file, config.tls_key_file});
}

template <typename Ask>
auto Manager::Impl::UntilAnswered(const Ask& ask, bool whatever_it_says,
                                  const std::stop_token& stop) -> decltype(ask()) {
  constexpr milliseconds kFirst{200};
  constexpr milliseconds kLongest{10'000};
  for (milliseconds pause = kFirst;; pause = std::min(pause * 2, kLongest)) {
    auto answer = ask();
    if (answer || !(whatever_it_says || answer.error().IsRetryable())) {
      MutexLock lock(mutex);
      not_answered.reset();
      return answer;
    }
    if (stop.stop_requested()) break;
    spdlog::warn("cannot reach {}: {}; trying again", client_config.server,
                 answer.error().ToString());
    {
      MutexLock lock(mutex);
      not_answered = answer.error();
    }
    if (!clock->SleepFor(std::max(pause, ServerPause(answer.error())), stop)) break;
  }
  return MakeError(ErrorCode::kCancelled, "stopped before the server was reached");
}

Result<void> Manager::Impl::FindCluster(const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(
      cluster_uid, UntilAnswered([&] { return FetchClusterUid(*transport, stop); }, true, stop));
  return {};
}

Result<Resource> Manager::Impl::Resolve(const ResourceName& name, const std::stop_token& stop) {
  return UntilAnswered([&] { return client->Resolve(name, stop); }, false, stop);
}

Result<void> Manager::Impl::Sync(const std::stop_token& stop) {
  SharedInformerFactory* const informers = Factory();
  informers->Start();
  const Clock::Steady begin = clock->Now();
  // In pieces, so that a log shows what is missing.
  for (int piece = 1;; ++piece) {
    Result<void> done = informers->WaitForCacheSync(clock->Now() + kSyncPiece, stop);
    if (done) {
      spdlog::info("in sync after {}",
                   FormatDuration(std::chrono::duration_cast<milliseconds>(clock->Now() - begin)));
      break;
    }
    if (done.error().code != ErrorCode::kTimeout) return done;
    if (OnlyRefusedAreMissing(informers->Status())) {
      spdlog::error("going on without what the server refuses, whose controllers wait: {}",
                    done.error().message);
      break;
    }
    if (piece % kPiecesPerLog == 0) {
      spdlog::info("waiting for the first sync: {}", done.error().message);
    }
  }
  MutexLock lock(mutex);
  synced = true;
  changed.notify_all();
  return {};
}

void Manager::Impl::StartControllers(bool leaders) {
  for (Controller* controller : Controllers()) {
    if (controller->definition().options.needs_leader_election == leaders) controller->Start();
  }
}

void Manager::Impl::StartRunnables(bool leaders, const std::stop_token& stop) {
  std::vector<Runnable> wanted;
  {
    MutexLock lock(mutex);
    wanted = runnables;
  }
  for (const Runnable& runnable : wanted) {
    if (runnable.needs_leader_election != leaders) continue;
    {
      MutexLock lock(mutex);
      ++running;
    }
    threads.emplace_back([this, runnable, stop] {
      Result<void> outcome;
      try {
        outcome = runnable.run(stop);
      } catch (const std::exception& error) {
        outcome = MakeError(ErrorCode::kInternal, "it threw: {}", error.what());
      } catch (...) {
        outcome = MakeError(ErrorCode::kInternal, "it threw something that is no exception");
      }
      if (!outcome && !stop.stop_requested()) {
        Fail({outcome.error().code,
              "runnable " + runnable.name + ": " + outcome.error().message,
              {},
              {}});
      }
      MutexLock lock(mutex);
      --running;
      changed.notify_all();
    });
  }
}

Result<std::optional<Leadership>> Manager::Impl::Lead(const std::stop_token& stop) {
  if (!elector) return std::nullopt;
  spdlog::info("waiting for the lease {}/{} as {}", elector->options().ns, elector->options().name,
               elector->options().identity);
  LARDER_RETURN_IF_ERROR(elector->Acquire(stop));
  spdlog::info("leading: the lease {}/{} is ours", elector->options().ns, elector->options().name);
  const Leadership leadership = elector->Current();
  election = std::jthread([this](const std::stop_token& ended) {
    NameThread("larder-election");
    const Result<void> held = elector->Hold(ended);
    if (held.error().code != ErrorCode::kCancelled) Fail(held.error());
  });
  return leadership;
}

Result<void> Manager::Impl::Work(const std::stop_token& stop) {
  StartControllers(false);
  StartRunnables(false, work.get_token());
  early_resyncer->Start();
  LARDER_ASSIGN_OR_RETURN(const std::optional<Leadership> leadership, Lead(stop));
  resyncer->Start(leadership);
  StartControllers(true);
  StartRunnables(true, work.get_token());
  MutexLock lock(mutex);
  working = true;
  changed.notify_all();
  // The election's thread may hang in a request when the time is over: the clock decides.
  while (!failure && clock->WaitUntil(mutex, changed, LeadsUntil(), stop)) {
    if (elector && !elector->IsLeader() && !failure) failure = elector->Lost();
  }
  if (failure) return tl::unexpected(*failure);
  return {};
}

Clock::Steady Manager::Impl::LeadsUntil() const {
  if (!elector) return Clock::Steady::max();
  return elector->LeadsUntil().value_or(clock->Now());
}

Clock::Steady Manager::Impl::LeaseEnds() const {
  if (!election.joinable()) return Clock::Steady::max();
  // None: another one has it.
  const auto until = elector->LeadsUntil();
  if (!until) return clock->Now();
  // A tenth of what is between the two is for us.
  return *until + (config.lease_duration - config.renew_deadline) * 9 / 10;
}

std::vector<internal::Resyncer*> Manager::Impl::Resyncers() const {
  std::vector<internal::Resyncer*> all;
  for (const auto& one : {resyncer.get(), early_resyncer.get()}) {
    if (one != nullptr) all.push_back(one);
  }
  return all;
}

bool Manager::Impl::WaitForWork(Clock::Steady deadline) {
  for (Controller* controller : Controllers()) {
    if (!controller->WaitUntilIdle(deadline)) return false;
  }
  for (internal::Resyncer* one : Resyncers()) {
    if (!one->WaitUntilIdle(deadline)) return false;
  }
  return WaitForRunnables(deadline);
}

bool Manager::Impl::WaitForRunnables(Clock::Steady deadline) {
  MutexLock lock(mutex);
  while (running > 0) {
    if (clock->Now() >= deadline) return false;
    clock->WaitUntil(mutex, changed, deadline, {});
  }
  return true;
}

void Manager::Impl::EndWork(bool lost_lease) {
  const std::vector<Controller*> all = Controllers();
  for (Controller* controller : all) controller->BeginStop();
  work.request_stop();
  // Before anything is waited for: another may lead soon.
  if (lost_lease) {
    for (Controller* controller : all) controller->CancelRuns();
  }
  for (internal::Resyncer* one : Resyncers()) one->BeginStop();
  if (!lost_lease)
    lost_lease = !WaitWhileHolding(Clock::After(clock->Now(), config.shutdown_timeout));
  for (Controller* controller : all) controller->CancelRuns();
  const Clock::Steady begin = clock->Now();
  const Clock::Steady longest = lost_lease ? LeaseEnds() : begin + kCancelPatience;
  // Renewals succeed or fail meanwhile.
  const auto last = [&] {
    return std::max(std::min(longest, LeaseEnds()), begin + kLeastPatience);
  };
  while (!WaitForWork(std::min(last(), clock->Now() + kLeaseLook))) {
    if (clock->Now() < last()) continue;
    Stuck();
    return;
  }
}

bool Manager::Impl::WaitWhileHolding(Clock::Steady deadline) {
  while (clock->Now() < deadline) {
    if (WaitForWork(std::min(deadline, clock->Now() + kLeaseLook))) return true;
    if (election.joinable() && !elector->IsLeader()) return false;
  }
  spdlog::warn("reconciles still run after {}: asking them to end",
               FormatDuration(config.shutdown_timeout));
  return true;
}

void Manager::Impl::Stuck() {
  if (options.on_stuck) {
    LogStuck();
    options.on_stuck();
    return;
  }
  // The log or the disk may be what hangs, and another leads soon.
  const std::jthread watchdog([this] {
    clock->SleepFor(kLeastPatience, {});
    std::_Exit(1);
  });
  LogStuck();
  // What is under way is still in the store: the next start does it again.
  if (store) static_cast<void>(store->Sync());
  spdlog::critical("ending the process, because work goes on that must not");
  spdlog::shutdown();
  std::_Exit(1);
}

void Manager::Impl::LogStuck() {
  for (Controller* controller : Controllers()) {
    for (const std::string& key : controller->Running()) {
      spdlog::critical("a reconcile does not end controller={} key={}", controller->name(), key);
    }
  }
  for (internal::Resyncer* one : Resyncers()) {
    if (!one->WaitUntilIdle(clock->Now())) spdlog::critical("a resync does not end");
  }
}

void Manager::Impl::Finish() {
  for (internal::Resyncer* one : Resyncers()) one->Stop();
  for (Controller* controller : Controllers()) controller->Stop();
  threads.clear();
  if (election.joinable()) {
    election.request_stop();
    election.join();
    elector->Release();
  }
  if (events) events->Flush(clock->Now() + kEventPatience);
  if (SharedInformerFactory* informers = Factory()) informers->Shutdown();
  // Until then mappings are called, which read through the client.
  if (client) client->RemoveInformers();
  if (health) health->Stop();
}

}  // namespace larder
