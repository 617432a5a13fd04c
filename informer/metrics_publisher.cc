#include <condition_variable>
#include <cstdint>
#include <map>
#include <stop_token>
#include <thread>

#include "base/mutex.h"
#include "base/thread_name.h"
#include "informer/informer_metrics.h"

namespace larder {
namespace {

constexpr std::chrono::milliseconds kInterval{500};

class Publisher {
 public:
  static std::shared_ptr<Publisher> For(prometheus::Registry* registry) {
    static Mutex mutex;
    static std::map<prometheus::Registry*, std::weak_ptr<Publisher>> all LARDER_GUARDED_BY(mutex);
    MutexLock lock(mutex);
    auto& known = all[registry];
    std::shared_ptr<Publisher> publisher = known.lock();
    if (!publisher) known = publisher = std::make_shared<Publisher>();
    return publisher;
  }

  uint64_t Add(std::function<void()> publish) {
    MutexLock lock(mutex_);
    publish_[++last_] = std::move(publish);
    return last_;
  }
  void Remove(uint64_t id) {
    MutexLock lock(mutex_);
    publish_.erase(id);
  }

 private:
  void Run(const std::stop_token& stop) {
    NameThread("larder-metrics");
    MutexLock lock(mutex_);
    while (!stop.stop_requested()) {
      for (const auto& [id, publish] : publish_) publish();
      wake_.wait_for(mutex_, stop, kInterval, [] { return false; });
    }
  }

  // Held while publishing, so that who is removed is not being published.
  Mutex mutex_;
  std::condition_variable_any wake_;
  std::map<uint64_t, std::function<void()>> publish_ LARDER_GUARDED_BY(mutex_);
  uint64_t last_ LARDER_GUARDED_BY(mutex_) = 0;
  std::jthread thread_{[this](const std::stop_token& stop) { Run(stop); }};  // last
};

}  // namespace

std::shared_ptr<void> PublishRegularly(prometheus::Registry* registry,
                                       std::function<void()> publish) {
  std::shared_ptr<Publisher> publisher = Publisher::For(registry);
  const uint64_t id = publisher->Add(std::move(publish));
  return std::shared_ptr<void>(nullptr, [publisher, id](void*) { publisher->Remove(id); });
}

}  // namespace larder
