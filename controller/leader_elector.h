// Leader election on a coordination.k8s.io Lease, as client-go does it.
//
// At most one candidate leads at any time, as long as clocks run at about the same speed (their
// readings are never compared: a lease that we saw change is left alone for lease_duration of our
// own time from then on). A leader counts its time from before it asked for the renewal, and
// IsLeader() turns false by the clock alone, renew_deadline after the last renewal that succeeded:
// also in a process that was stopped and wakes up later. The time between renew_deadline and
// lease_duration is for ending what is under way.
//
// IsLeader, LeadsUntil, Lost, Leader, LastError and Ready are thread-safe; the rest is for one
// thread.
// Hold may notice late that the lease is lost, where a request or a credential plugin hangs:
// whoever must stop in time waits for LeadsUntil. Errors of the server are retried, logged, and
// reported by LastError.
//
//   LeaderElector elector(transport, {.ns = "default", .name = "me", .identity = "pod-1"});
//   LARDER_RETURN_IF_ERROR(elector.Acquire(stop));   // blocks until we lead
//   std::jthread work(...);                          // while elector.IsLeader()
//   const Result<void> lost = elector.Hold(stop);    // renews until lost or stopped
//   elector.Release();                               // the next one need not wait
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "client/api_client.h"
#include "client/transport.h"

namespace larder {

struct LeaderElectionOptions {
  std::string ns{};
  std::string name{};
  std::string identity{};  // unique among the candidates
  std::chrono::nanoseconds lease_duration = std::chrono::seconds(15);
  std::chrono::nanoseconds renew_deadline = std::chrono::seconds(10);
  std::chrono::nanoseconds retry_period = std::chrono::seconds(2);
  Clock* clock = RealClock();
  uint64_t random_seed = 0;  // 0: from the system
};

// One time of leading. The next one of the same lease has one transition more, whoever's it is.
struct Leadership {
  std::string lease_uid;
  int64_t transitions = 0;
};

class LeaderElector {
 public:
  // `transport` must outlive it; one of its own keeps other requests from delaying the renewal.
  LeaderElector(HttpTransport& transport, LeaderElectionOptions options);

  // Waits until we lead. kCancelled: a stop was requested first.
  Result<void> Acquire(const std::stop_token& stop);
  // Renews. kUnavailable: the lease is lost, IsLeader() is false. kCancelled: a stop was requested,
  // and we still lead.
  Result<void> Hold(const std::stop_token& stop);
  // The one that Acquire began. After it, before Hold or on its thread.
  Leadership Current() const;
  // Gives the lease up, where we hold it. Only when nothing runs any more that needs it.
  void Release();

  // Certainly the only one, now.
  bool IsLeader() const;
  // When IsLeader() turns false, or did, unless a renewal comes first. None: another one leads.
  std::optional<Clock::Steady> LeadsUntil() const;
  // What Hold returns when the lease is lost.
  Error Lost() const;
  // Who holds the lease, as far as was seen.
  std::string Leader() const;
  std::optional<Error> LastError() const;
  // An error where we cannot take part, and waiting does not mend it: a missing right, a namespace
  // that is not there. That another one leads, or the server is away, is none.
  Result<void> Ready() const;
  const LeaderElectionOptions& options() const { return options_; }

  // One try to take or renew the lease; true when we hold it. What Acquire and Hold repeat: for
  // tests that move the clock themselves.
  bool TryAcquireOrRenew(const std::stop_token& stop);

 private:
  struct Record {
    std::string holder;
    std::string version;  // resourceVersion
    std::string acquire_time;
    int64_t duration_seconds = 0;
    int64_t transitions = 0;
    Json object = Json::object();  // as the server has it, with what others put there
  };

  Result<void> Try(Clock::Steady asked_at, const std::stop_token& stop);
  Result<Record> Read(const std::stop_token& stop);
  Result<void> Write(const std::optional<Record>& previous, Clock::Steady asked_at,
                     const std::stop_token& stop);
  void Observe(const Record& record);
  // Each failure once, and again after a while.
  void Warn(const Result<void>& outcome);
  Json MakeLease(const std::optional<Record>& previous) const;
  Result<void> GiveUp(const Record& held);
  std::chrono::nanoseconds LeaseOf(const Record& record) const;

  // Bounds each request, so that one that hangs leaves time for another, and none of a leader
  // outlasts its lease.
  class LimitedTransport final : public HttpTransport {
   public:
    LimitedTransport(HttpTransport& transport, std::chrono::milliseconds timeout,
                     const LeaderElector& elector)
        : transport_(transport), timeout_(timeout), elector_(elector) {}
    Result<Response> Do(const Request& request, const std::stop_token& stop) override;
    Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                             const std::stop_token& stop) override;

   private:
    HttpTransport& transport_;
    const std::chrono::milliseconds timeout_;
    const LeaderElector& elector_;
  };

  const LeaderElectionOptions options_;
  LimitedTransport transport_;
  ApiClient client_;
  const Resource resource_;
  std::mt19937_64 random_;

  // The elector's thread's own: the lease as seen last, and when it was seen to change.
  std::optional<Record> observed_;
  Clock::Steady observed_at_{};
  // And what the log said last; empty: nothing since the last answer about the lease.
  std::string warned_;
  Clock::Steady warned_at_{};

  mutable Mutex mutex_;
  std::string leader_ LARDER_GUARDED_BY(mutex_);
  std::optional<Error> last_error_ LARDER_GUARDED_BY(mutex_);
  // Nanoseconds of the steady clock until which we lead; 0: we do not.
  std::atomic<int64_t> leads_until_{0};
};

}  // namespace larder
