// The simulated cluster's memory: objects, one global version, the watch windows, the full history.
//
// It plays the part of etcd and of the watch cache: every change gets the next version, whatever
// its resource; a reader may look at any version that the resource's window still covers; a watcher
// follows the window. What the objects mean (namespaces, finalizers, status) is ObjectWriter's
// business.
//
// Thread-safe. One mutex guards everything; bodies are compressed and rendered outside it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/history.h"
#include "apiserver/stored_body.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace larder::apiserver {

struct StoredObject {
  std::shared_ptr<const Identity> identity;
  uint64_t version = 0;
  StoredBody body;

  std::string_view Namespace() const;
  std::string_view Name() const;
  StoredBody::Rendered Render() const { return body.Render(std::to_string(version)); }
};
using StoredPtr = std::shared_ptr<const StoredObject>;

// One change in a resource's window.
struct WindowEvent {
  EventType type = EventType::kAdded;
  StoredPtr object;    // for kDeleted: the last state, with the version of the deletion
  StoredPtr previous;  // null for kAdded
  // The rendered object, encoded once and shared by all watchers; null once the event is no longer
  // young.
  std::shared_ptr<const StoredBody::Rendered> rendered;
};

class State;

// One resource: "pods", "widgets.example.com". What can change is under State's mutex_, which the
// lock analysis cannot see from here.
class Table {
 public:
  Table(std::string name, std::string type_prefix, bool namespaced)
      : name_(std::move(name)), type_prefix_(std::move(type_prefix)), namespaced_(namespaced) {}

  const std::string& name() const { return name_; }
  bool namespaced() const { return namespaced_; }
  BodyCodec& codec() { return codec_; }

 private:
  friend class State;

  const std::string name_;
  const std::string type_prefix_;
  const bool namespaced_;
  BodyCodec codec_;
  // In etcd's order: bytes of "ns/name".
  std::map<std::string, StoredPtr, std::less<>> objects_;
  std::deque<WindowEvent> window_;
  uint64_t first_sequence_ = 0;   // of window_.front(), counted from 0 for the table's first event
  uint64_t dropped_through_ = 0;  // a watch from below this version has lost events
  std::condition_variable_any changed_;
  bool removed_ = false;
};
using TablePtr = std::shared_ptr<Table>;

// A watcher's place in a window.
struct WatchPosition {
  uint64_t next_sequence = 0;
  // Events up to this version are not for this watcher: they are in its list, or it asked for later
  // ones.
  uint64_t after_version = 0;
};

class State {
 public:
  struct Options {
    Clock* clock = nullptr;
    uint64_t first_version = 1000;
    size_t window_events = 102'400;
  };
  enum class Outcome {
    kDone,
    kMismatch,              // the object is not at the expected version: read and try again
    kNoNamespace,           // the namespace does not exist
    kNamespaceTerminating,  // the namespace is being deleted
    kNoTable,               // the table was removed
  };
  static constexpr uint64_t kAbsent = 0;

  explicit State(Options options);

  // Tables.
  TablePtr AddTable(std::string name, std::string type_prefix, bool namespaced);
  TablePtr FindTable(std::string_view name) const;
  std::vector<TablePtr> Tables() const;
  // Ends its watches, and takes no write any more. The objects must be deleted before.
  void RemoveTable(std::string_view name);

  // Writes. `expected` is the version the object must have now, kAbsent for none. On kDone the
  // stored object, with its new version, is in `stored`.
  Outcome Put(Table& table, const std::string& key, const std::string& uid, uint64_t expected,
              const PreparedBody& body, StoredPtr* stored);
  // `body`: the last state, where it differs from what is stored; else null.
  Outcome Remove(Table& table, const std::string& key, uint64_t expected, const PreparedBody* body,
                 StoredPtr* stored);
  // From now on nothing can be created in the namespace, until it is gone.
  void SetTerminating(const std::string& ns);
  bool IsTerminating(const std::string& ns) const;

  // Reads.
  uint64_t Version() const;
  // Waits until the version is reached or `patience` is over. Returns the version then.
  uint64_t WaitForVersion(uint64_t wanted, Clock::Steady::duration patience,
                          const std::stop_token& stop);
  StoredPtr Get(const Table& table, std::string_view key) const;
  size_t Count(const Table& table) const;
  // How many objects have keys that start with `prefix`, at the present version.
  size_t CountPrefix(const Table& table, std::string_view prefix) const;
  bool HasPrefix(const Table& table, std::string_view prefix) const;

  struct ScanResult {
    bool expired = false;  // the window does not reach back to the version
    bool more = false;     // there is at least one object after the last
    std::vector<StoredPtr> objects;
  };
  // Up to `limit` objects as they were at `version`, with keys >= `from` that start with `prefix`.
  ScanResult Scan(const Table& table, uint64_t version, std::string_view prefix,
                  std::string_view from, size_t limit) const;

  // Watching. Start at the version: nullopt where the window does not reach back (410).
  std::optional<WatchPosition> WatchFrom(const Table& table, uint64_t version,
                                         uint64_t* oldest) const;
  // Everything at the prefix now, and the position right after it.
  struct WatchStart {
    std::vector<StoredPtr> objects;
    uint64_t version = 0;
    WatchPosition position;
  };
  WatchStart WatchNow(const Table& table, std::string_view prefix) const;

  enum class Wake {
    kEvents,
    kDeadline,
    kEnded,  // stopped, interrupted, table gone, or the watcher fell behind the window
  };
  // Waits for events; fills up to `max`. `interrupted` is called under the lock after every
  // wake-up, so it must only look at an atomic. `version` is the present one: what a bookmark says
  // after kDeadline.
  Wake NextEvents(Table& table, WatchPosition& position, size_t max, Clock::Steady deadline,
                  const std::stop_token& stop, const std::function<bool()>& interrupted,
                  std::vector<WindowEvent>& events, uint64_t* version);
  // Wakes all watchers, to look at `interrupted`.
  void WakeWatchers();

  // Drops the windows (of one table, or of all where null): watches from before now get a 410.
  void ExpireHistory(const Table* table);

  // A backup of everything, and the return to it, as when etcd is restored: what came after the
  // backup never happened, versions are given out again, all watches end. CRDs made since stay
  // served. False: nothing was saved.
  void Save();
  bool Restore();

  std::vector<HistoryEntry> ReadHistory(uint64_t from, size_t limit) const;
  size_t HistorySize() const;

 private:
  std::shared_ptr<StoredObject> MakeStored(Table& table, const std::string& key,
                                           const std::string& uid, const PreparedBody& body);
  void Publish(Table& table, EventType type, StoredPtr object, StoredPtr previous,
               std::shared_ptr<const StoredBody::Rendered> rendered) LARDER_REQUIRES(mutex_);
  bool NamespaceMissing(std::string_view ns) const LARDER_REQUIRES(mutex_);
  void DropWindow(Table& table, uint64_t version) LARDER_REQUIRES(mutex_);

  using Objects = std::map<std::string, StoredPtr, std::less<>>;
  struct Backup {
    uint64_t version;
    std::map<std::string, Objects> objects;
  };

  const Options options_;
  mutable Mutex mutex_;
  std::condition_variable_any version_changed_;
  uint64_t version_ LARDER_GUARDED_BY(mutex_);
  size_t version_waiters_ LARDER_GUARDED_BY(mutex_) = 0;
  std::map<std::string, TablePtr, std::less<>> tables_ LARDER_GUARDED_BY(mutex_);
  // Names outlive their tables, for the history's rows.
  std::set<std::string> table_names_ LARDER_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> terminating_ LARDER_GUARDED_BY(mutex_);
  History history_ LARDER_GUARDED_BY(mutex_);
  std::optional<Backup> backup_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::apiserver
