#include "apiserver/watch_stream.h"

#include <algorithm>
#include <utility>

namespace larder::apiserver {
namespace {

constexpr size_t kBatchEvents = 256;
constexpr size_t kFlushBytes = 128 * 1024;
constexpr std::chrono::seconds kBeforeDeadline{2};

}  // namespace

WatchStream::WatchStream(State& state, Faults& faults, Stats::Counters& stats, TablePtr table,
                         ResourceInfoPtr info, MediaType media, const std::string& ns,
                         ListOptions options, FaultPlan plan, Connection& connection,
                         Settings settings)
    : state_(state),
      faults_(faults),
      stats_(stats),
      table_(std::move(table)),
      info_(std::move(info)),
      encoder_(*info_, media),
      prefix_(ns.empty() ? "" : ns + "/"),
      options_(std::move(options)),
      plan_(std::move(plan)),
      connection_(connection),
      settings_(std::move(settings)),
      deadline_(settings_.clock->Now() + settings_.timeout) {}

ApiResult<void> WatchStream::Prepare() {
  const bool initial = options_.send_initial_events.value_or(false);
  if (initial && options_.version) {
    const uint64_t now =
        state_.WaitForVersion(*options_.version, settings_.version_patience, settings_.stop);
    if (now < *options_.version) {
      error_ = TooLargeVersionStatus(*options_.version, now);
      return {};
    }
  }
  if (initial || !options_.version) {
    // Also for sendInitialEvents=false without a version: from now on.
    State::WatchStart start = state_.WatchNow(*table_, initial ? prefix_ : std::string("\xff"));
    initial_ = std::move(start.objects);
    send_initial_ = initial;
    start_version_ = start.version;
    position_ = start.position;
    return {};
  }
  uint64_t oldest = 0;
  const std::optional<WatchPosition> position =
      state_.WatchFrom(*table_, *options_.version, &oldest);
  if (!position) {
    const ApiStatus gone =
        ExpiredStatus(fmt::format("too old resource version: {} ({})", *options_.version, oldest));
    if (plan_.Find(FaultType::kHttpGone)) return tl::unexpected(gone);
    error_ = gone;
    return {};
  }
  position_ = *position;
  start_version_ = *options_.version;
  return {};
}

bool WatchStream::Run(httplib::DataSink& sink) {
  sink_ = &sink;
  Step step = Step::kGoOn;
  if (error_) {
    encoder_.AppendError(*error_, buffer_);
    step = Flush() == Step::kBreak ? Step::kBreak : Step::kEnd;
  }
  if (step == Step::kGoOn) step = FaultsBefore();
  if (step == Step::kGoOn && send_initial_) step = SendInitial();
  Clock::Steady bookmark_at = NextBookmark(settings_.clock->Now());
  std::vector<WindowEvent> events;
  while (step == Step::kGoOn) {
    events.clear();
    uint64_t version = 0;
    const Clock::Steady wake_at = std::min(bookmark_at, deadline_);
    const State::Wake wake = state_.NextEvents(
        *table_, position_, kBatchEvents, wake_at, settings_.stop,
        [this] { return connection_.closed(); }, events, &version);
    if (wake == State::Wake::kEnded) {
      step = connection_.closed() ? Step::kBreak : Step::kEnd;
    } else if (wake == State::Wake::kEvents) {
      step = SendEvents(events);
    } else if (settings_.clock->Now() >= deadline_) {
      step = Step::kEnd;
    } else {
      // A watch from the future gets no bookmark either: the silent trap has no bell.
      if (version >= start_version_) step = SendBookmark(version, false);
      bookmark_at = NextBookmark(settings_.clock->Now());
    }
  }
  if (step == Step::kBreak) return false;
  sink.done();
  return true;
}

Clock::Steady WatchStream::NextBookmark(Clock::Steady now) const {
  if (!options_.bookmarks) return deadline_;
  Clock::Steady next = now + settings_.bookmark_interval;
  const Clock::Steady last = deadline_ - kBeforeDeadline;
  if (last > now) next = std::min(next, last);
  return next;
}

WatchStream::Step WatchStream::SendInitial() {
  for (const StoredPtr& object : initial_) {
    const StoredBody::Rendered rendered = object->Render();
    if (!Matches(object, &rendered)) continue;
    const Step step = SendEvent("ADDED", *object, object->version, &rendered);
    if (step != Step::kGoOn) return step;
    stats_.objects.fetch_add(1, std::memory_order_relaxed);
  }
  initial_ = {};
  if (options_.bookmarks) return SendBookmark(start_version_, true);
  return Flush();
}

bool WatchStream::Matches(const StoredPtr& object, const StoredBody::Rendered* rendered) const {
  if (!object || !object->identity->key.starts_with(prefix_)) return false;
  if (options_.filter.Empty()) return true;
  return rendered ? options_.filter.Matches(*object, *rendered) : options_.filter.Matches(*object);
}

WatchStream::Step WatchStream::SendEvents(const std::vector<WindowEvent>& events) {
  for (const WindowEvent& event : events) {
    const Step step = Filtered(event);
    if (step != Step::kGoOn) return step;
  }
  return Flush();
}

// Entering the selection is ADDED, leaving it is DELETED with the state before and the version of
// the change.
WatchStream::Step WatchStream::Filtered(const WindowEvent& event) {
  const StoredBody::Rendered* const rendered = event.rendered.get();
  const uint64_t version = event.object->version;
  if (event.type == EventType::kDeleted) {
    if (!Matches(event.previous, nullptr)) return Step::kGoOn;
    return SendEvent("DELETED", *event.object, version, rendered);
  }
  const bool now = Matches(event.object, rendered);
  const bool before = event.previous && Matches(event.previous, nullptr);
  if (now) return SendEvent(before ? "MODIFIED" : "ADDED", *event.object, version, rendered);
  if (before) return SendEvent("DELETED", *event.previous, version, nullptr);
  return Step::kGoOn;
}

std::string WatchStream::VersionText(uint64_t version) const {
  const Fault* const lie = plan_.Find(FaultType::kVersion);
  if (!lie || sent_events_ < lie->after_events) return std::to_string(version);
  if (lie->mode == "older") return "1";
  if (lie->mode == "future") return std::to_string(version + 1'000'000'000);
  if (lie->mode == "empty") return "";
  return std::to_string(version);
}

WatchStream::Step WatchStream::SendEvent(std::string_view type, const StoredObject& object,
                                         uint64_t version, const StoredBody::Rendered* rendered) {
  StoredBody::Rendered fresh;
  if (!rendered || plan_.Find(FaultType::kVersion)) {
    fresh = object.body.Render(VersionText(version));
    rendered = &fresh;
  }
  for (const FaultType fault : {FaultType::kStall, FaultType::kCut}) {
    const Fault* const found = plan_.Find(fault);
    if (found && sent_events_ >= found->after_events) {
      return HalfEvent(type, *rendered, fault == FaultType::kStall, found->id);
    }
  }
  encoder_.AppendEvent(type, *rendered, buffer_);
  const Fault* const lie = plan_.Find(FaultType::kVersion);
  if (lie && lie->mode == "duplicate") encoder_.AppendEvent(type, *rendered, buffer_);
  ++sent_events_;
  stats_.events.fetch_add(1, std::memory_order_relaxed);
  if (const Step step = FaultsBefore(); step != Step::kGoOn) return step;
  return buffer_.size() >= kFlushBytes ? Flush() : Step::kGoOn;
}

WatchStream::Step WatchStream::HalfEvent(std::string_view type,
                                         const StoredBody::Rendered& rendered, bool stall, int id) {
  const size_t before = buffer_.size();
  encoder_.AppendEvent(type, rendered, buffer_);
  buffer_.resize(before + (buffer_.size() - before) / 2);
  Flush();
  if (stall) {
    faults_.Stall(id, settings_.stop, [this] { return connection_.closed(); });
  }
  return Step::kBreak;
}

WatchStream::Step WatchStream::FaultsBefore() {
  if (plan_.Empty() || fault_done_) return Step::kGoOn;
  if (const Fault* fault = plan_.Find(FaultType::kInject);
      fault && sent_events_ >= fault->after_events) {
    fault_done_ = true;
    buffer_ += fault->body + "\n";
    return Flush();
  }
  if (const Fault* fault = plan_.Find(FaultType::kGarbage);
      fault && sent_events_ >= fault->after_events) {
    fault_done_ = true;
    buffer_ += std::string("\0\xff\xfe{]garbage\"\n", 14);
    return Flush();
  }
  if (const Fault* fault = plan_.Find(FaultType::kClose);
      fault && sent_events_ >= fault->after_events) {
    return Flush() == Step::kBreak ? Step::kBreak : Step::kEnd;
  }
  return Step::kGoOn;
}

WatchStream::Step WatchStream::SendBookmark(uint64_t version, bool initial_events_end) {
  encoder_.AppendBookmark(VersionText(version), initial_events_end, buffer_);
  stats_.bookmarks.fetch_add(1, std::memory_order_relaxed);
  return Flush();
}

WatchStream::Step WatchStream::Flush() {
  if (buffer_.empty()) return Step::kGoOn;
  const bool sent = sink_->write(buffer_.data(), buffer_.size());
  buffer_.clear();
  return sent ? Step::kGoOn : Step::kBreak;
}

}  // namespace larder::apiserver
