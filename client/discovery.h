// Which resources a server has, and what people call them.
//
// Maps plural, singular, kind and short names to a Resource with its preferred version and scope,
// and a kind back to its resource. Uses aggregated discovery (two requests) where the server has
// it, else the documents of each group. What was read is kept; a name that is not in it makes
// Discovery look again, at most once in min_refresh_interval, so that a new CRD is found and a
// typing error does not flood the server.
//
// Thread-safe; a caller that needs a refresh blocks until it is done, its own stop is requested, or
// it failed. Errors: kNotFound for an unknown name, otherwise what the server answered. One group
// that does not answer (an aggregated API server that is down) hides only its own resources: what
// may be one of them is kUnavailable.
//
//   Discovery discovery(*transport);
//   Result<Resource> deployments = discovery.Resolve("deploy");
#pragma once

#include <condition_variable>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "client/discovery_documents.h"
#include "client/transport.h"
#include "schema/resource.h"

namespace larder {

class Discovery {
 public:
  struct Options {
    std::chrono::milliseconds min_refresh_interval{10'000};
    Clock* clock = RealClock();
  };

  // `transport` must outlive it.
  explicit Discovery(HttpTransport& transport);
  Discovery(HttpTransport& transport, Options options);

  // "deploy", "deployment", "deployments", "Deployment", "deployments.apps", "deployments.v1.apps".
  // Where several groups have the name the server's order of groups decides, core first.
  Result<Resource> Resolve(std::string_view name, const std::stop_token& stop = {});
  // The resource of a kind, as an object names it: ("apps/v1", "Deployment"). An empty version
  // ("apps/") means the preferred one.
  Result<Resource> ForKind(std::string_view api_version, std::string_view kind,
                           const std::stop_token& stop = {});
  // Everything, in the server's order.
  Result<std::vector<ApiResource>> Resources(const std::stop_token& stop = {});
  // Reads it anew, now.
  Result<void> Refresh(const std::stop_token& stop = {});

 private:
  using Snapshot = std::shared_ptr<const Discovered>;

  // Newly read where that is allowed again; otherwise nullptr.
  Result<Snapshot> RefreshForMiss(const Snapshot& seen, const std::stop_token& stop);
  // What is other than `before`: what somebody has read since, or newly read.
  Result<Snapshot> Load(const Snapshot& before, const std::stop_token& stop);
  template <typename Sought>
  Result<Resource> Find(const Sought& sought, const std::stop_token& stop);

  Result<Discovered> ReadAll(const std::stop_token& stop);
  // Adds what is under `root`.
  Result<void> ReadRoot(const std::string& root, Discovered& all, const std::stop_token& stop);

  HttpTransport& transport_;
  const Options options_;

  Mutex mutex_;
  std::condition_variable_any loaded_;
  bool loading_ LARDER_GUARDED_BY(mutex_) = false;
  Snapshot snapshot_ LARDER_GUARDED_BY(mutex_);
  std::optional<Clock::Steady> tried_at_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
