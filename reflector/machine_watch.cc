// The reflector's watch: events from the cursor on, and every way in which a watch can end.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "reflector/reflector_machine.h"

namespace larder {
namespace {

// The server's time runs from the request on, ours from its answer.
constexpr std::chrono::seconds kWatchTimeMargin{2};

EventType ToEventType(WatchEvent::Type type) {
  switch (type) {
    case WatchEvent::Type::kAdded:
      return EventType::kAdded;
    case WatchEvent::Type::kModified:
      return EventType::kModified;
    default:
      return EventType::kDeleted;
  }
}

}  // namespace

ReflectorMachine::State ReflectorMachine::Watch() {
  if (!stream_) {
    const Result<void> opened = OpenWatch();
    if (!opened) return WatchFailed(opened.error());
  }
  // An event, a bookmark or the opening of the stream: what its silence is measured from.
  Clock::Steady heard_at = clock_->Now();
  for (;;) {
    const Clock::Steady silent_at = heard_at + options_.silent_timeout;
    const Result<std::optional<WatchEvent>> event =
        stream_->Next(token_, std::min(silent_at, AcceptedAt()));
    if (!event && event.error().code == ErrorCode::kTimeout) {
      if (clock_->Now() < silent_at) {
        if (!stream_->InEvent()) Accepted();
        continue;
      }
      spdlog::warn(
          "{}: no event and no bookmark for {} s, checking the server", options_.name,
          std::chrono::duration_cast<std::chrono::seconds>(options_.silent_timeout).count());
      recorder_.Restart("silent");
      stream_.reset();
      return State::kChecking;
    }
    if (!event) return WatchFailed(event.error());
    if (!*event) return WatchClosed();
    const Result<Heard> heard = TakeEvent(**event);
    if (!heard) return WatchFailed(heard.error());
    if (*heard == Heard::kOlder) return OlderBookmark();
    if (*heard == Heard::kRewound) return Rewound();
    if (!accepted_) Accepted();
    heard_at = clock_->Now();
  }
}

Result<void> ReflectorMachine::OpenWatch() {
  const WireMessage* const wire = wire_.message();
  watch_time_ = requests_.DrawWatchTime();
  const Request request = requests_.Watch(cursor_, watch_time_, Requests::FormFor(wire));
  LARDER_ASSIGN_OR_RETURN(
      stream_, WatchStream::Open(transport_, request, options_, clock_, recorder_, wire, token_));
  recorder_.WatchOpened();
  accepted_ = false;
  return {};
}

// When a quiet watch counts as accepted. What has begun to arrive may still be the refusal.
Clock::Steady ReflectorMachine::AcceptedAt() const {
  if (accepted_ || stream_->InEvent()) return Clock::Steady::max();
  return stream_->opened_at() + options_.accepted_after;
}

void ReflectorMachine::Accepted() {
  accepted_ = true;
  InSync();
}

void ReflectorMachine::InSync() {
  recorder_.Synced();
  recorder_.Healthy();
  target_.InSync();
  if (!broken_since_) return;
  spdlog::info("{}: in sync again at version {}, after {:.1f} s", options_.name, cursor_,
               std::chrono::duration<double>(clock_->Now() - *broken_since_).count());
  broken_since_.reset();
}

Result<ReflectorMachine::Heard> ReflectorMachine::TakeEvent(const WatchEvent& event) {
  recorder_.Event(event.type);
  switch (event.type) {
    case WatchEvent::Type::kError:
      return tl::unexpected(ErrorFromStatus(event.object));
    case WatchEvent::Type::kBookmark:
      return TakeBookmark(event.object);
    default:
      LARDER_RETURN_IF_ERROR(TakeObject(event));
  }
  gone_ = too_large_ = older_ = 0;
  return PromiseBroken() ? Heard::kRewound : Heard::kFine;
}

ReflectorMachine::State ReflectorMachine::OlderBookmark() {
  constexpr const char* kReason = "older bookmark";
  stream_.reset();
  // A server that goes on so would otherwise be asked without a pause.
  if (older_++ > 0) {
    return Fail({ErrorCode::kProtocol, "the server sent an older bookmark again", {}, {}},
                State::kChecking, kReason);
  }
  recorder_.Restart(kReason);
  return State::kChecking;
}

// Is the watch past the version by which it had to tell of a change?
bool ReflectorMachine::PromiseBroken() {
  if (!promise_ || CompareResourceVersions(cursor_, promise_->version).value_or(-1) < 0) {
    return false;
  }
  spdlog::warn("{}: the server's state shows a change of {} that its watch does not tell",
               options_.name, promise_->key.ToString());
  return true;
}

Result<ReflectorMachine::Heard> ReflectorMachine::TakeBookmark(std::string_view json) {
  LARDER_ASSIGN_OR_RETURN(const Bookmark bookmark, ParseBookmark(json));
  const std::optional<int> order = CompareResourceVersions(bookmark.resource_version, cursor_);
  if (!order) {
    return MakeError(ErrorCode::kProtocol, "a bookmark without a usable version: '{}'",
                     Excerpt(bookmark.resource_version));
  }
  recorder_.Bookmark();
  // A server never goes back behind the version that it was asked for, unless it lost its newest
  // state.
  if (*order < 0) return Heard::kOlder;
  if (*order > 0 || skipped_) {
    LARDER_RETURN_IF_ERROR(target_.Bookmark(bookmark.resource_version));
    cursor_ = bookmark.resource_version;
    skipped_ = false;
    recorder_.Version(cursor_);
    older_ = 0;
  }
  gone_ = too_large_ = 0;
  return PromiseBroken() ? Heard::kRewound : Heard::kFine;
}

Result<void> ReflectorMachine::TakeObject(const WatchEvent& event) {
  LARDER_ASSIGN_OR_RETURN(ObjectPtr object,
                          lister_.Parse({event.object, event.wire}, lister_.DefaultType()));
  const std::string version(object->resource_version());
  // An event that repeats an old version is the target's to judge; here it must not move the cursor
  // back.
  const bool newer = CompareResourceVersions(version, cursor_).value_or(1) > 0;
  const bool ours = shard_.Matches(object->ns(), object->uid());
  if (ours) {
    const ObjectKey key = object->key();
    LARDER_RETURN_IF_ERROR(target_.Event(ToEventType(event.type), std::move(object)));
    if (promise_ && promise_->key == key &&
        CompareResourceVersions(version, promise_->stored).value_or(1) > 0) {
      promise_.reset();
    }
    if (newer) witness_ = {key, version, event.type == WatchEvent::Type::kDeleted};
  }
  if (newer) {
    skipped_ = !ours;
    cursor_ = version;
    recorder_.Version(cursor_);
  }
  return {};
}

// A server that ends a watch before its time is going away, and what answers at its address next
// may be another one, or the same with older data.
ReflectorMachine::State ReflectorMachine::WatchClosed() {
  const auto lasted = clock_->Now() - stream_->opened_at();
  const bool too_short = !stream_->heard() && lasted < options_.short_watch;
  stream_.reset();
  if (too_short) {
    return Fail({ErrorCode::kUnavailable, "the server closed the watch at once", {}, {}},
                State::kChecking, "short");
  }
  if (!accepted_) Accepted();
  recorder_.Restart("closed");
  return lasted + kWatchTimeMargin < watch_time_ ? State::kChecking : State::kWatching;
}

ReflectorMachine::State ReflectorMachine::WatchFailed(const Error& error) {
  const bool opened = stream_ != nullptr;
  // Without a stream it is the request that was refused: 406.
  const bool by_protobuf =
      opened ? stream_->UnreadableProtobuf(error) : error.code == ErrorCode::kUnsupported;
  stream_.reset();
  if (target_.TakeFailed()) return Fail(error, State::kStarting, "target");
  const std::string_view reason = larder::ToString(error.code);
  if (by_protobuf && wire_.message() != nullptr) {
    wire_.GiveUp(error);
    recorder_.Restart(reason);
    if (options_.on_error) options_.on_error(error);
    return State::kWatching;
  }
  switch (error.code) {
    case ErrorCode::kGone:
      spdlog::info("{}: version {} has expired, relisting", options_.name, cursor_);
      list_why_ = "gone";
      list_version_ = cursor_;
      list_due_ = true;
      // A server that expires what it just listed would otherwise be asked for lists without a
      // pause.
      if (gone_++ > 0) return Fail(error, State::kChecking, reason);
      recorder_.Restart(reason);
      if (options_.on_error) options_.on_error(error);
      return State::kChecking;
    case ErrorCode::kVersionTooLarge:
      recorder_.Restart(reason);
      if (options_.on_error) options_.on_error(error);
      if (too_large_++ == 0) return WaitThen(State::kWatching, kTooLargeWait);
      list_why_ = "too large";
      list_version_.clear();
      list_due_ = true;
      return State::kChecking;
    case ErrorCode::kInvalid:
    case ErrorCode::kInvalidArgument:
      // Without a Status it is not the API server that refused.
      if (error.status_json.empty()) return Fail(error, State::kChecking, reason);
      // The server does not understand the version (or the selector, and then the list says so).
      list_why_ = "refused";
      list_version_.clear();
      list_due_ = true;
      return Fail(error, State::kChecking, reason);
    case ErrorCode::kProtocol:
      // A refused certificate or a proxy's page: what answers next may be another server.
      return Fail(error, opened ? State::kWatching : State::kChecking, reason);
    case ErrorCode::kTooManyRequests:
      return Fail(error, State::kWatching, reason);
    default:
      // Who could not be reached, or does not know us: what answers next may be another server.
      return Fail(error, State::kChecking, reason);
  }
}

}  // namespace larder
