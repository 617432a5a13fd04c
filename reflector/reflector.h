// Keeps a Target equal to one collection on an API server: list once, then watch, for ever.
//
// What it guarantees to the target:
//  1. Order: Start, then BeginList … EndList when a list is needed, then events in the server's
//  order. One thread.
//  2. EndList is called only for a list that arrived whole; a failed one is begun again and nothing
//  is swept.
//  3. The version to resume from never moves past an event that was not handed over. What cannot be
//  understood (not JSON,
//     invalid UTF-8, an unknown type, a name with '/' or NUL, no resourceVersion, larger than
//     max_event_bytes) ends the stream with kProtocol and a backoff; it is never skipped, because
//     an object silently missing is a wrong cache.
//  4. A stored version is trusted only after two checks: the cluster is the same one, and its
//  version is not lower. While it
//     runs, a stream that is silent for silent_timeout is checked the same way. A server that lost
//     its newest state (an etcd restored from backup) is listed anew with the reason "rewound";
//     equal versions prove nothing then.
//  5. 429, refused connections and broken streams lead to a new watch from the same version, never
//  to a list.
//
// Errors do not end it: they are in Status(), the log and the metrics, and it tries again with a
// backoff. It ends by the stop token, or with kAnotherCluster, when the server is not the one that
// the target was filled from: the owner must open another target. When a call of the target fails,
// the stream is dropped and Start is called again; a target that fails behind its calls says so
// with TargetFailed.
//
// Thread safety: Run() on one thread; Pause, Resume, TargetFailed and Status on any. Durability is
// the target's. The transport and the target must outlive it.
//
//   auto reflector = Reflector::Create({.resource = pods}, transport, &target);
//   std::jthread thread([&](std::stop_token stop) { (*reflector)->Run(stop); });
//   (*reflector)->Status().state;
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "client/transport.h"
#include "reflector/reflector_options.h"
#include "reflector/reflector_status.h"
#include "reflector/target.h"

namespace larder {

class ReflectorMachine;

class Reflector {
 public:
  // Why Run() returned.
  enum class Outcome {
    kStopped,
    kAnotherCluster,  // Status().error says which UIDs
  };

  // kInvalidArgument for options that cannot work.
  static Result<std::unique_ptr<Reflector>> Create(ReflectorOptions options,
                                                   HttpTransport* transport, Target* target);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  // Blocks until `stop` is requested or another cluster is found. May be called again afterwards.
  Outcome Run(const std::stop_token& stop);

  // Closes the connection and waits; Resume() goes on from the target's cursor, with the checks of
  // a start.
  void Pause();
  void Resume();

  // The target could not keep what it was given. A quiet stream may bring no call that could say so
  // for minutes: it is dropped now, and after a backoff the target is asked where to begin.
  void TargetFailed(const Error& error);

  ReflectorStatus Status() const;
  const ReflectorOptions& options() const;

 private:
  explicit Reflector(std::unique_ptr<ReflectorMachine> machine);

  const std::unique_ptr<ReflectorMachine> machine_;
};

// The UID of namespace kube-system: what names a cluster. For owners that open a collection.
Result<std::string> FetchClusterUid(HttpTransport& transport, const std::stop_token& stop);

}  // namespace larder
