// The demo's simulated cluster, in a process of its own, steered over HTTP.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "client/transport.h"
#include "schema/object.h"
#include "tools/demo/child.h"

namespace larder::tools {

class Cluster {
 public:
  static Result<std::unique_ptr<Cluster>> Start(uint64_t objects, uint64_t seed,
                                                const std::stop_token& stop);

  const std::string& url() const { return url_; }
  // Changes a second from now on; 0 stops. `limit` 0: no end.
  Result<void> Churn(double rate, uint64_t limit, uint64_t seed);
  // Returns when a churn with a limit has reached it.
  Result<void> WaitForChurn();
  // Every watch from before now gets a 410.
  Result<void> ExpireHistory();
  struct Event {
    uint64_t version = 0;
    bool deleted = false;
  };
  // The last thing that happened to each pod after `from`, from the cluster's own history.
  Result<std::map<std::string, Event>> LastEvents(uint64_t from);

 private:
  Cluster(std::unique_ptr<Child> process, std::stop_token stop)
      : process_(std::move(process)), stop_(std::move(stop)) {}
  Result<Json> Call(const char* method, std::string path, const Json& body);

  std::unique_ptr<Child> process_;
  std::stop_token stop_;
  std::string url_;
  std::unique_ptr<HttpTransport> transport_;
};

}  // namespace larder::tools
