// The informers of one cluster, each made once however many ask: client-go's SharedInformerFactory.
//
// One informer per collection (resource, namespace, selectors, projection, shard). Whoever asks for
// a collection that is there already shares its stream, and adds the indexes it needs. Two that
// want different transforms of one stream contradict each other: kInvalidArgument.
//
// Several clusters in one process are several factories; they may share the store and the hot tier,
// because a collection belongs to its cluster.
//
// Thread-safe. What ForResource returns lives as long as the factory.
//
//   SharedInformerFactory factory(context, {.resync_period = 10min});
//   LARDER_ASSIGN_OR_RETURN(SharedInformer* pods, factory.ForResource({.resource = pod_resource}));
//   factory.Start();
//   LARDER_RETURN_IF_ERROR(factory.WaitForCacheSync(clock->Now() + 30s, stop));
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "informer/scoped_informer.h"
#include "informer/shared_informer.h"

namespace larder {

struct FactoryOptions {
  // Used where a request names none. Several namespaces are several streams: see ForNamespaces.
  // Resources without namespaces are not touched.
  std::vector<std::string> namespaces{};
  std::string label_selector{};
  std::string field_selector{};
  std::chrono::milliseconds resync_period{0};
  // So many collections are listed at once: bounds the memory of a first start. 0: as many as there
  // are cores, but no more than one for each 32 MiB of the store's memory_limit.
  size_t max_lists_at_once = 0;
  // Has the last word on every request: list options, strategy, time-outs.
  std::function<void(InformerOptions&)> tweak{};
  Clock* clock = RealClock();
};

// One informer, as an operator wants to see it.
struct FactoryInformerStatus {
  std::string collection;   // "pods in x, app=web"
  std::string fingerprint;  // of its collection
  bool started = false;
  InformerStatus status;
  // What keeps it from being synced, in one line; empty when it is.
  std::string missing;
  // The server says 401 or 403: it is tried again, but somebody has to grant something.
  bool refused = false;
};

class SharedInformerFactory {
 public:
  explicit SharedInformerFactory(InformerContext context, FactoryOptions options = {});
  // Shuts down.
  ~SharedInformerFactory();
  SharedInformerFactory(const SharedInformerFactory&) = delete;
  SharedInformerFactory& operator=(const SharedInformerFactory&) = delete;

  // The informer of this collection. The first who asks decides about the connection and the
  // durability; asking for kSync where it is relaxed is an error, and so is an index of the same
  // name with another definition. kInvalidArgument also where several namespaces apply.
  Result<SharedInformer*> ForResource(InformerOptions options);
  // One informer for each namespace that applies: the request's own, or the factory's.
  Result<std::vector<SharedInformer*>> ForNamespaces(const InformerOptions& options,
                                                     std::vector<std::string> namespaces = {});

  // Several namespaces in one request, seen as one: handlers, queues and reads over all of them.
  // Shares the informers with whoever asks for a namespace alone.
  Result<std::unique_ptr<ScopedInformer>> Scoped(const InformerOptions& options,
                                                 std::vector<std::string> namespaces = {});
  // An informer that holds all that these options ask for, as durably, and enough of each object to
  // tell which they are; the same projection, transform and shard. Null: there is none.
  Result<SharedInformer*> FindWider(const InformerOptions& options) const;
  // Makes an informer that is there already serve these options, too: its indexes.
  // kInvalidArgument where they ask for kSync and its commits are relaxed.
  static Result<void> Join(SharedInformer& informer, const InformerOptions& options);

  // Starts those that were asked for and do not run yet; returns at once. Call
  // it again after more were asked for.
  void Start();
  // Waits until every one is synced. kTimeout names those that are not, and why; kCancelled.
  Result<void> WaitForCacheSync(Clock::Steady deadline, const std::stop_token& stop) const;
  // Ends all streams at once and the commits, in the order in which they were asked for; then all
  // handlers. Nothing can be asked for or started afterwards. Returns the handlers that did not
  // return within the grace, which all share and which begins when all were told, as "handler of
  // collection" (SharedInformer::Stop).
  std::vector<std::string> Shutdown();

  std::vector<FactoryInformerStatus> Status() const;
  // What /readyz says: kNotReady names each collection that is not synced, or that the server
  // refuses although it was synced once, and why. A server that is away makes nobody unready.
  Result<void> Ready() const;
  const InformerContext& context() const { return context_; }
  const FactoryOptions& options() const { return options_; }

 private:
  struct Entry {
    CollectionSpec spec;
    std::unique_ptr<SharedInformer> informer;
    bool started = false;
  };

  Result<void> ApplyDefaults(InformerOptions& options) const;
  Result<void> CheckTransform(const CollectionSpec& spec) const LARDER_REQUIRES(mutex_);
  std::vector<const Entry*> Entries() const;
  Error NotSynced(ErrorCode code) const;

  InformerContext context_;  // with list_gate_
  const FactoryOptions options_;
  ListGate list_gate_;

  mutable Mutex mutex_;
  // In the order of asking; none is ever removed.
  std::vector<std::unique_ptr<Entry>> entries_ LARDER_GUARDED_BY(mutex_);
  bool shut_down_ LARDER_GUARDED_BY(mutex_) = false;
};

}  // namespace larder
