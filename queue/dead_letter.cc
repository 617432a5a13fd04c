#include "queue/dead_letter.h"

#include <functional>
#include <string>
#include <utility>

namespace larder {
namespace {

// An item with a live copy beside the dead one is not dead: work was added for it since.
Result<std::vector<StoredQueueItem>> FindDead(const Store& store, std::string_view queue) {
  std::vector<StoredQueueItem> dead;
  std::string live;
  bool any_live = false;
  LARDER_RETURN_IF_ERROR(store.ScanQueue(queue, {}, [&](const StoredQueueItem& stored) {
    if (!stored.record.dead) {
      live = stored.item;
      any_live = true;
      while (!dead.empty() && dead.back().item == stored.item) dead.pop_back();
    } else if (!any_live || live != stored.item) {
      dead.push_back(stored);
    }
    return true;
  }));
  return dead;
}

using Change = std::function<void(Transaction&, const StoredQueueItem&)>;

Result<void> ChangeDead(Store& store, std::string_view queue, std::string_view item,
                        const Change& change) {
  LARDER_ASSIGN_OR_RETURN(const std::vector<StoredQueueItem> dead, FindDead(store, queue));
  Transaction transaction = store.Begin();
  for (const StoredQueueItem& stored : dead) {
    if (stored.item == item) change(transaction, stored);
  }
  if (transaction.Empty()) {
    return MakeError(ErrorCode::kNotFound, "queue {}: no dead letter {}", queue, item);
  }
  return store.Commit(std::move(transaction), Durability::kSync);
}

}  // namespace

Result<std::vector<DeadLetter>> ListDeadLetters(const Store& store, std::string_view queue) {
  LARDER_ASSIGN_OR_RETURN(const std::vector<StoredQueueItem> dead, FindDead(store, queue));
  std::vector<DeadLetter> letters;
  for (const StoredQueueItem& stored : dead) {
    // Of several copies the newest, which comes last.
    if (!letters.empty() && letters.back().item == stored.item) letters.pop_back();
    const QueueRecord& record = stored.record;
    letters.push_back(
        {stored.item, record.failures, record.priority, record.added_ms, record.last_error});
  }
  return letters;
}

Result<void> RequeueDeadLetter(Store& store, std::string_view queue, std::string_view item) {
  return ChangeDead(store, queue, item,
                    [&](Transaction& transaction, const StoredQueueItem& stored) {
                      QueueRecord record;
                      record.added_ms = stored.record.added_ms;
                      record.priority = stored.record.priority;
                      transaction.PutQueueItem(queue, stored.item, stored.generation, record);
                    });
}

Result<void> DropDeadLetter(Store& store, std::string_view queue, std::string_view item) {
  return ChangeDead(store, queue, item,
                    [&](Transaction& transaction, const StoredQueueItem& stored) {
                      transaction.DeleteQueueItem(queue, stored.item, stored.generation);
                    });
}

}  // namespace larder
