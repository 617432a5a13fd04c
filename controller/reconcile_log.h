// Log lines of one reconcile: each names the controller, the key and the run's id.
//
//   context.log().Info("created {}", name);
//   // [info] created web-1 controller=pods key=default/web reconcileID=5f1c...
//
// Thread-safe, as spdlog is. Goes to spdlog's default logger at the time of the call.
#pragma once

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

namespace larder {

class ReconcileLog {
 public:
  ReconcileLog(std::string controller, std::string key, std::string reconcile_id)
      : controller_(std::move(controller)),
        key_(std::move(key)),
        reconcile_id_(std::move(reconcile_id)) {}

  template <typename... Args>
  void Debug(fmt::format_string<Args...> format, Args&&... args) const {
    Write(spdlog::level::debug, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Info(fmt::format_string<Args...> format, Args&&... args) const {
    Write(spdlog::level::info, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Warn(fmt::format_string<Args...> format, Args&&... args) const {
    Write(spdlog::level::warn, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Error(fmt::format_string<Args...> format, Args&&... args) const {
    Write(spdlog::level::err, format, std::forward<Args>(args)...);
  }

  const std::string& controller() const { return controller_; }
  const std::string& key() const { return key_; }
  const std::string& reconcile_id() const { return reconcile_id_; }

 private:
  template <typename... Args>
  void Write(spdlog::level::level_enum level, fmt::format_string<Args...> format,
             Args&&... args) const {
    if (!spdlog::should_log(level)) return;
    spdlog::log(level, "{} controller={} key={} reconcileID={}",
                fmt::format(format, std::forward<Args>(args)...), controller_, key_, reconcile_id_);
  }

  const std::string controller_;
  const std::string key_;
  const std::string reconcile_id_;
};

}  // namespace larder
