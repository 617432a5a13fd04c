#include "storage/keys.h"
#include "storage/records.h"
#include "storage/transaction_rep.h"
#include "storage/value_codec.h"

namespace larder {

Transaction::Transaction(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Transaction::Transaction(Transaction&&) noexcept = default;
Transaction& Transaction::operator=(Transaction&&) noexcept = default;
Transaction::~Transaction() = default;

void Transaction::PutObject(CollectionId collection, const EncodedObject& object) {
  rep_->scratch.clear();
  keys::AppendObject(rep_->scratch, collection, object.key);
  rep_->Put(Family::kObjects, rep_->scratch, object.value);
  rep_->stores_objects = true;
  rep_->NamesDictionary(DictionaryOf(object.value));
}

void Transaction::DeleteObject(CollectionId collection, const ObjectKey& key) {
  rep_->Delete(Family::kObjects, keys::Object(collection, key));
}

void Transaction::PutIndexKey(CollectionId collection, IndexId index, std::string_view value,
                              const ObjectKey& key, std::string_view uid) {
  rep_->scratch.clear();
  keys::AppendIndex(rep_->scratch, collection, index, value, key);
  rep_->Put(Family::kIndexes, rep_->scratch, uid);
}

void Transaction::DeleteIndexKey(CollectionId collection, IndexId index, std::string_view value,
                                 const ObjectKey& key) {
  rep_->Delete(Family::kIndexes, keys::Index(collection, index, value, key));
}

void Transaction::SetCursor(CollectionId collection, const Cursor& cursor) {
  rep_->Put(Family::kMeta, records::CursorKey(collection), records::EncodeCursor(cursor));
}

void Transaction::DropIndex(CollectionId collection, IndexId index) {
  const std::string prefix = keys::IndexPrefix(collection, index);
  rep_->DeleteRange(Family::kIndexes, prefix, keys::PrefixEnd(prefix));
  rep_->Delete(Family::kMeta, records::IndexKey(collection, index));
}

void Transaction::PutIndexRecord(CollectionId collection, const IndexRecord& record) {
  rep_->Put(Family::kMeta, records::IndexKey(collection, record.id), records::EncodeIndex(record));
}

void Transaction::PutQueueItem(std::string_view queue, std::string_view item, uint64_t generation,
                               const QueueRecord& record) {
  rep_->Put(Family::kQueues, keys::QueueItem(queue, item, generation),
            records::EncodeQueue(record));
}

void Transaction::DeleteQueueItem(std::string_view queue, std::string_view item,
                                  uint64_t generation) {
  rep_->Delete(Family::kQueues, keys::QueueItem(queue, item, generation));
}

void Transaction::PutDelta(CollectionId collection, std::string_view handler, const ObjectKey& key,
                           std::string_view value, std::string_view known) {
  rep_->Put(Family::kDeltas, keys::Delta(collection, handler, key), value);
  rep_->NamesDictionary(DictionaryOf(known));
}

void Transaction::DeleteDelta(CollectionId collection, std::string_view handler,
                              const ObjectKey& key) {
  rep_->Delete(Family::kDeltas, keys::Delta(collection, handler, key));
}

void Transaction::PutNote(std::string_view name, std::string_view value) {
  rep_->Put(Family::kMeta, records::NoteKey(name), value);
}

void Transaction::DeleteNote(std::string_view name) {
  rep_->Delete(Family::kMeta, records::NoteKey(name));
}

bool Transaction::Empty() const { return rep_->batch.Count() == 0; }
size_t Transaction::ByteSize() const { return rep_->batch.GetDataSize(); }

}  // namespace larder
