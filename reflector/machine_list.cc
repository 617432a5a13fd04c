// The reflector's ways to read a whole collection.
#include <spdlog/spdlog.h>

#include <array>
#include <utility>

#include "base/text.h"
#include "reflector/reflector_machine.h"

namespace larder {
namespace {

using Order = std::array<FirstSync, 3>;

// What is tried after what.
Order StrategyOrder(FirstSync first) {
  switch (first) {
    case FirstSync::kPagedList:
      return {FirstSync::kPagedList, FirstSync::kList, FirstSync::kWatchList};
    case FirstSync::kWatchList:
      return {FirstSync::kWatchList, FirstSync::kList, FirstSync::kPagedList};
    default:
      return {FirstSync::kList, FirstSync::kPagedList, FirstSync::kWatchList};
  }
}

// So often a way to list may fail in mid-answer before the next one is tried.
constexpr int kFailuresPerStrategy = 2;

// After so long in the queue of those who list, what a check found says nothing any more.
constexpr std::chrono::seconds kCheckIsOld{10};

}  // namespace

FirstSync ReflectorMachine::Strategy() const {
  return StrategyOrder(options_.first_sync)[strategy_];
}

// Goes on to the next way to list; false when all were tried in a row.
bool ReflectorMachine::NextStrategy() {
  strategy_ = (strategy_ + 1) % StrategyOrder(options_.first_sync).size();
  list_failures_ = 0;
  return ++strategies_declined_ % StrategyOrder(options_.first_sync).size() != 0;
}

ReflectorMachine::State ReflectorMachine::ListState() const {
  return Strategy() == FirstSync::kWatchList ? State::kStreamingList : State::kListing;
}

ReflectorMachine::State ReflectorMachine::BeginListing(std::string why, std::string version) {
  list_why_ = std::move(why);
  list_version_ = std::move(version);
  return ListState();
}

// Of a server that lost its newest state. The target keeps that before anything more is asked: by
// the time of a list the server may be past the stored version, and a process that begins then
// cannot tell.
ReflectorMachine::State ReflectorMachine::ListAnew() {
  if (const Result<void> kept = target_.Rewound(); !kept) {
    target_.TakeFailed();
    return Fail(kept.error(), State::kStarting, "target");
  }
  return BeginListing("rewound", "");
}

ReflectorMachine::State ReflectorMachine::ListInTurn(State how) {
  ListGate::Pass pass;
  if (options_.list_gate != nullptr) {
    const Clock::Steady came = clock_->Now();
    Result<ListGate::Pass> entered = options_.list_gate->Enter(token_);
    if (!entered) return how;  // stopped or paused
    pass = *std::move(entered);
    if (clock_->Now() - came >= kCheckIsOld) failed_since_check_ = true;
  }
  if (const std::optional<State> other = CheckBeforeList(how)) return *other;
  switch (how) {
    case State::kStreamingList:
      return StreamList();
    case State::kRelisting:
      return Relist();
    default:
      return List();
  }
}

// A list that failed is tried again, and by then another cluster may be at the address: its objects
// would take the place of all that are stored. What else a check asks, a list finds out by itself.
std::optional<ReflectorMachine::State> ReflectorMachine::CheckBeforeList(State how) {
  if (!failed_since_check_ || cluster_uid_.empty()) return std::nullopt;
  const Result<bool> same = SameCluster();
  if (!same) return Fail(same.error(), how, larder::ToString(same.error().code));
  if (!*same) return State::kAnotherCluster;
  failed_since_check_ = false;
  return std::nullopt;
}

ReflectorMachine::State ReflectorMachine::List() {
  const ListRequester::Job job{list_why_, list_version_, cursor_};
  const Result<ListRequester::Outcome> outcome =
      Strategy() == FirstSync::kPagedList ? lister_.Paged(job, token_) : lister_.Full(job, token_);
  if (!outcome) return ListFailed(outcome.error(), State::kListing);
  if (outcome->end == ListRequester::End::kRewound) return ListAnew();
  return ListDone(outcome->version);
}

ReflectorMachine::State ReflectorMachine::Relist() {
  const Result<ListRequester::Outcome> outcome =
      lister_.Differential({list_why_, list_version_, cursor_}, token_);
  if (!outcome) return ListFailed(outcome.error(), State::kRelisting);
  switch (outcome->end) {
    case ListRequester::End::kDone:
      return ListDone(outcome->version);
    case ListRequester::End::kRewound:
      return ListAnew();
    case ListRequester::End::kTooMuch:
      break;
  }
  spdlog::info(
      "{}: too much differs for a relist by metadata, or the server has no such list; listing in "
      "full",
      options_.name);
  return BeginListing(list_why_, list_version_);
}

ReflectorMachine::State ReflectorMachine::ListDone(const std::string& version) {
  spdlog::info("{}: listed ({}) at version {}", options_.name, list_why_, version);
  cursor_ = version;
  list_unfinished_ = skipped_ = false;
  witness_.reset();
  promise_.reset();
  list_failures_ = too_large_ = 0;
  strategies_declined_ = 0;
  InSync();
  return State::kWatching;
}

ReflectorMachine::State ReflectorMachine::ListFailed(const Error& error, State again) {
  stream_.reset();
  if (target_.TakeFailed()) return Fail(error, State::kStarting, "target");
  const std::string_view reason = larder::ToString(error.code);
  switch (error.code) {
    case ErrorCode::kGone:
    case ErrorCode::kVersionTooLarge:
      if (!list_version_.empty()) {
        const bool retry = error.code == ErrorCode::kVersionTooLarge && too_large_++ == 0;
        recorder_.Restart(reason);
        if (retry) return WaitThen(again, kTooLargeWait);
        list_version_.clear();
        return again;
      }
      break;
    case ErrorCode::kUnsupported:
    case ErrorCode::kInvalid:
    case ErrorCode::kInvalidArgument:
      spdlog::info("{}: the server declines this way to list: {}", options_.name, error.ToString());
      if (again != State::kRelisting && NextStrategy()) return ListState();
      return Fail(error, ListState(), reason);
    case ErrorCode::kUnauthorized:
    case ErrorCode::kForbidden:
    case ErrorCode::kNotFound:
    case ErrorCode::kTooManyRequests:
    case ErrorCode::kCancelled:
      return Fail(error, again, reason);
    default:
      break;
  }
  // A way to list that keeps breaking off may be too much for this server or this line. A refused
  // connection says nothing about it.
  const bool in_body = again != State::kStreamingList && lister_.failed_in_body();
  const bool counts = in_body || error.code != ErrorCode::kUnavailable;
  const bool give_up = counts && ++list_failures_ >= kFailuresPerStrategy;
  if (again == State::kRelisting) {
    if (give_up) list_failures_ = 0;
    return Fail(error, give_up ? ListState() : again, reason);
  }
  if (give_up) NextStrategy();
  return Fail(error, ListState(), reason);
}

ReflectorMachine::State ReflectorMachine::StreamList() {
  const WireMessage* const wire = wire_.message();
  watch_time_ = requests_.DrawWatchTime();
  Result<std::unique_ptr<WatchStream>> stream = WatchStream::Open(
      transport_, requests_.WatchList(list_version_, watch_time_, Requests::FormFor(wire)),
      options_, clock_, recorder_, wire, token_);
  if (!stream) return ListFailed(stream.error(), State::kStreamingList);
  stream_ = *std::move(stream);
  recorder_.WatchOpened();
  const Result<std::optional<std::string>> version = ReadInitialEvents();
  if (version && *version) {
    accepted_ = true;
    return ListDone(**version);
  }
  // Whatever happened to the stream, a plain list is the way out, at once; only the target's own
  // failures, refused rights and a stop are not the stream's fault.
  stream_.reset();
  if (std::exchange(stream_is_older_, false)) return ListAnew();
  if (!version) {
    const ErrorCode code = version.error().code;
    if (target_.TakeFailed()) return Fail(version.error(), State::kStarting, "target");
    if (code == ErrorCode::kCancelled || code == ErrorCode::kUnauthorized ||
        code == ErrorCode::kForbidden || code == ErrorCode::kTooManyRequests) {
      return Fail(version.error(), State::kStreamingList, larder::ToString(code));
    }
    recorder_.Failed(version.error());
    if (options_.on_error) options_.on_error(version.error());
  }
  failed_since_check_ = true;
  recorder_.Restart("watchlist");
  spdlog::info("{}: no streaming list ({}), listing", options_.name,
               version ? "closed or not supported" : version.error().ToString());
  const bool more = NextStrategy();
  return more ? ListState() : WaitThen(ListState(), backoff_.Next(clock_->Now()));
}

// The version of the bookmark that ends the initial events; nullopt when it will not come.
Result<std::optional<std::string>> ReflectorMachine::ReadInitialEvents() {
  LARDER_RETURN_IF_ERROR(target_.BeginList(list_why_));
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const std::optional<WatchEvent> event,
                            stream_->Next(token_, clock_->Now() + options_.list_stall_timeout));
    if (!event) return std::nullopt;
    recorder_.Event(event->type);
    if (event->type != WatchEvent::Type::kBookmark) {
      LARDER_RETURN_IF_ERROR(TakeInitialEvent(*event));
      continue;
    }
    LARDER_ASSIGN_OR_RETURN(const Bookmark bookmark, ParseBookmark(event->object));
    // A server that does not know sendInitialEvents ignores it and sends its ordinary bookmarks.
    if (!bookmark.initial_events_end) return std::nullopt;
    recorder_.Bookmark();
    if (!CompareResourceVersions(bookmark.resource_version, bookmark.resource_version)) {
      return MakeError(ErrorCode::kProtocol,
                       "the initial events end without a usable version: '{}'",
                       Excerpt(bookmark.resource_version));
    }
    if (CompareResourceVersions(bookmark.resource_version, cursor_).value_or(1) < 0 &&
        list_why_ != "rewound") {
      return MakeError(ErrorCode::kProtocol, "the initial events end at {}, below the cursor {}",
                       bookmark.resource_version, cursor_);
    }
    if (list_why_ != "rewound") {
      LARDER_ASSIGN_OR_RETURN(stream_is_older_, target_.UnseenIsNewer(bookmark.resource_version));
      if (stream_is_older_) return std::nullopt;
    }
    LARDER_RETURN_IF_ERROR(target_.EndList(bookmark.resource_version));
    recorder_.ListDone(list_why_, bookmark.resource_version);
    return bookmark.resource_version;
  }
}

// Initial events are not in the order of versions, so none of them moves the cursor: they are items
// of a list.
Result<void> ReflectorMachine::TakeInitialEvent(const WatchEvent& event) {
  switch (event.type) {
    case WatchEvent::Type::kError:
      return tl::unexpected(ErrorFromStatus(event.object));
    case WatchEvent::Type::kDeleted:
      // A server whose cache lags may send changes before the end of the initial events. An item
      // cannot be taken back, so that list is given up.
      return MakeError(ErrorCode::kUnsupported, "an object was deleted during the streaming list");
    default:
      break;
  }
  LARDER_ASSIGN_OR_RETURN(ObjectPtr object,
                          lister_.Parse({event.object, event.wire}, lister_.DefaultType()));
  if (!shard_.Matches(object->ns(), object->uid())) return {};
  if (list_why_ != "rewound" && !cursor_.empty()) {
    LARDER_ASSIGN_OR_RETURN(stream_is_older_,
                            target_.StoredIsNewer(object->key(), object->resource_version()));
    if (stream_is_older_) return MakeError(ErrorCode::kConflict, "older than what is stored");
  }
  return target_.ListItem(std::move(object));
}

}  // namespace larder
