#include "reflector/reflector_machine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace larder {

ReflectorMachine::ReflectorMachine(ReflectorOptions options, ShardSelector shard, uint64_t seed,
                                   HttpTransport* transport, Target* target)
    : options_(std::move(options)),
      shard_(std::move(shard)),
      clock_(options_.clock),
      transport_(*transport),
      target_(target),
      recorder_(options_.name, clock_, options_.registry),
      requests_(options_, seed),
      wire_(options_),
      lister_(options_, clock_, transport, &target_, &recorder_, &requests_, &shard_, &wire_),
      backoff_(options_.backoff, seed + 1) {}

ReflectorMachine::Outcome ReflectorMachine::Run(const std::stop_token& stop) {
  std::stop_callback on_stop(stop, [this] { Interrupt(); });
  State state = State::kStarting;
  for (;;) {
    // First the token, then the look at stop and pause: whoever asks for one of them either is seen
    // here or finds this token.
    token_ = FreshToken();
    if (stop.stop_requested()) {
      stream_.reset();
      recorder_.State(State::kStopped);
      return Outcome::kStopped;
    }
    if (WaitWhilePaused(stop)) {
      state = State::kStarting;
      continue;
    }
    const bool starting_anyhow = state == State::kStarting || (state == State::kBackingOff &&
                                                               after_backoff_ == State::kStarting);
    if (!starting_anyhow) {
      if (const std::optional<Error> failure = TakeTargetFailure()) {
        state = Fail(*failure, State::kStarting, "target");
      }
    }
    recorder_.State(state);
    state = Step(state);
    if (state == State::kAnotherCluster) {
      recorder_.State(state);
      return Outcome::kAnotherCluster;
    }
  }
}

ReflectorMachine::State ReflectorMachine::Step(State state) {
  switch (state) {
    case State::kStarting:
      return Start();
    case State::kChecking:
      return Check();
    case State::kListing:
    case State::kStreamingList:
    case State::kRelisting:
      return ListInTurn(state);
    case State::kWatching:
      return Watch();
    case State::kBackingOff:
      return BackOff();
    default:
      return State::kStarting;
  }
}

ReflectorMachine::State ReflectorMachine::Start() {
  stream_.reset();
  static_cast<void>(TakeTargetFailure());  // what this start is for
  Result<Target::Position> position = target_.Start();
  if (!position) {
    target_.TakeFailed();
    return Fail(position.error(), State::kStarting, "target");
  }
  cursor_ = position->resource_version;
  cluster_uid_ = position->cluster_uid;
  list_unfinished_ = position->list_unfinished;
  witness_ = position->witness;
  promise_.reset();
  list_due_ = skipped_ = false;
  too_large_ = gone_ = older_ = 0;
  if (!cursor_.empty()) recorder_.Version(cursor_);
  if (cursor_.empty() && cluster_uid_.empty()) return AfterChecks();
  return State::kChecking;
}

ReflectorMachine::State ReflectorMachine::Check() {
  if (!cluster_uid_.empty()) {
    const Result<bool> same = SameCluster();
    if (!same) return Fail(same.error(), State::kChecking, larder::ToString(same.error().code));
    if (!*same) return State::kAnotherCluster;
  }
  failed_since_check_ = false;
  // A list that is due compares every version by itself.
  if (cursor_.empty() || list_due_) return AfterChecks();
  const Result<Look> look = LookAtServer();
  if (!look) return Fail(look.error(), State::kChecking, larder::ToString(look.error().code));
  if (CompareResourceVersions(look->version, NewestStored()).value_or(-1) < 0) {
    spdlog::warn("{}: the server is at version {}, which is lower than the stored {}",
                 options_.name, look->version, NewestStored());
    return Rewound();
  }
  if (!Agrees(*look)) {
    spdlog::warn("{}: the server shows {} at version {}, it was {} at version {}", options_.name,
                 witness_->key.ToString(), look->witness.value_or("none"),
                 witness_->deleted ? "deleted" : "changed", witness_->resource_version);
    return Rewound();
  }
  return AfterChecks();
}

ReflectorMachine::State ReflectorMachine::Rewound() {
  spdlog::warn("{}: the server lost its newest state (restored from a backup?); listing anew",
               options_.name);
  recorder_.Restart("rewound");
  stream_.reset();
  return ListAnew();
}

// What a relist fetched alone may be newer than its list.
const std::string& ReflectorMachine::NewestStored() const {
  const bool ahead = witness_ && !list_unfinished_ &&
                     CompareResourceVersions(witness_->resource_version, cursor_).value_or(0) > 0;
  return ahead ? witness_->resource_version : cursor_;
}

// A server that was restored and has since passed our version still shows the newest change that we
// know as it was before, or as it became by something that we should know, too. Where it shows
// something newer, or nothing any more, the watch has to tell of that.
bool ReflectorMachine::Agrees(const Look& look) {
  promise_.reset();
  if (!witness_ || list_unfinished_) return true;
  const bool as_known = look.witness
                            ? !witness_->deleted && *look.witness == witness_->resource_version
                            : witness_->deleted;
  if (as_known) return true;
  const std::string& known = NewestStored();
  if (look.witness && CompareResourceVersions(*look.witness, known).value_or(1) <= 0) {
    return false;
  }
  promise_ = {witness_->key, known, look.version};
  return true;
}

ReflectorMachine::State ReflectorMachine::AfterChecks() {
  if (cursor_.empty()) return BeginListing("first", options_.first_list_from_cache ? "0" : "");
  if (std::exchange(list_due_, false)) return State::kRelisting;
  if (!list_unfinished_) return State::kWatching;
  list_why_ = "unfinished";
  list_version_ = cursor_;
  return State::kRelisting;
}

Result<bool> ReflectorMachine::SameCluster() {
  const Result<std::string> uid = FetchClusterUid(transport_, token_);
  if (!uid) {
    const bool cannot_be_known =
        uid.error().code == ErrorCode::kForbidden || SaysNotFound(uid.error(), kClusterNamespace);
    if (!cannot_be_known) return tl::unexpected(uid.error());
    if (!std::exchange(check_skipped_logged_, true)) {
      spdlog::warn("{}: cannot check that this is still the same cluster ({}); going on without",
                   options_.name, uid.error().ToString());
    }
    return true;
  }
  if (*uid == cluster_uid_) return true;
  const Error error{
      ErrorCode::kConflict,
      fmt::format("another cluster: the stored objects came from {}, this server is {}",
                  Excerpt(cluster_uid_), Excerpt(*uid)),
      {},
      {}};
  spdlog::error("{}: {}", options_.name, error.message);
  recorder_.Failed(error);
  return false;
}

Result<ReflectorMachine::Look> ReflectorMachine::LookAtServer() {
  std::optional<ObjectKey> key;
  if (witness_ && !list_unfinished_) key = witness_->key;
  LARDER_ASSIGN_OR_RETURN(Look look, LookWith(requests_.CurrentVersion(key)));
  if (!CompareResourceVersions(look.version, look.version)) {
    return MakeError(ErrorCode::kProtocol, "the list has no usable resourceVersion: '{}'",
                     Excerpt(look.version));
  }
  return look;
}

Result<ReflectorMachine::Look> ReflectorMachine::LookWith(const Request& request) {
  Look look;
  const auto visit = [&](std::string_view json, const ListHead&) -> Result<void> {
    if (!witness_) return {};
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr object, Object::Parse(json));
    const bool ours = shard_.Matches(object->ns(), object->uid());
    if (ours && object->key() == witness_->key) look.witness = object->resource_version();
    return {};
  };
  // Over the shared connection: no handshake.
  const Result<Response> response = transport_.Do(request, token_);
  if (response) {
    recorder_.Bytes(response->wire_bytes, response->body.size());
    LARDER_ASSIGN_OR_RETURN(const ListHead head, SplitList(response->body, options_, visit));
    look.version = head.resource_version;
    return look;
  }
  if (response.error().code != ErrorCode::kProtocol) return tl::unexpected(response.error());
  // A server that knows neither limit=1 nor the selector sends the whole list, perhaps more than
  // fits in memory; its version stands at the beginning, and it is asked for nothing else.
  LARDER_ASSIGN_OR_RETURN(const auto reader, ListReader::Open(transport_, request, options_, clock_,
                                                              recorder_, nullptr, token_));
  for (bool more = true; more && reader->head().resource_version.empty();) {
    LARDER_ASSIGN_OR_RETURN(const std::optional<ListReader::Entry> entry, reader->Next(token_));
    more = entry.has_value();
  }
  look.version = reader->head().resource_version;
  witness_.reset();  // only now: what was no more than a moment's trouble must not cost it
  return look;
}

ReflectorMachine::State ReflectorMachine::Fail(const Error& error, State next,
                                               std::string_view reason) {
  if (error.code == ErrorCode::kCancelled && token_.stop_requested()) return next;
  failed_since_check_ = true;
  std::chrono::milliseconds wait = backoff_.Next(clock_->Now());
  if (error.retry_after) {
    wait = std::max(wait, std::min(*error.retry_after, options_.max_retry_after));
  }
  recorder_.Failed(error);
  recorder_.Restart(reason);
  if (!broken_since_) broken_since_ = clock_->Now();
  if (options_.on_error) options_.on_error(error);
  spdlog::warn("{}: {}; again in {} ms ({})", options_.name, error.ToString(), wait.count(),
               larder::ToString(next));
  return WaitThen(next, wait);
}

ReflectorMachine::State ReflectorMachine::WaitThen(State next, std::chrono::milliseconds wait) {
  stream_.reset();
  after_backoff_ = next;
  backoff_until_ = clock_->Now() + wait;
  return State::kBackingOff;
}

ReflectorMachine::State ReflectorMachine::BackOff() {
  MutexLock lock(mutex_);
  while (clock_->Now() < backoff_until_) {
    // To stop or to pause is Run()'s to see; anything else does not shorten the wait.
    if (!clock_->WaitUntil(mutex_, changed_, backoff_until_, token_)) return State::kBackingOff;
  }
  return after_backoff_;
}

std::stop_token ReflectorMachine::FreshToken() {
  MutexLock lock(mutex_);
  if (interrupt_.stop_requested()) interrupt_ = std::stop_source();
  return interrupt_.get_token();
}

void ReflectorMachine::Interrupt() {
  std::stop_source current;
  {
    MutexLock lock(mutex_);
    current = interrupt_;
  }
  // Outside the lock: this runs other people's callbacks.
  current.request_stop();
}

void ReflectorMachine::Pause() {
  {
    MutexLock lock(mutex_);
    paused_ = true;
  }
  Interrupt();
}

void ReflectorMachine::Resume() {
  {
    MutexLock lock(mutex_);
    paused_ = false;
  }
  changed_.notify_all();
}

void ReflectorMachine::TargetFailed(const Error& error) {
  {
    MutexLock lock(mutex_);
    target_failure_ = error;
  }
  Interrupt();
}

std::optional<Error> ReflectorMachine::TakeTargetFailure() {
  MutexLock lock(mutex_);
  return std::exchange(target_failure_, std::nullopt);
}

bool ReflectorMachine::WaitWhilePaused(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  if (!paused_) return false;
  stream_.reset();
  recorder_.State(State::kPaused);
  recorder_.Restart("paused");
  while (paused_ && clock_->WaitUntil(mutex_, changed_, Clock::Steady::max(), stop)) {
  }
  return true;
}

}  // namespace larder
