// A part of one or several informers, seen as one: some namespaces, narrowed by selectors.
//
// It is what several namespaces in one request give (SharedInformerFactory::ForNamespaces gives the
// informers themselves), and what a tenant gets. Handlers, queues and reads see the objects of the
// scope and nothing else: one that leaves it is deleted for them, one that enters is added; by key,
// by index and in counts the others do not exist.
//
// Thread-safe. The informers must outlive it, and so must it outlive its registrations.
//
//   LARDER_ASSIGN_OR_RETURN(ScopedInformer* pods, tenant->ForResource({.resource = pod_resource}));
//   pods->AddEventHandler(handler, {});
//   pods->Get({"team-a", "web-0"});
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "indexer/lister.h"
#include "informer/scope.h"
#include "informer/shared_informer.h"

namespace larder {

// How many handlers, and how much memory for what waits for them, may be in use. Thread-safe.
class Quota {
 public:
  // `owner` is for messages. 0: no limit.
  Quota(std::string owner, size_t max_handlers, size_t max_bytes);

  // Takes one handler and up to `bytes`, but at least kLeastBytes; returns how many bytes. kNoSpace
  // names the quota and what is in use.
  static constexpr size_t kLeastBytes = size_t{64} << 10;
  Result<size_t> Take(size_t bytes);
  void Give(size_t bytes);
  // kNoSpace when what one call would hold is more than the quota.
  Result<void> CheckBytes(size_t bytes) const;

  size_t max_bytes() const { return max_bytes_; }
  std::pair<size_t, size_t> InUse() const;  // handlers, bytes

 private:
  const std::string owner_;
  const size_t max_handlers_;
  const size_t max_bytes_;
  mutable Mutex mutex_;
  size_t handlers_ LARDER_GUARDED_BY(mutex_) = 0;
  size_t bytes_ LARDER_GUARDED_BY(mutex_) = 0;
};

class OneAtATime;

class ScopedInformer {
 public:
  struct Part {
    SharedInformer* informer = nullptr;
    Scope scope;
  };
  // No two parts have a namespace in common. `prefix` is put before durable names, so that users of
  // one informer do not meet; `quota` may be null.
  explicit ScopedInformer(std::vector<Part> parts, std::string prefix = {}, Quota* quota = nullptr);
  ~ScopedInformer();
  ScopedInformer(const ScopedInformer&) = delete;
  ScopedInformer& operator=(const ScopedInformer&) = delete;

  // One handler over all parts; its calls come one at a time.
  class Registration {
   public:
    bool HasSynced() const;
    std::vector<ListenerStats> Stats() const;

   private:
    friend class ScopedInformer;
    std::vector<std::pair<SharedInformer*, SharedInformer::Registration>> parts_;
    std::shared_ptr<OneAtATime> one_at_a_time_;  // null: there is one part
    size_t bytes_ = 0;
  };
  Result<std::shared_ptr<Registration>> AddEventHandler(std::shared_ptr<EventHandler> handler,
                                                        HandlerOptions options = {});
  // As SharedInformer's: also from within the handler, which then hears nothing more from any part.
  Result<void> RemoveEventHandler(const std::shared_ptr<Registration>& registration);
  Result<void> AddEnqueuer(WorkQueue* queue, const EnqueuerOptions& options,
                           const EnqueueFunction& function);

  bool HasSynced() const;
  Result<void> WaitForSync(Clock::Steady deadline, const std::stop_token& stop) const;

  // Reading, as with Lister and Indexer. A namespace outside the scope has nothing in it.
  Result<ObjectPtr> Get(const ObjectKey& key) const;  // kNotFound
  // With a limit a page also ends at the quota, with one object at least; without one, more than
  // the quota is kNoSpace.
  Result<QueryPage> List(const Query& query) const;
  Result<void> ForEach(const Query& query, const Store::ObjectVisitor& visit) const;
  Result<size_t> Count(const Query& query = {}) const;
  Result<std::vector<ObjectPtr>> ByIndex(const std::string& index, const std::string& value) const;
  Result<std::vector<ObjectKey>> IndexKeys(const std::string& index,
                                           const std::string& value) const;
  // Every value that an object in the scope has; reads each of them.
  Result<std::vector<std::string>> ListIndexFuncValues(const std::string& index) const;

 private:
  friend class Tenant;  // nobody else: a part's informer shows all that there is

  const std::vector<Part>& parts() const { return parts_; }
  // A namespace of a part, or all of it.
  struct Slot {
    const Part* part;
    std::string ns;
  };
  std::vector<Slot> SlotsFor(const std::string& ns) const;
  static Result<Query> Narrowed(const Query& query, const Slot& slot);
  Result<QueryPage> ListPage(const Query& query, const std::vector<Slot>& slots) const;
  Result<void> Detach(const Registration& registration);

  const std::vector<Part> parts_;
  const std::string prefix_;
  Quota* const quota_;
  std::vector<Slot> slots_;  // in the order of keys
  Mutex mutex_;
  std::vector<std::shared_ptr<Registration>> registrations_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
