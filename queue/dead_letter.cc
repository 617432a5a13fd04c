#include "queue/dead_letter.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "storage/owner_request.h"

namespace larder {
namespace {

// An owner looks for requests every second.
constexpr std::chrono::seconds kPatience{10};

// An item with a live copy beside the dead one is not dead: work was added for it since. One whose
// record is damaged is not either: its queue will hand it out.
Result<std::vector<StoredQueueItem>> FindDead(const Store& store, std::string_view queue) {
  std::vector<StoredQueueItem> dead;
  std::string live;
  bool any_live = false;
  const auto alive = [&](const std::string& item) {
    live = item;
    any_live = true;
    while (!dead.empty() && dead.back().item == item) dead.pop_back();
  };
  LARDER_RETURN_IF_ERROR(store.ScanQueue(
      queue, {},
      [&](const StoredQueueItem& stored) {
        if (!stored.record.dead) {
          alive(stored.item);
        } else if (!any_live || live != stored.item) {
          dead.push_back(stored);
        }
        return true;
      },
      [&](const DamagedQueueItem& damaged) {
        if (damaged.item) alive(*damaged.item);
        return true;
      }));
  return dead;
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

Result<size_t> ChangeDeadLetters(Store& store, std::string_view queue, DeadLetterChange change,
                                 const std::vector<std::string>& items) {
  LARDER_ASSIGN_OR_RETURN(const std::vector<StoredQueueItem> dead, FindDead(store, queue));
  std::set<std::string_view> wanted(items.begin(), items.end());
  if (wanted.empty()) {
    for (const StoredQueueItem& stored : dead) wanted.insert(stored.item);
  }
  Transaction transaction = store.Begin();
  std::set<std::string_view> missing = wanted;
  for (const StoredQueueItem& stored : dead) {
    if (!wanted.contains(stored.item)) continue;
    missing.erase(stored.item);
    if (change == DeadLetterChange::kDrop) {
      transaction.DeleteQueueItem(queue, stored.item, stored.generation);
      continue;
    }
    QueueRecord record;
    record.added_ms = stored.record.added_ms;
    record.priority = stored.record.priority;
    transaction.PutQueueItem(queue, stored.item, stored.generation, record);
  }
  if (!missing.empty()) {
    return MakeError(ErrorCode::kNotFound, "queue {}: no dead letter {}", queue, *missing.begin());
  }
  if (!transaction.Empty()) {
    LARDER_RETURN_IF_ERROR(store.Commit(std::move(transaction), Durability::kSync));
  }
  return wanted.size();
}

Result<size_t> AskToChangeDeadLetters(const std::string& store_path, const std::string& queue,
                                      DeadLetterChange change,
                                      const std::vector<std::string>& items,
                                      const std::stop_token& stop) {
  const Json request = {{"requeue", change == DeadLetterChange::kRequeue}, {"items", items}};
  LARDER_ASSIGN_OR_RETURN(
      const std::string answer,
      AskOwner(store_path, internal::DeadLetterRequestName(queue),
               request.dump(-1, ' ', false, Json::error_handler_t::replace), stop, kPatience));
  size_t count = 0;
  std::from_chars(answer.data(), answer.data() + answer.size(), count);
  return count;
}

namespace internal {

std::string DeadLetterRequestName(const std::string& queue) { return "queue " + queue; }

Result<std::string> AnswerDeadLetterRequest(
    const std::string& request, const std::vector<DeadLetter>& letters,
    const std::function<Result<void>(DeadLetterChange, const std::string& item)>& apply) {
  const Json json = Json::parse(request, nullptr, false);
  if (!json.is_object() || !json.contains("requeue") || !json["requeue"].is_boolean() ||
      !json.contains("items") || !json["items"].is_array()) {
    return MakeError(ErrorCode::kInvalidArgument, "no request for dead letters: {}", request);
  }
  const auto change =
      json["requeue"].get<bool>() ? DeadLetterChange::kRequeue : DeadLetterChange::kDrop;
  std::vector<std::string> items;
  for (const Json& item : json["items"]) {
    if (item.is_string()) items.push_back(item.get<std::string>());
  }
  const bool all = items.empty();
  if (all) {
    for (const DeadLetter& letter : letters) items.push_back(letter.item);
  }
  size_t changed = 0;
  for (const std::string& item : items) {
    const Result<void> applied = apply(change, item);
    // Of all, one may have come back to work since they were listed.
    if (!applied && all && applied.error().code == ErrorCode::kNotFound) continue;
    LARDER_RETURN_IF_ERROR(applied);
    ++changed;
  }
  return std::to_string(changed);
}

}  // namespace internal

}  // namespace larder
