// Switches that make the simulated server misbehave, for chosen requests, a number of times or for
// good.
//
//   faults.Add({.type = FaultType::kError, .resource = "pods", .verb = "list", .times = 2, .code =
//   503}); faults.Add({.type = FaultType::kCut, .verb = "watch", .after_events = 3});
//   faults.Clear();
//
// Over HTTP: POST /simulator/faults
// {"type":"error","resource":"pods","verb":"list","times":2,"code":503}. Thread-safe. A request is
// given its faults when it starts; an open watch keeps its own, except that a stall ends when its
// fault is removed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "schema/object.h"

namespace larder::apiserver {

enum class FaultType {
  kDrop,     // "drop": close the connection instead of answering
  kError,    // "error": answer `code` with a Status, and Retry-After where `retry_after` is set
  kDelay,    // "delay": answer `delay_ms` late
  kStall,    // "stall": stop in mid-line (a watch after `after_events`, a list in its middle), and
             // hang
  kCut,      // "cut": the same, and close the connection
  kClose,    // "close": end a watch cleanly after `after_events`
  kGarbage,  // "garbage": send bytes that are no JSON: in a watch after `after_events`, else as the
             // body
  kInject,   // "inject": a watch sends `body` as a line of its own after `after_events`
  kBody,     // "body": answer `code` with `body`, `repeat` times over (-1: without end)
  kContentType,  // "content_type": answer as usual, but call it `content_type`
  kSlow,         // "slow": `bytes_per_second`
  kVersion,      // "version": lie about resourceVersions; `mode`: duplicate, older, future, empty
  kHttpGone,  // "http_gone": a watch too old is answered with HTTP 410, not with 200 and an ERROR
              // event
};

struct Fault {
  FaultType type = FaultType::kDrop;
  std::string resource = {};  // "pods", "deployments.apps"; empty: any
  std::string verb = {};  // get list watch create update patch delete deletecollection; empty: any
  int times = 1;          // -1: until removed
  int code = 500;
  std::string reason = {};  // of the Status; empty: what fits the code
  std::string message = {};
  std::optional<int> retry_after = {};
  int after_events = 0;
  int delay_ms = 0;
  uint64_t bytes_per_second = 0;
  std::string mode = {};
  std::string content_type = {};
  std::string body = {};
  int64_t repeat = 1;
  std::map<std::string, std::string> headers = {};
  int id = 0;  // given by Add

  static Result<Fault> FromJson(const Json& json);
  Json ToJson() const;
};

// The faults of one request.
class FaultPlan {
 public:
  explicit FaultPlan(std::vector<Fault> faults = {}) : faults_(std::move(faults)) {}

  // The first of the type; null: none.
  const Fault* Find(FaultType type) const;
  bool Empty() const { return faults_.empty(); }

 private:
  std::vector<Fault> faults_;
};

class Faults {
 public:
  int Add(Fault fault);
  bool Remove(int id);
  void Clear();
  std::vector<Fault> List() const;

  // Takes what applies to a request, and counts it down.
  FaultPlan Take(std::string_view resource, std::string_view verb);

  // Waits until the fault is removed or replaced, `interrupted` says so after a Wake, or the server
  // stops.
  void Stall(int id, const std::stop_token& stop, const std::function<bool()>& interrupted);
  void Wake();

 private:
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  int next_id_ LARDER_GUARDED_BY(mutex_) = 1;
  // Faults whose count is used up leave the list, but a stall they caused goes on until it is
  // cleared.
  std::map<int, Fault> faults_ LARDER_GUARDED_BY(mutex_);
  std::set<int> stalls_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::apiserver
