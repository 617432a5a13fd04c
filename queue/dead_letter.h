// Dead letters of a queue that nobody has open: for tools that work on a store.
//
// While a process has the queue open, use WorkQueue::DeadLetters, Requeue and Drop there. Each
// change is one synced commit. Errors: kNotFound, or what the store says.
//
//   for (const DeadLetter& letter : *ListDeadLetters(*store, "pods")) Print(letter);
//   LARDER_RETURN_IF_ERROR(RequeueDeadLetter(*store, "pods", "default/a"));
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "queue/work_queue.h"
#include "storage/store.h"

namespace larder {

Result<std::vector<DeadLetter>> ListDeadLetters(const Store& store, std::string_view queue);
// Back to work at the next start, with no failures.
Result<void> RequeueDeadLetter(Store& store, std::string_view queue, std::string_view item);
Result<void> DropDeadLetter(Store& store, std::string_view queue, std::string_view item);

}  // namespace larder
