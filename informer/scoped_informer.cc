#include "informer/scoped_informer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <iterator>
#include <set>

#include "schema/key_order.h"

namespace larder {

// For a handler that hears from several informers, each with a thread of its own.
class OneAtATime final : public EventHandler {
 public:
  explicit OneAtATime(std::shared_ptr<EventHandler> handler) : handler_(std::move(handler)) {}
  void OnAdd(const ObjectPtr& object, bool is_in_initial_list) override {
    if (const Turn turn(*this); turn.taken) handler_->OnAdd(object, is_in_initial_list);
  }
  void OnUpdate(const ObjectPtr& old, const ObjectPtr& now) override {
    if (const Turn turn(*this); turn.taken) handler_->OnUpdate(old, now);
  }
  void OnDelete(const ObjectPtr& last_known, bool inferred) override {
    if (const Turn turn(*this); turn.taken) handler_->OnDelete(last_known, inferred);
  }
  // Who waits for a turn gets none: a handler that removes itself waits for the threads of the
  // others while it has its own.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    given_back_.notify_all();
  }
  std::chrono::nanoseconds MaxDelay() const override { return handler_->MaxDelay(); }
  Result<void> Flush() override {
    const Turn turn(*this, /*also_closed=*/true);
    if (turn.taken) return handler_->Flush();
    return MakeError(ErrorCode::kCancelled, "it is removed, and busy with a call of another part");
  }
  // Of one part is of all: when that call returns, no other may begin.
  void LeaveBehind() noexcept override {
    left_behind_ = true;
    Close();
    handler_->LeaveBehind();
  }
  bool IsLeftBehind() const noexcept override { return left_behind_ || handler_->IsLeftBehind(); }

 private:
  struct Turn {
    explicit Turn(OneAtATime& of, bool also_closed = false)
        : all(of), taken(of.Take(also_closed)) {}
    ~Turn() {
      if (taken) all.GiveBack();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    OneAtATime& all;
    const bool taken;
  };
  // `also_closed`: what was heard before that may still be dealt with, where that keeps nobody
  // waiting.
  bool Take(bool also_closed) {
    MutexLock lock(mutex_);
    while (taken_ && !closed_) given_back_.wait(mutex_);
    if (taken_ || left_behind_ || (closed_ && !also_closed)) return false;
    return taken_ = true;
  }
  void GiveBack() {
    MutexLock lock(mutex_);
    taken_ = false;
    given_back_.notify_one();
  }

  const std::shared_ptr<EventHandler> handler_;
  Mutex mutex_;
  std::condition_variable_any given_back_;
  bool taken_ LARDER_GUARDED_BY(mutex_) = false;
  bool closed_ LARDER_GUARDED_BY(mutex_) = false;
  std::atomic<bool> left_behind_{false};
};

namespace {

// "3:abc": slot 3, and the token of its own list.
Result<std::pair<size_t, std::string>> ParseToken(const std::string& token, size_t slots) {
  if (token.empty()) return std::pair<size_t, std::string>(0, {});
  size_t slot = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), slot);
  const size_t at = static_cast<size_t>(end - token.data());
  if (error != std::errc() || at >= token.size() || token[at] != ':' || slot >= slots) {
    return MakeError(ErrorCode::kInvalidArgument, "not a continue token of this list: \"{}\"",
                     token);
  }
  return std::pair(slot, token.substr(at + 1));
}

}  // namespace

Quota::Quota(std::string owner, size_t max_handlers, size_t max_bytes)
    : owner_(std::move(owner)), max_handlers_(max_handlers), max_bytes_(max_bytes) {}

Result<size_t> Quota::Take(size_t bytes) {
  MutexLock lock(mutex_);
  if (max_handlers_ != 0 && handlers_ >= max_handlers_) {
    return MakeError(ErrorCode::kNoSpace, "{}: {} of {} handlers are in use", owner_, handlers_,
                     max_handlers_);
  }
  if (max_bytes_ != 0) {
    const size_t left = max_bytes_ - bytes_;
    if (left < std::min(bytes, kLeastBytes)) {
      return MakeError(ErrorCode::kNoSpace, "{}: {} of {} bytes for handlers are in use", owner_,
                       bytes_, max_bytes_);
    }
    bytes = std::min(bytes, left);
  }
  ++handlers_;
  bytes_ += bytes;
  return bytes;
}

void Quota::Give(size_t bytes) {
  MutexLock lock(mutex_);
  --handlers_;
  bytes_ -= bytes;
}

Result<void> Quota::CheckBytes(size_t bytes) const {
  if (max_bytes_ == 0 || bytes <= max_bytes_) return {};
  return MakeError(ErrorCode::kNoSpace,
                   "{}: the list is larger than the quota of {} bytes: use a limit, or ForEach",
                   owner_, max_bytes_);
}

std::pair<size_t, size_t> Quota::InUse() const {
  MutexLock lock(mutex_);
  return {handlers_, bytes_};
}

bool ScopedInformer::Registration::HasSynced() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part.second->HasSynced(); });
}

std::vector<ListenerStats> ScopedInformer::Registration::Stats() const {
  std::vector<ListenerStats> stats;
  for (const auto& [informer, listener] : parts_) stats.push_back(listener->Stats());
  return stats;
}

ScopedInformer::ScopedInformer(std::vector<Part> parts, std::string prefix, Quota* quota)
    : parts_(std::move(parts)), prefix_(std::move(prefix)), quota_(quota) {
  for (const Part& part : parts_) {
    if (part.scope.namespaces.empty()) slots_.push_back({&part, part.informer->options().ns});
    for (const std::string& ns : part.scope.namespaces) slots_.push_back({&part, ns});
  }
  std::sort(slots_.begin(), slots_.end(),
            [](const Slot& a, const Slot& b) { return NamespaceComesBefore(a.ns, b.ns); });
}

ScopedInformer::~ScopedInformer() = default;

Result<std::shared_ptr<ScopedInformer::Registration>> ScopedInformer::AddEventHandler(
    std::shared_ptr<EventHandler> handler, HandlerOptions options) {
  if (!handler) return MakeError(ErrorCode::kInvalidArgument, "the handler is null");
  auto registration = std::make_shared<Registration>();
  registration->bytes_ = options.buffer_bytes;
  if (quota_ != nullptr) {
    LARDER_ASSIGN_OR_RETURN(registration->bytes_, quota_->Take(options.buffer_bytes));
  }
  if (parts_.size() > 1) {
    registration->one_at_a_time_ = std::make_shared<OneAtATime>(std::move(handler));
    handler = registration->one_at_a_time_;
  }
  if (!options.durable_name.empty()) options.durable_name = prefix_ + options.durable_name;
  for (const Part& part : parts_) {
    HandlerOptions narrowed = options;
    narrowed.buffer_bytes = std::max<size_t>(registration->bytes_ / parts_.size(), 1);
    if (part.scope.namespaces.size() == 1) narrowed.ns = *part.scope.namespaces.begin();
    narrowed.filter = [scope = part.scope, filter = options.filter](const Object& object) {
      return scope.Contains(object) && (!filter || filter(object));
    };
    auto added = part.informer->AddEventHandler(handler, std::move(narrowed));
    if (!added) {
      // As if it had never come: what waits for a durable name goes on waiting.
      for (const auto& [informer, listener] : registration->parts_) {
        if (auto undone = informer->ReleaseEventHandler(listener); !undone) {
          spdlog::warn("{}", undone.error().ToString());
        }
      }
      if (quota_ != nullptr) quota_->Give(registration->bytes_);
      return tl::unexpected(added.error());
    }
    registration->parts_.emplace_back(part.informer, *std::move(added));
  }
  MutexLock lock(mutex_);
  registrations_.push_back(registration);
  return registration;
}

Result<void> ScopedInformer::Detach(const Registration& registration) {
  Result<void> outcome;
  // From all parts before it is closed: what it does not hear then, no name may count as heard.
  for (const auto& [informer, listener] : registration.parts_) {
    if (auto withdrawn = informer->Withdraw(listener); !withdrawn) outcome = withdrawn;
  }
  if (registration.one_at_a_time_) registration.one_at_a_time_->Close();
  for (const auto& [informer, listener] : registration.parts_) {
    if (auto ended = informer->WaitForEnd(listener); !ended) outcome = ended;
  }
  if (quota_ != nullptr) quota_->Give(registration.bytes_);
  return outcome;
}

Result<void> ScopedInformer::RemoveEventHandler(const std::shared_ptr<Registration>& registration) {
  {
    MutexLock lock(mutex_);
    const auto it = std::find(registrations_.begin(), registrations_.end(), registration);
    if (it == registrations_.end()) return MakeError(ErrorCode::kNotFound, "no such handler");
    registrations_.erase(it);
  }
  return Detach(*registration);
}

Result<void> ScopedInformer::AddEnqueuer(WorkQueue* queue, const EnqueuerOptions& options,
                                         const EnqueueFunction& function) {
  EnqueuerOptions named = options;
  named.name = prefix_ + options.name;
  for (size_t i = 0; i < parts_.size(); ++i) {
    auto added = parts_[i].informer->AddEnqueuer(
        queue, named,
        [scope = parts_[i].scope, function](const ObjectChange& change, const Enqueue& enqueue) {
          const auto seen =
              Narrow(change, [&](const Object& object) { return scope.Contains(object); });
          if (seen) function(*seen, enqueue);
        });
    if (added) continue;
    // As if it had never come, so that it may come again.
    for (size_t before = 0; before < i; ++before) {
      parts_[before].informer->ReleaseEnqueuer(named.name);
    }
    return added;
  }
  return {};
}

bool ScopedInformer::HasSynced() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.informer->HasSynced(); });
}

Result<void> ScopedInformer::WaitForSync(Clock::Steady deadline,
                                         const std::stop_token& stop) const {
  for (const Part& part : parts_)
    LARDER_RETURN_IF_ERROR(part.informer->WaitForSync(deadline, stop));
  return {};
}

std::vector<ScopedInformer::Slot> ScopedInformer::SlotsFor(const std::string& ns) const {
  if (ns.empty()) return slots_;
  for (const Slot& slot : slots_) {
    if (slot.ns == ns) return {slot};
    if (slot.ns.empty()) return {{slot.part, ns}};
  }
  return {};
}

Result<Query> ScopedInformer::Narrowed(const Query& query, const Slot& slot) {
  Query narrowed = query;
  narrowed.ns = slot.ns;
  const Scope& scope = slot.part->scope;
  LARDER_ASSIGN_OR_RETURN(const std::string labels,
                          JoinLabelSelectors(scope.labels.ToString(), query.labels.ToString()));
  LARDER_ASSIGN_OR_RETURN(const std::string fields,
                          JoinFieldSelectors(scope.fields.ToString(), query.fields.ToString()));
  LARDER_ASSIGN_OR_RETURN(narrowed.labels, LabelSelector::Parse(labels));
  LARDER_ASSIGN_OR_RETURN(narrowed.fields, FieldSelector::Parse(fields));
  return narrowed;
}

// The same answer for what is not there and what may not be seen.
Result<ObjectPtr> ScopedInformer::Get(const ObjectKey& key) const {
  for (const Slot& slot : SlotsFor(key.ns)) {
    if (!slot.part->scope.Contains(key)) continue;
    Result<ObjectPtr> object = slot.part->informer->GetIndexer().GetByKey(key);
    if (object && slot.part->scope.Contains(**object)) return object;
    if (!object && object.error().code != ErrorCode::kNotFound) return object;
  }
  return MakeError(ErrorCode::kNotFound, "no object {}", key.ToString());
}

Result<void> ScopedInformer::ForEach(const Query& query, const Store::ObjectVisitor& visit) const {
  const std::vector<Slot> slots = SlotsFor(query.ns);
  LARDER_ASSIGN_OR_RETURN(auto at, ParseToken(query.continue_token, slots.size()));
  size_t given = 0;
  bool go_on = true;
  for (size_t slot = at.first; slot < slots.size() && go_on; ++slot) {
    LARDER_ASSIGN_OR_RETURN(Query narrowed, Narrowed(query, slots[slot]));
    narrowed.continue_token = std::exchange(at.second, {});
    narrowed.limit = 0;
    LARDER_RETURN_IF_ERROR(slots[slot].part->informer->GetLister().ForEach(
        narrowed,
        [&](const ObjectPtr& object) { return go_on = visit(object) && ++given != query.limit; }));
  }
  return {};
}

Result<QueryPage> ScopedInformer::List(const Query& query) const {
  const std::vector<Slot> slots = SlotsFor(query.ns);
  if (query.limit != 0 || !query.continue_token.empty()) return ListPage(query, slots);
  QueryPage page;
  size_t bytes = 0;
  Result<void> fits;
  LARDER_RETURN_IF_ERROR(ForEach(query, [&](const ObjectPtr& object) {
    bytes += object->ByteSize();
    if (quota_ != nullptr) fits = quota_->CheckBytes(bytes);
    page.objects.push_back(object);
    return fits.has_value();
  }));
  LARDER_RETURN_IF_ERROR(fits);
  return page;
}

Result<QueryPage> ScopedInformer::ListPage(const Query& query,
                                           const std::vector<Slot>& slots) const {
  QueryPage page;
  const size_t most = quota_ == nullptr ? 0 : quota_->max_bytes();
  size_t bytes = 0;
  LARDER_ASSIGN_OR_RETURN(auto at, ParseToken(query.continue_token, slots.size()));
  for (size_t slot = at.first; slot < slots.size(); ++slot) {
    LARDER_ASSIGN_OR_RETURN(Query narrowed, Narrowed(query, slots[slot]));
    narrowed.continue_token = std::exchange(at.second, {});
    if (query.limit != 0) narrowed.limit = query.limit - page.objects.size();
    if (most != 0) narrowed.max_bytes = most - bytes;
    LARDER_ASSIGN_OR_RETURN(QueryPage one, slots[slot].part->informer->GetLister().List(narrowed));
    for (const ObjectPtr& object : one.objects) bytes += object->ByteSize();
    if (most != 0 && bytes > most && !page.objects.empty()) {  // the first of this one is too much
      page.continue_token = std::to_string(slot) + ":";
      break;
    }
    std::move(one.objects.begin(), one.objects.end(), std::back_inserter(page.objects));
    if (!one.continue_token.empty()) {
      page.continue_token = std::to_string(slot) + ":" + one.continue_token;
      break;
    }
    const bool full =
        (query.limit != 0 && page.objects.size() >= query.limit) || (most != 0 && bytes >= most);
    if (full && slot + 1 < slots.size()) {
      page.continue_token = std::to_string(slot + 1) + ":";
      break;
    }
  }
  return page;
}

Result<size_t> ScopedInformer::Count(const Query& query) const {
  size_t count = 0;
  for (const Slot& slot : SlotsFor(query.ns)) {
    LARDER_ASSIGN_OR_RETURN(const Query narrowed, Narrowed(query, slot));
    LARDER_ASSIGN_OR_RETURN(const size_t one, slot.part->informer->GetLister().Count(narrowed));
    count += one;
  }
  return count;
}

Result<std::vector<ObjectPtr>> ScopedInformer::ByIndex(const std::string& index,
                                                       const std::string& value) const {
  Query query;
  query.index = {index, value};
  LARDER_ASSIGN_OR_RETURN(QueryPage page, List(query));
  return std::move(page.objects);
}

Result<std::vector<ObjectKey>> ScopedInformer::IndexKeys(const std::string& index,
                                                         const std::string& value) const {
  Query query;
  query.index = {index, value};
  std::vector<ObjectKey> keys;
  LARDER_RETURN_IF_ERROR(ForEach(query, [&](const ObjectPtr& object) {
    keys.push_back(object->key());
    return true;
  }));
  return keys;
}

Result<std::vector<std::string>> ScopedInformer::ListIndexFuncValues(
    const std::string& index) const {
  if (parts_.empty()) return std::vector<std::string>();
  const auto indexes = parts_.front().informer->GetIndexer().GetIndexers();
  const auto definition = std::find_if(indexes.begin(), indexes.end(),
                                       [&](const auto& one) { return one.name() == index; });
  if (definition == indexes.end()) {
    return MakeError(ErrorCode::kNotFound, "no index named {}", index);
  }
  std::set<std::string> values;
  LARDER_RETURN_IF_ERROR(ForEach({}, [&](const ObjectPtr& object) {
    for (std::string& value : definition->Values(*object)) values.insert(std::move(value));
    return true;
  }));
  return std::vector<std::string>(values.begin(), values.end());
}

}  // namespace larder
