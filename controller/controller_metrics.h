// A controller's metrics, under controller-runtime's names with the label "controller".
//
// Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace prometheus {
class Registry;
}

namespace larder::internal {

class ControllerMetrics {
 public:
  enum class Result { kSuccess, kError, kRequeue, kRequeueAfter };

  // A null registry: counts nothing. Otherwise it must outlive this.
  ControllerMetrics(prometheus::Registry* registry, const std::string& controller,
                    uint32_t max_concurrent_reconciles);
  ~ControllerMetrics();
  ControllerMetrics(const ControllerMetrics&) = delete;
  ControllerMetrics& operator=(const ControllerMetrics&) = delete;

  void Started();
  void Finished(Result result, std::chrono::nanoseconds took);
  // Beside Finished(kError).
  void Terminal();
  void Threw();
  void TimedOut();

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace larder::internal
