// The store's rows of queues, handlers and notes.
#include "storage/keys.h"
#include "storage/records.h"
#include "storage/store.h"
#include "storage/store_impl.h"

namespace larder {

Result<void> Store::ScanQueue(std::string_view queue, std::string_view after,
                              const QueueVisitor& visit, const DamagedQueueVisitor& damaged) const {
  const std::string prefix = keys::QueuePrefix(queue);
  // Behind every generation of `after`: '0' follows '/'.
  std::string start;
  if (!after.empty()) start = keys::PrefixEnd(keys::QueueItemPrefix(queue, after));
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(impl_->ScanRows(
      Family::kQueues, prefix, start,
      [&](std::string_view row, std::string_view value) {
        auto key = keys::ParseQueueItem(row);
        auto record = records::DecodeQueue(value);
        if (!key || !record) {
          Error error = impl_->WithFiles(!key ? key.error() : record.error(), Family::kQueues, row);
          if (!damaged) {
            outcome = tl::unexpected(std::move(error));
            return false;
          }
          DamagedQueueItem broken{{}, 0, impl_->Noted(std::move(error))};
          if (key) {
            broken.item = std::move(key->item);
            broken.generation = key->generation;
          }
          return damaged(broken);
        }
        return visit({std::move(key->item), key->generation, *std::move(record)});
      },
      nullptr, /*fill_cache=*/false));
  return impl_->Noted(std::move(outcome));
}

Result<std::vector<std::string>> Store::Queues(const SnapshotPtr& snapshot) const {
  std::vector<std::string> out;
  std::string after;
  const Impl::Reader reader = impl_->MakeReader(snapshot);
  if (!reader.database) return tl::unexpected(impl_->Unavailable());
  std::unique_ptr<rocksdb::Iterator> it(
      (*reader.database)->NewIterator(reader.options, reader.database->family(Family::kQueues)));
  // One seek per queue, however many items it has.
  for (it->SeekToFirst(); it->Valid(); it->Seek(after)) {
    LARDER_ASSIGN_OR_RETURN(auto key, keys::ParseQueueItem({it->key().data(), it->key().size()}));
    after = keys::PrefixEnd(keys::QueuePrefix(key.queue));
    out.push_back(std::move(key.queue));
  }
  if (!it->status().ok()) {
    return tl::unexpected(impl_->Noted(FromRocks(it->status(), "reading the queues")));
  }
  return out;
}

Result<void> Store::ScanDeltas(CollectionId collection, std::string_view handler,
                               const ObjectKey& after, const DeltaVisitor& visit,
                               const SnapshotPtr& snapshot) const {
  const std::string prefix = keys::DeltaPrefix(collection, handler);
  const std::string start =
      after.name.empty() ? std::string() : keys::Delta(collection, handler, after);
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(impl_->ScanRows(
      Family::kDeltas, prefix, start,
      [&](std::string_view row, std::string_view value) {
        const auto key = keys::ParseDelta(row);
        if (!key) {
          outcome = tl::unexpected(key.error());
          return false;
        }
        return visit(*key, value);
      },
      snapshot, /*fill_cache=*/false));
  return impl_->Noted(std::move(outcome));
}

Result<std::vector<std::string>> Store::DeltaHandlers(CollectionId collection) const {
  std::vector<std::string> out;
  const std::string prefix = keys::CollectionPrefix(collection);
  std::string from = prefix;
  for (;;) {
    // One seek per handler, however many changes wait for it.
    LARDER_ASSIGN_OR_RETURN(const auto row, impl_->FirstRow(Family::kDeltas, from, nullptr));
    if (!row || row->compare(0, prefix.size(), prefix) != 0) return out;
    const size_t end = row->find('/', prefix.size());
    if (end == std::string::npos) return out;
    LARDER_ASSIGN_OR_RETURN(std::string handler, keys::UnescapePart(std::string_view(*row).substr(
                                                     prefix.size(), end - prefix.size())));
    from = keys::PrefixEnd(row->substr(0, end + 1));
    out.push_back(std::move(handler));
  }
}

Result<void> Store::DropDeltas(CollectionId collection, std::string_view handler) {
  Transaction transaction = Begin();
  const std::string prefix = keys::DeltaPrefix(collection, handler);
  transaction.rep_->DeleteRange(Family::kDeltas, prefix, keys::PrefixEnd(prefix));
  return Commit(std::move(transaction), Durability::kRelaxed);
}

Result<std::optional<std::string>> Store::GetNote(std::string_view name) const {
  return impl_->GetMeta(records::NoteKey(name));
}

}  // namespace larder
