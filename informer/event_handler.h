// What a user does with changes, and how the changes reach them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "schema/object.h"

namespace larder {

// Called on the handler's own thread, one call at a time, in order per key. What it throws is
// logged and counted, and the change counts as delivered.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void OnAdd(const ObjectPtr& object, bool is_in_initial_list) = 0;
  virtual void OnUpdate(const ObjectPtr& old, const ObjectPtr& now) = 0;
  // `inferred`: nobody saw the delete; it was gone at a relist, and `last_known` is the last state
  // stored.
  virtual void OnDelete(const ObjectPtr& last_known, bool inferred) = 0;

  // For a handler that gathers what it hears (BatchingHandler): for how long it may. 0: it does
  // not.
  virtual std::chrono::nanoseconds MaxDelay() const { return {}; }
  // Called on the same thread, within MaxDelay and a few hundred changes: returns when everything
  // heard so far is dealt with. Only then is it acknowledged, and does the first list count as
  // heard. An error: nothing is acknowledged, nothing more is told, and it is called again a second
  // later.
  virtual Result<void> Flush() { return {}; }

  // For a handler that passes its calls on (ScopedInformer's, over several informers). Called from
  // another thread, when a call has not returned by the end of the grace: its thread is left
  // behind.
  virtual void LeaveBehind() noexcept {}
  // True: a call that has just returned may have been passed on to nobody, and is not acknowledged;
  // nothing more is told.
  virtual bool IsLeftBehind() const noexcept { return false; }
};

// For those who need one or two of the three.
struct EventHandlerFuncs final : EventHandler {
  std::function<void(const ObjectPtr&, bool)> on_add;
  std::function<void(const ObjectPtr&, const ObjectPtr&)> on_update;
  std::function<void(const ObjectPtr&, bool)> on_delete;

  void OnAdd(const ObjectPtr& object, bool is_in_initial_list) override {
    if (on_add) on_add(object, is_in_initial_list);
  }
  void OnUpdate(const ObjectPtr& old, const ObjectPtr& now) override {
    if (on_update) on_update(old, now);
  }
  void OnDelete(const ObjectPtr& last_known, bool inferred) override {
    if (on_delete) on_delete(last_known, inferred);
  }
};

struct HandlerOptions {
  // Empty: after a restart everything comes again as OnAdd, as in client-go.
  // With a name: what was not acknowledged before comes, and what changed
  // since, deletes included, and nothing else. A name seen for the first time,
  // or with another revision, gets everything once; the latter beside what was
  // not acknowledged and what changes. While nobody of this name
  // is registered its changes are kept, merged per key
  // (SharedInformer::ForgetHandler ends that). Letters, digits and any of
  // "-._/:".
  std::string durable_name;
  uint32_t revision = 1;
  // Every object again as OnUpdate(o, o), this often (jittered by a tenth),
  // read from the store in small pieces between the changes. 0: the informer's.
  std::chrono::milliseconds resync_period{0};
  // Only objects of this namespace; empty: all.
  std::string ns;
  // Only objects for which it holds; one that comes to hold is an OnAdd, one
  // that ceases to is an OnDelete, with the last state in which it held. It
  // sees every change before any are merged, inside the change's commit, and
  // between two commits what was kept for a durable name: be quick, and do not
  // call the informer. What it throws is logged and counted, and the object
  // does not hold.
  std::function<bool(const Object&)> filter;
  // What may wait in memory for a slow handler; past it changes merge per key and wait on disk.
  size_t buffer_events = 1024;
  size_t buffer_bytes = size_t{4} << 20;
};

}  // namespace larder
