#include "apiserver/state.h"

// Inlined, because only then its state can live on the stack.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace larder::apiserver {
namespace {

// How many events of a window keep their rendered text: enough for a watcher that is a little
// behind, and not so much that a window of 100,000 events costs a gigabyte.
constexpr size_t kYoungEvents = 1024;

uint64_t HashOf(std::string_view type_prefix, std::string_view text) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, type_prefix.data(), type_prefix.size());
  XXH3_64bits_update(&state, text.data() + 1, text.size() - 1);
  return XXH3_64bits_digest(&state);
}

// The text with the version's digits in their place. Called under the lock, where the version is
// known.
void PutVersion(StoredBody::Rendered& rendered, size_t version_at, uint64_t version) {
  const std::string digits = std::to_string(version);
  rendered.text.insert(version_at, digits);
  rendered.metadata_end += digits.size();
}

}  // namespace

std::string_view StoredObject::Namespace() const {
  const size_t slash = identity->key.find('/');
  return slash == std::string::npos ? std::string_view()
                                    : std::string_view(identity->key).substr(0, slash);
}

std::string_view StoredObject::Name() const {
  const size_t slash = identity->key.find('/');
  return slash == std::string::npos ? std::string_view(identity->key)
                                    : std::string_view(identity->key).substr(slash + 1);
}

State::State(Options options) : options_(options), version_(options.first_version) {}

TablePtr State::AddTable(std::string name, std::string type_prefix, bool namespaced) {
  MutexLock lock(mutex_);
  TablePtr& slot = tables_[name];
  if (!slot) {
    table_names_.insert(name);
    slot = std::make_shared<Table>(std::move(name), std::move(type_prefix), namespaced);
    slot->dropped_through_ = version_;
  }
  return slot;
}

TablePtr State::FindTable(std::string_view name) const {
  MutexLock lock(mutex_);
  const auto found = tables_.find(name);
  return found == tables_.end() ? nullptr : found->second;
}

std::vector<TablePtr> State::Tables() const {
  MutexLock lock(mutex_);
  std::vector<TablePtr> out;
  for (const auto& [name, table] : tables_) out.push_back(table);
  return out;
}

void State::RemoveTable(std::string_view name) {
  MutexLock lock(mutex_);
  const auto found = tables_.find(name);
  if (found == tables_.end()) return;
  found->second->removed_ = true;
  found->second->changed_.notify_all();
  tables_.erase(found);
}

std::shared_ptr<StoredObject> State::MakeStored(Table& table, const std::string& key,
                                                const std::string& uid, const PreparedBody& body) {
  auto stored = std::make_shared<StoredObject>();
  stored->body = table.codec_.Encode(body);
  stored->identity = std::make_shared<Identity>(Identity{key, uid});
  return stored;
}

bool State::NamespaceMissing(std::string_view ns) const {
  const auto namespaces = tables_.find("namespaces");
  return namespaces == tables_.end() || !namespaces->second->objects_.contains(ns);
}

State::Outcome State::Put(Table& table, const std::string& key, const std::string& uid,
                          uint64_t expected, const PreparedBody& body, StoredPtr* stored) {
  const std::shared_ptr<StoredObject> object = MakeStored(table, key, uid, body);
  auto rendered = std::make_shared<StoredBody::Rendered>();
  rendered->text.reserve(body.text.size() + 20);
  rendered->text = body.text;
  rendered->metadata_end = body.metadata_end;

  MutexLock lock(mutex_);
  if (table.removed_) return Outcome::kNoTable;
  const auto found = table.objects_.find(key);
  const uint64_t current = found == table.objects_.end() ? kAbsent : found->second->version;
  if (current != expected) return Outcome::kMismatch;
  StoredPtr previous;
  if (current == kAbsent) {
    if (table.namespaced_) {
      const std::string_view ns = object->Namespace();
      if (NamespaceMissing(ns)) return Outcome::kNoNamespace;
      if (terminating_.contains(ns)) return Outcome::kNamespaceTerminating;
    }
  } else {
    previous = found->second;
    if (previous->identity->uid == uid) object->identity = previous->identity;
  }
  object->version = ++version_;
  PutVersion(*rendered, body.version_at, version_);
  table.objects_[key] = object;
  const EventType type = previous ? EventType::kModified : EventType::kAdded;
  Publish(table, type, object, std::move(previous), std::move(rendered));
  if (stored) *stored = object;
  return Outcome::kDone;
}

State::Outcome State::Remove(Table& table, const std::string& key, uint64_t expected,
                             const PreparedBody* body, StoredPtr* stored) {
  const StoredPtr last = Get(table, key);
  if (!last || last->version != expected) return Outcome::kMismatch;
  auto object = std::make_shared<StoredObject>(*last);
  if (body) object->body = table.codec_.Encode(*body);
  // Rendered without digits here: decompressing under the lock would hold everybody up.
  auto rendered = std::make_shared<StoredBody::Rendered>(object->body.Render(""));
  const size_t version_at = object->body.VersionAt();

  MutexLock lock(mutex_);
  if (table.removed_) return Outcome::kNoTable;
  const auto found = table.objects_.find(key);
  if (found == table.objects_.end() || found->second->version != expected) {
    return Outcome::kMismatch;
  }
  object->version = ++version_;
  PutVersion(*rendered, version_at, version_);
  StoredPtr previous = std::move(found->second);
  table.objects_.erase(found);
  if (table.name_ == "namespaces") terminating_.erase(key);
  Publish(table, EventType::kDeleted, object, std::move(previous), std::move(rendered));
  if (stored) *stored = object;
  return Outcome::kDone;
}

void State::Publish(Table& table, EventType type, StoredPtr object, StoredPtr previous,
                    std::shared_ptr<const StoredBody::Rendered> rendered) {
  const std::string* const name = &*table_names_.find(table.name_);
  history_.Append(version_, type, name, object->identity,
                  HashOf(table.type_prefix_, rendered->text));
  table.window_.push_back({type, std::move(object), std::move(previous), std::move(rendered)});
  if (table.window_.size() > kYoungEvents) {
    table.window_[table.window_.size() - 1 - kYoungEvents].rendered.reset();
  }
  while (table.window_.size() > options_.window_events) {
    table.dropped_through_ = table.window_.front().object->version;
    table.window_.pop_front();
    ++table.first_sequence_;
  }
  table.changed_.notify_all();
  if (version_waiters_ > 0) version_changed_.notify_all();
}

void State::SetTerminating(const std::string& ns) {
  MutexLock lock(mutex_);
  terminating_.insert(ns);
}

bool State::IsTerminating(const std::string& ns) const {
  MutexLock lock(mutex_);
  return terminating_.contains(ns);
}

uint64_t State::Version() const {
  MutexLock lock(mutex_);
  return version_;
}

uint64_t State::WaitForVersion(uint64_t wanted, Clock::Steady::duration patience,
                               const std::stop_token& stop) {
  MutexLock lock(mutex_);
  // On the real clock: a client waits for this answer, and a test's clock may stand still.
  Clock* const clock = RealClock();
  const Clock::Steady deadline = clock->Now() + patience;
  ++version_waiters_;
  while (version_ < wanted && clock->Now() < deadline) {
    if (!clock->WaitUntil(mutex_, version_changed_, deadline, stop)) break;
  }
  --version_waiters_;
  return version_;
}

StoredPtr State::Get(const Table& table, std::string_view key) const {
  MutexLock lock(mutex_);
  const auto found = table.objects_.find(key);
  return found == table.objects_.end() ? nullptr : found->second;
}

size_t State::Count(const Table& table) const {
  MutexLock lock(mutex_);
  return table.objects_.size();
}

size_t State::CountPrefix(const Table& table, std::string_view prefix) const {
  MutexLock lock(mutex_);
  if (prefix.empty()) return table.objects_.size();
  size_t count = 0;
  for (auto it = table.objects_.lower_bound(prefix);
       it != table.objects_.end() && it->first.starts_with(prefix); ++it) {
    ++count;
  }
  return count;
}

bool State::HasPrefix(const Table& table, std::string_view prefix) const {
  MutexLock lock(mutex_);
  const auto found = table.objects_.lower_bound(prefix);
  return found != table.objects_.end() && found->first.starts_with(prefix);
}

State::ScanResult State::Scan(const Table& table, uint64_t version, std::string_view prefix,
                              std::string_view from, size_t limit) const {
  ScanResult out;
  MutexLock lock(mutex_);
  if (version < table.dropped_through_) {
    out.expired = true;
    return out;
  }
  // What the keys changed since then were at that version. Going backwards, the earliest change
  // wins.
  std::map<std::string_view, StoredPtr> changed;
  for (auto event = table.window_.rbegin();
       event != table.window_.rend() && event->object->version > version; ++event) {
    changed[event->object->identity->key] = event->previous;
  }
  const std::string_view start = std::max(prefix, from);
  auto now = table.objects_.lower_bound(start);
  auto then = changed.lower_bound(start);
  const auto in_range = [&](std::string_view key) { return key.starts_with(prefix); };
  while (true) {
    const bool has_now = now != table.objects_.end() && in_range(now->first);
    const bool has_then = then != changed.end() && in_range(then->first);
    if (!has_now && !has_then) break;
    StoredPtr object;
    if (has_then && (!has_now || then->first <= now->first)) {
      if (has_now && then->first == now->first) ++now;
      object = (then++)->second;
    } else {
      object = (now++)->second;
    }
    if (!object) continue;
    if (out.objects.size() == limit) {
      out.more = true;
      break;
    }
    out.objects.push_back(std::move(object));
  }
  return out;
}

void State::Save() {
  MutexLock lock(mutex_);
  backup_.emplace();
  backup_->version = version_;
  for (const auto& [name, table] : tables_) backup_->objects[name] = table->objects_;
}

bool State::Restore() {
  MutexLock lock(mutex_);
  if (!backup_) return false;
  version_ = backup_->version;
  terminating_.clear();
  history_.Truncate(version_);
  for (const auto& [name, table] : tables_) {
    table->objects_ = backup_->objects[name];
    DropWindow(*table, version_);
    // One further than any watcher can be: all have fallen behind.
    ++table->first_sequence_;
  }
  return true;
}

std::vector<HistoryEntry> State::ReadHistory(uint64_t from, size_t limit) const {
  MutexLock lock(mutex_);
  return history_.Read(from, limit);
}

size_t State::HistorySize() const {
  MutexLock lock(mutex_);
  return history_.Size();
}

}  // namespace larder::apiserver
