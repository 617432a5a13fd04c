#include "informer/stored_heads.h"

#include <algorithm>

#include "schema/key_order.h"

namespace larder {

void StoredHeads::Reset() {
  last_.reset();
  found_.reset();
  ahead_.clear();
  next_ = 0;
  at_end_ = false;
  count_ = kLeastAhead;
}

Result<const ObjectHead*> StoredHeads::Find(const ObjectKey& key) {
  if (last_ != key) {
    const bool further = last_ && ComesBefore(*last_, key);
    if (further && next_ == ahead_.size() && !at_end_) ReadAhead();
    if (!further || !TakeAhead(key)) {
      Reset();
      LARDER_ASSIGN_OR_RETURN(found_, Alone(key));
    }
    last_ = key;
  }
  return found_ ? &*found_ : nullptr;
}

Result<std::optional<ObjectHead>> StoredHeads::Alone(const ObjectKey& key) const {
  auto head = indexer_.store()->GetHead(indexer_.collection().id, key);
  if (head) return *std::move(head);
  if (head.error().code == ErrorCode::kNotFound) return std::nullopt;
  return tl::unexpected(std::move(head).error());
}

void StoredHeads::ReadAhead() {
  ahead_.clear();
  next_ = 0;
  const Result<void> read = indexer_.store()->ScanHeads(
      indexer_.collection().id, {},
      [this](const ObjectKey& key, const ObjectHead& head) {
        ahead_.emplace_back(key, head);
        return ahead_.size() < count_;
      },
      nullptr, *last_);
  // What cannot be read is asked for alone when it is its turn, and only that fails.
  at_end_ = read && ahead_.size() < count_;
  count_ = std::min(2 * count_, kMostAhead);
}

bool StoredHeads::TakeAhead(const ObjectKey& key) {
  while (next_ < ahead_.size() && ComesBefore(ahead_[next_].first, key)) ++next_;
  found_.reset();
  if (next_ == ahead_.size()) return at_end_;
  if (ahead_[next_].first == key) found_ = std::move(ahead_[next_++].second);
  return true;
}

}  // namespace larder
