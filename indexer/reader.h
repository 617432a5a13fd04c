// Gets of one pass or one reconcile: without a lock and without a count for each.
//
//   Reader pods(&indexer);
//   for (const ObjectKey& key : keys) {
//     LARDER_ASSIGN_OR_RETURN(const Object* pod, pods.Get(key));  // kNotFound
//     ...
//   }
//
// An object that Get returned is valid until the reader ends or Renew is called, whatever is
// committed, evicted or deleted meanwhile; a get shows the newest version at its own time, as
// Indexer::GetByKey does. What is to live longer is got with GetByKey: that is a counted pointer.
//
// Memory: what the hot tier replaces or evicts while readers are open is kept until they end and
// counts as part of the tier's budget, so a reader is no thing to hold while waiting for somebody.
// What was not hot is held by the reader itself (held_bytes), as a caller would who keeps the
// pointers: a long pass calls Renew now and then.
//
// Of one thread at a time. Ends before the indexer and its hot tier do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "indexer/indexer.h"

namespace larder {

class Reader {
 public:
  explicit Reader(const Indexer* indexer);
  ~Reader() { End(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Result<const Object*> Get(const ObjectKey& key) {
    if (hot_ != nullptr) {
      if (const Object* object = hot_->Find(collection_, key)) {
        ++hits_;
        return object;
      }
    }
    return GetFromStore(key);
  }
  // Lets go of all that it returned, and begins again.
  void Renew();
  size_t held_bytes() const { return held_bytes_; }

 private:
  void Begin();
  void End();
  Result<const Object*> GetFromStore(const ObjectKey& key);

  const Indexer* const indexer_;
  HotTier* const hot_;  // null: there is none
  const CollectionId collection_;
  uint64_t reader_ = 0;  // of the hot tier
  uint64_t hits_ = 0;
  std::vector<ObjectPtr> held_;
  size_t held_bytes_ = 0;
};

}  // namespace larder
