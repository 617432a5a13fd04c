// Dead letters, for tools that work on a store: of a queue that nobody has open, and of one that
// another process has open, which is then asked to do it.
//
// Within the process that has the queue, use WorkQueue::DeadLetters, Requeue and Drop. Errors:
// kNotFound, or what the store says.
//
//   for (const DeadLetter& letter : *ListDeadLetters(*store, "pods")) Print(letter);
//   LARDER_RETURN_IF_ERROR(
//       ChangeDeadLetters(*store, "pods", DeadLetterChange::kRequeue, {"default/a"}));
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "queue/work_queue.h"
#include "storage/store.h"

namespace larder {

Result<std::vector<DeadLetter>> ListDeadLetters(const Store& store, std::string_view queue);
enum class DeadLetterChange {
  kRequeue,  // back to work at the next start, with its priority and no failures
  kDrop,
};
// Changes all of these in one synced commit. No items: every dead letter of the queue. Returns how
// many; kNotFound: one of them is no dead letter, and nothing was changed.
Result<size_t> ChangeDeadLetters(Store& store, std::string_view queue, DeadLetterChange change,
                                 const std::vector<std::string>& items = {});

// Where another process owns the store: that one does it, at once, and answers when it is synced.
// No items: every dead letter of the queue. Returns how many; kNotFound where it has no such queue
// open or no such dead letter.
Result<size_t> AskToChangeDeadLetters(const std::string& store_path, const std::string& queue,
                                      DeadLetterChange change,
                                      const std::vector<std::string>& items,
                                      const std::stop_token& stop = {});

namespace internal {
// Under which name a queue is asked, and what it says.
std::string DeadLetterRequestName(const std::string& queue);
Result<std::string> AnswerDeadLetterRequest(
    const std::string& request, const std::vector<DeadLetter>& letters,
    const std::function<Result<void>(DeadLetterChange, const std::string& item)>& apply);
}  // namespace internal

}  // namespace larder
