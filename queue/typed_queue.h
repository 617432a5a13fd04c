// A work queue of values instead of strings: a thin layer that encodes on the way in and decodes on
// the way out.
//
// The codec must give equal values equal text, because the text is what tells items apart. Text
// that it cannot read, from an older program perhaps, is reported and acknowledged, so that it does
// not come back for ever. All guarantees are WorkQueue's.
//
//   TypedQueue<ObjectKey> queue(work_queue.get());
//   queue.Add({"default", "a"});
//   while (auto key = queue.Get(stop)) { Reconcile(*key); queue.Done(*key); }
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "queue/work_queue.h"
#include "schema/object.h"

namespace larder {

// Specialise it: static std::string Encode(const T&); static Result<T> Decode(std::string_view).
template <typename T>
struct ItemCodec;

template <>
struct ItemCodec<ObjectKey> {
  static std::string Encode(const ObjectKey& key) { return key.ToString(); }
  static Result<ObjectKey> Decode(std::string_view text) { return ObjectKey::Parse(text); }
};

template <typename T, typename Codec = ItemCodec<T>>
class TypedQueue {
 public:
  using Duration = WorkQueue::Duration;
  using UnreadableHandler = std::function<void(const std::string& item, const Error& error)>;

  // `queue` must outlive this.
  explicit TypedQueue(WorkQueue* queue, UnreadableHandler unreadable = nullptr)
      : queue_(queue), unreadable_(std::move(unreadable)) {}

  Result<void> Add(const T& value) { return queue_->Add(Codec::Encode(value)); }
  Result<void> AddWithOptions(const T& value, const AddOptions& options) {
    return queue_->AddWithOptions(Codec::Encode(value), options);
  }
  Result<void> AddAfter(const T& value, Duration delay) {
    return queue_->AddAfter(Codec::Encode(value), delay);
  }
  Result<void> AddRateLimited(const T& value, std::string_view error = {}) {
    return queue_->AddRateLimited(Codec::Encode(value), error);
  }

  std::optional<T> Get(const std::stop_token& stop = {}, Duration timeout = WorkQueue::kForever) {
    while (std::optional<std::string> item = queue_->Get(stop, timeout)) {
      Result<T> value = Codec::Decode(*item);
      if (value) return std::move(*value);
      if (unreadable_) unreadable_(*item, value.error());
      queue_->Done(*item);
    }
    return std::nullopt;
  }
  void Done(const T& value) { queue_->Done(Codec::Encode(value)); }
  void Forget(const T& value) { queue_->Forget(Codec::Encode(value)); }
  uint32_t NumRequeues(const T& value) const { return queue_->NumRequeues(Codec::Encode(value)); }

 private:
  WorkQueue* const queue_;
  const UnreadableHandler unreadable_;
};

}  // namespace larder
