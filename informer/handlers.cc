// The part of SharedInformer that knows its handlers: who is registered under which name, who is
// removed, and what is kept for a name that is away.
#include <algorithm>
#include <cctype>
#include <iterator>

#include "informer/shared_informer.h"

namespace larder {

// The name of the handler's rows: its durable one, or one that is unique in
// this process.
Result<std::string> SharedInformer::HandlerName(const HandlerOptions& options) {
  const std::string& name = options.durable_name;
  if (name.empty()) return "~" + std::to_string(++handler_count_);
  const bool valid = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._/:").find(char(c)) != std::string_view::npos;
  });
  if (!valid) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "durable_name \"{}\": only letters, digits and any of "
                     "\"-._/:\" are allowed",
                     name);
  }
  for (const Registration& other : listeners_) {
    if (other->name() == name) {
      return MakeError(ErrorCode::kAlreadyExists, "there is a handler named {} already", name);
    }
  }
  return name;
}

Result<SharedInformer::Registration> SharedInformer::AddEventHandler(
    std::shared_ptr<EventHandler> handler, HandlerOptions options) {
  if (!handler) return MakeError(ErrorCode::kInvalidArgument, "the handler is null");
  if (options.resync_period.count() < 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "resync_period is {} ms; use 0 for the informer's own, or a time",
                     options.resync_period.count());
  }
  if (options.resync_period.count() == 0) options.resync_period = options_.resync_period;
  Registration listener;
  std::vector<Registration> ended_before;
  {
    // Under the write lock: what is stored now and what is staged from now on are all there is.
    const auto writer = indexer_->BeginWrite();
    MutexLock lock(mutex_);
    if (stopped_) {
      return MakeError(ErrorCode::kCancelled, "{} is stopped: no handler can be added",
                       indexer_->collection().spec.ToString());
    }
    LARDER_ASSIGN_OR_RETURN(const std::string name, HandlerName(options));
    listener = std::make_shared<Listener>(indexer_.get(), names_.get(), std::move(handler),
                                          std::move(options), name, options_.clock);
    LARDER_RETURN_IF_ERROR(listener->Open(sync_->cursor().Complete()));
    absent_.erase(name);
    listeners_.push_back(listener);
    listener->Start();
    ended_before = TakeEnded();
  }
  for (const Registration& other : ended_before) other->Stop();
  return listener;
}

std::vector<SharedInformer::Registration> SharedInformer::TakeEnded() {
  const auto first =
      std::stable_partition(retired_.begin(), retired_.end(),
                            [](const Registration& listener) { return !listener->HasEnded(); });
  std::vector<Registration> ended(std::make_move_iterator(first),
                                  std::make_move_iterator(retired_.end()));
  retired_.erase(first, retired_.end());
  return ended;
}

Result<void> SharedInformer::RemoveEventHandler(const Registration& registration) {
  Result<void> withdrawn = Withdraw(registration);
  if (!withdrawn && withdrawn.error().code == ErrorCode::kNotFound) return withdrawn;
  LARDER_RETURN_IF_ERROR(WaitForEnd(registration));
  return withdrawn;
}

Result<void> SharedInformer::Withdraw(const Registration& registration) {
  Result<void> forgotten;
  std::vector<Registration> ended_before;
  {
    const auto writer = indexer_->BeginWrite();
    MutexLock lock(mutex_);
    const auto it = std::find(listeners_.begin(), listeners_.end(), registration);
    if (it == listeners_.end()) return MakeError(ErrorCode::kNotFound, "no such handler");
    // Before its thread can meet rows of the next one of its name.
    registration->RequestStop();
    // A name is never known without its changes being kept: a crash may come at any time.
    forgotten = registration->Forget();
    const std::string& name = registration->name();
    if (names_->Revision(name)) absent_.try_emplace(name, indexer_.get(), name);
    listeners_.erase(it);
    if (registration->OnOwnThread()) retired_.push_back(registration);
    ended_before = TakeEnded();
  }
  for (const Registration& other : ended_before) other->Stop();
  return forgotten;
}

Result<void> SharedInformer::WaitForEnd(const Registration& registration) const {
  if (registration->Stop(GraceEnd())) return {};
  return LeftBehind(*registration);
}

tl::unexpected<Error> SharedInformer::LeftBehind(const Listener& listener) const {
  return MakeError(ErrorCode::kTimeout,
                   "handler {} is removed, but has not returned from its last call within {} ms",
                   listener.name(), options_.handler_grace.count());
}

Result<void> SharedInformer::ReleaseEventHandler(const Registration& registration) {
  {
    MutexLock lock(mutex_);
    if (std::find(listeners_.begin(), listeners_.end(), registration) == listeners_.end()) {
      return MakeError(ErrorCode::kNotFound, "no such handler");
    }
  }
  const std::string& name = registration->name();
  if (registration->OnOwnThread()) {
    return MakeError(ErrorCode::kInvalidArgument, "handler {} cannot release itself", name);
  }
  if (!names_->Revision(name)) return RemoveEventHandler(registration);
  // Changes go to it until its thread has ended: two that remember what they saw of the same rows
  // would mislead each other.
  const bool ended = registration->Stop(GraceEnd());
  const auto writer = indexer_->BeginWrite();
  MutexLock lock(mutex_);
  const auto it = std::find(listeners_.begin(), listeners_.end(), registration);
  if (it == listeners_.end()) return MakeError(ErrorCode::kNotFound, "no such handler");
  listeners_.erase(it);
  absent_.try_emplace(name, indexer_.get(), name);
  if (ended) return {};
  return LeftBehind(*registration);
}

Result<void> SharedInformer::ForgetHandler(const std::string& durable_name) {
  const auto writer = indexer_->BeginWrite();
  MutexLock lock(mutex_);
  for (const Registration& listener : listeners_) {
    if (listener->name() == durable_name) {
      return MakeError(ErrorCode::kConflict, "handler {} is registered: remove it", durable_name);
    }
  }
  const auto absent = absent_.find(durable_name);
  if (absent == absent_.end()) {
    return MakeError(ErrorCode::kNotFound, "no handler named {} is known", durable_name);
  }
  LARDER_RETURN_IF_ERROR(names_->Forget(durable_name));
  LARDER_RETURN_IF_ERROR(absent->second.Clear());
  absent_.erase(absent);
  return {};
}

}  // namespace larder
