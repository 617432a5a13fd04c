#include "client/event_recorder.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/thread_name.h"
#include "client/retry.h"
#include "client/timestamp.h"

namespace larder {
namespace {

constexpr size_t kMaxEventMessageBytes = 1024;  // the server's limit
constexpr int kMaxAttempts = 5;
constexpr std::chrono::seconds kFirstRetry{1};
constexpr double kRefillPerSecond = 1.0 / 300;
constexpr int kObjectBurst = 25;

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// An event's name must be a DNS name of at most 253 characters; not every object's name is one.
std::string EventNamePrefix(const std::string& object_name) {
  constexpr size_t kMaxPrefixBytes = 200;
  std::string prefix = object_name.substr(0, kMaxPrefixBytes);
  for (char& c : prefix) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    if (!allowed) c = '-';
  }
  while (!prefix.empty() && (prefix.back() == '-' || prefix.back() == '.')) prefix.pop_back();
  const size_t first = prefix.find_first_not_of("-.");
  return first == std::string::npos ? "event" : prefix.substr(first);
}

const char* LevelName(EventLevel level) {
  return level == EventLevel::kWarning ? "Warning" : "Normal";
}

EventRecorder::Options Complete(EventRecorder::Options options) {
  if (options.instance.empty()) options.instance = HostName();
  return options;
}

Resource EventResource(EventRecorder::Api api) {
  const bool core = api == EventRecorder::Api::kCoreV1;
  return {core ? "" : "events.k8s.io", "v1", "events", "Event", true};
}

}  // namespace

struct EventRecorder::Series {
  std::string key;
  Json about;  // ObjectReference
  std::string ns;
  std::string object_name;
  EventLevel level = EventLevel::kNormal;
  std::string reason;
  std::string message;
  std::string action;
  Clock::Wall first;
  Clock::Wall last;
  int64_t count = 0;       // of the whole series
  int64_t added = 0;       // of them not yet written
  std::string event_name;  // once a create of it was sent
  bool written = false;    // the server has it
};

EventRecorder::EventRecorder(HttpTransport& transport, Options options)
    : client_(transport),
      options_(Complete(std::move(options))),
      resource_(EventResource(options_.api)) {
  writer_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

EventRecorder::~EventRecorder() {
  writer_.request_stop();
  writer_.join();
}

void EventRecorder::Event(const Object& about, EventLevel level, std::string_view reason,
                          std::string_view message, std::string_view action) {
  const Clock::Wall now = options_.clock->WallNow();
  auto series = std::make_shared<Series>();
  series->about = {{"apiVersion", about.api_version()},
                   {"kind", about.kind()},
                   {"namespace", about.ns()},
                   {"name", about.name()},
                   {"uid", about.uid()},
                   {"resourceVersion", about.resource_version()}};
  series->ns = about.ns().empty() ? "default" : std::string(about.ns());
  series->object_name = std::string(about.name());
  series->level = level;
  series->reason = std::string(reason);
  series->message = std::string(CutText(message, kMaxEventMessageBytes));
  series->action = std::string(action.empty() ? reason : action);
  series->first = series->last = now;
  series->count = 1;
  // Joined by a character that is in none of them.
  series->key = fmt::format("{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}", about.uid(), about.kind(),
                            about.key().ToString(), LevelName(level), reason, series->message);

  MutexLock lock(mutex_);
  if (const auto waiting = pending_.find(series->key); waiting != pending_.end()) {
    ++waiting->second->count;
    waiting->second->last = now;
    return;
  }
  if (queue_.size() >= options_.max_pending) {
    ++dropped_;
    return;
  }
  pending_.emplace(series->key, series);
  queue_.push_back(std::move(series));
  changed_.notify_all();
}

bool EventRecorder::Flush(Clock::Steady deadline, const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (!queue_.empty() || writing_) {
    if (options_.clock->Now() >= deadline) return false;
    if (!options_.clock->WaitUntil(mutex_, changed_, deadline, stop)) return false;
  }
  return true;
}

void EventRecorder::Run(const std::stop_token& stop) {
  NameThread("larder-events");
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (queue_.empty()) {
      options_.clock->WaitUntil(mutex_, changed_, Clock::Steady::max(), stop);
      continue;
    }
    // From here on only this thread knows it.
    const SeriesPtr series = queue_.front();
    pending_.erase(series->key);
    queue_.pop_front();
    writing_ = true;
    lock.unlock();
    WriteWithRetry(series, stop);
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
  dropped_ += queue_.size();
}

bool EventRecorder::MayWrite(const std::string& object) {
  // Starting over forgets who was noisy; that is better than growing.
  if (limiters_.size() >= options_.max_remembered) limiters_.clear();
  auto& limiter = limiters_[object];
  if (limiter == nullptr) {
    limiter = std::make_unique<QpsLimiter>(kRefillPerSecond, kObjectBurst, options_.clock);
  }
  return limiter->TryAccept();
}

void EventRecorder::Remember(const SeriesPtr& series) {
  if (const auto known = by_key_.find(series->key); known != by_key_.end()) {
    remembered_.erase(known->second);
    by_key_.erase(known);
  }
  remembered_.push_front(series);
  by_key_.emplace(series->key, remembered_.begin());
  if (remembered_.size() > options_.max_remembered) {
    by_key_.erase(remembered_.back()->key);
    remembered_.pop_back();
  }
}

void EventRecorder::WriteWithRetry(const SeriesPtr& series, const std::stop_token& stop) {
  const std::string object =
      series->about["kind"].get<std::string>() + "/" + series->ns + "/" + series->object_name;
  if (!MayWrite(object)) {
    ++dropped_;
    return;
  }
  if (const auto known = by_key_.find(series->key); known != by_key_.end()) {
    const Series& before = **known->second;
    series->added = series->count;
    series->count += before.count;
    series->first = before.first;
    series->event_name = before.event_name;
    series->written = true;
  }
  auto pause = kFirstRetry;
  for (int attempt = 1;; ++attempt, pause *= 2) {
    const Result<void> result = Write(*series, stop);
    if (result) {
      ++written_;
      Remember(series);
      return;
    }
    if (!result.error().IsRetryable() || attempt == kMaxAttempts ||
        !options_.clock->SleepFor(
            std::max<std::chrono::milliseconds>(pause, ServerPause(result.error())), stop)) {
      ++dropped_;
      spdlog::warn("event {} about {} was not written: {}", series->reason, object,
                   result.error().ToString());
      return;
    }
  }
}

Result<void> EventRecorder::Write(Series& series, const std::stop_token& stop) {
  if (series.written) {
    Result<ObjectPtr> patched = client_.Patch(resource_, {series.ns, series.event_name},
                                              PatchType::kJsonMerge, CountPatch(series), {}, stop);
    if (patched) return {};
    // The server forgets events after an hour: then this is a new one.
    if (patched.error().code != ErrorCode::kNotFound) {
      return tl::unexpected(std::move(patched).error());
    }
    series.first = series.last;
    series.count = series.added;
    series.event_name.clear();
    series.written = false;
  }
  // One whose answer was lost may be there: with the same name again it is not written twice.
  const bool again = !series.event_name.empty();
  if (!again) {
    // Two events of one object in the same tick are two events.
    last_stamp_ = std::max(last_stamp_ + 1, series.last.time_since_epoch().count());
    series.event_name = fmt::format("{}.{:x}", EventNamePrefix(series.object_name), last_stamp_);
  }
  Result<ObjectPtr> created = client_.Create(resource_, NewEvent(series), {}, stop);
  series.written = created || (again && created.error().code == ErrorCode::kAlreadyExists);
  if (series.written) return {};
  return tl::unexpected(std::move(created).error());
}

Json EventRecorder::NewEvent(const Series& series) const {
  Json event = {{"apiVersion", resource_.ApiVersion()},
                {"kind", "Event"},
                {"metadata", {{"name", series.event_name}, {"namespace", series.ns}}},
                {"type", LevelName(series.level)},
                {"reason", series.reason}};
  if (options_.api == Api::kCoreV1) {
    event["involvedObject"] = series.about;
    event["message"] = series.message;
    event["source"] = {{"component", options_.component}, {"host", options_.instance}};
    event["firstTimestamp"] = FormatTime(series.first);
    event["lastTimestamp"] = FormatTime(series.last);
    event["count"] = series.count;
    event["reportingComponent"] = options_.component;
    event["reportingInstance"] = options_.instance;
  } else {
    event["regarding"] = series.about;
    event["note"] = series.message;
    event["action"] = series.action;
    event["eventTime"] = FormatMicroTime(series.first);
    event["reportingController"] = options_.component;
    event["reportingInstance"] = options_.instance;
    // The server accepts a series from its second occurrence on.
    if (series.count > 1) {
      event["series"] = {{"count", series.count},
                         {"lastObservedTime", FormatMicroTime(series.last)}};
    }
  }
  return event;
}

Json EventRecorder::CountPatch(const Series& series) const {
  if (options_.api == Api::kCoreV1) {
    return {{"count", series.count}, {"lastTimestamp", FormatTime(series.last)}};
  }
  return {
      {"series", {{"count", series.count}, {"lastObservedTime", FormatMicroTime(series.last)}}}};
}

}  // namespace larder
