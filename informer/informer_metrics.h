// An informer's metrics in a Prometheus registry; docs/metrics.md lists them.
//
// Publish() moves what was counted since the last call; a registry has one
// thread that does it for all its informers twice a second, so that neither
// commits nor handlers touch the registry. Thread-safe. Everything is taken out
// of the registry with the object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace prometheus {
class Registry;
}

namespace larder {

class HotTier;
struct InformerStatus;

class InformerMetrics {
 public:
  // `collection` is the label of all of them; `hot` may be null. Both must
  // outlive this.
  InformerMetrics(prometheus::Registry* registry, std::string collection, HotTier* hot);
  ~InformerMetrics();
  InformerMetrics(const InformerMetrics&) = delete;
  InformerMetrics& operator=(const InformerMetrics&) = delete;

  void Publish(const InformerStatus& status);

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

// Calls `publish` twice a second, on one thread for all of a registry, until
// what it returns is dropped; a call that is under way then has ended.
std::shared_ptr<void> PublishRegularly(prometheus::Registry* registry,
                                       std::function<void()> publish);

struct BatchingStats {
  uint64_t duplicates = 0;
  uint64_t failed_batches = 0;
};
// Publishes a BatchingHandler's counts until what it returns is dropped.
std::shared_ptr<void> PublishBatching(prometheus::Registry* registry, const std::string& handler,
                                      std::function<BatchingStats()> stats);

}  // namespace larder
