#include "indexer/reader.h"

#include <utility>

namespace larder {

Reader::Reader(const Indexer* indexer)
    : indexer_(indexer), hot_(indexer->hot_), collection_(indexer->collection_.id) {
  Begin();
}

void Reader::Begin() {
  if (hot_ != nullptr) reader_ = hot_->BeginRead();
}

void Reader::End() {
  if (hot_ != nullptr) hot_->EndRead(reader_, std::exchange(hits_, 0));
}

void Reader::Renew() {
  End();
  held_.clear();
  held_bytes_ = 0;
  Begin();
}

Result<const Object*> Reader::GetFromStore(const ObjectKey& key) {
  LARDER_ASSIGN_OR_RETURN(ObjectPtr object, indexer_->GetByKey(key));
  held_bytes_ += object->ByteSize();
  held_.push_back(std::move(object));
  return held_.back().get();
}

}  // namespace larder
