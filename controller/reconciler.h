// What a controller's author writes: look at one object, bring the world in line, say what comes
// next.
//
// A reconcile is given a key, not an event: it reads the present state, and must be right whatever
// happened before and however often it is called. One key is never reconciled twice at once.
//
// Errors: an error, or an exception, is logged, counted and tried again with backoff, and after
// max_retries kept as a dead letter. Reconcile is called from several threads when
// max_concurrent_reconciles is above 1.
//
//   Result<Outcome> Reconcile(ReconcileContext& context, const ReconcileRequest& request) {
//     LARDER_ASSIGN_OR_RETURN(ObjectPtr pod, context.client().Find("pods", request.key));
//     if (!pod) return Outcome::Done();           // it is gone
//     return Outcome::RequeueAfter(30s);
//   }
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "client/event_recorder.h"
#include "controller/cached_client.h"
#include "controller/reconcile_log.h"
#include "schema/object.h"

namespace larder {

struct ReconcileRequest {
  ObjectKey key;
  // How often it failed in a row before this run.
  uint32_t failures = 0;
};

// What is to happen with the key next.
class Outcome {
 public:
  enum class Kind { kDone, kRequeue, kRequeueAfter, kGiveUp };

  // In line. Nothing more until something changes.
  static Outcome Done() { return Outcome(Kind::kDone); }
  // Again soon, with growing delays; not a failure.
  static Outcome Requeue() { return Outcome(Kind::kRequeue); }
  // Again after this time, or sooner when something changes. A time that is over, 0 or less, is
  // Requeue(), so that a computed one neither spins nor is lost. (controller-runtime takes 0 for
  // "not at all", which is Done() here.)
  static Outcome RequeueAfter(std::chrono::nanoseconds delay) {
    if (delay.count() <= 0) return Requeue();
    Outcome outcome(Kind::kRequeueAfter);
    outcome.delay_ = delay;
    return outcome;
  }
  // Failed, and trying again would not help until something changes: counted and logged, not
  // retried.
  static Outcome GiveUp(std::string why) {
    Outcome outcome(Kind::kGiveUp);
    outcome.why_ = std::move(why);
    return outcome;
  }

  Kind kind() const { return kind_; }
  std::chrono::nanoseconds delay() const { return delay_; }
  const std::string& why() const { return why_; }

 private:
  explicit Outcome(Kind kind) : kind_(kind) {}

  Kind kind_;
  std::chrono::nanoseconds delay_{0};
  std::string why_;
};

// What one run has at hand. Lives as long as the run.
class ReconcileContext {
 public:
  ReconcileContext(CachedClient& client, EventRecorder* events, const ReconcileLog& log,
                   std::stop_token stop, Clock* clock)
      : client_(client), events_(events), log_(log), stop_(std::move(stop)), clock_(clock) {}

  // Reads from the store, writes to the server.
  CachedClient& client() const { return client_; }
  // Names controller, key and reconcile id in every line.
  const ReconcileLog& log() const { return log_; }
  // Requested when the run's time is over, the manager has to end, or the lease is lost. Give it to
  // everything that waits.
  const std::stop_token& stop() const { return stop_; }
  Clock* clock() const { return clock_; }
  // An Event about the object, for `kubectl describe`. Never blocks, best effort.
  void Event(const Object& about, EventLevel level, std::string_view reason,
             std::string_view message) const {
    if (events_) events_->Event(about, level, reason, message);
  }

 private:
  CachedClient& client_;
  EventRecorder* const events_;
  const ReconcileLog& log_;
  const std::stop_token stop_;
  Clock* const clock_;
};

class Reconciler {
 public:
  virtual ~Reconciler() = default;
  virtual Result<Outcome> Reconcile(ReconcileContext& context, const ReconcileRequest& request) = 0;
};

using ReconcileFunction =
    std::function<Result<Outcome>(ReconcileContext&, const ReconcileRequest&)>;

}  // namespace larder
