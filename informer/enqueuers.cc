// The part of SharedInformer that fills work queues: changes as they are committed, what was kept
// while nobody of that name was there, and everything for a new name.
#include <spdlog/spdlog.h>

#include "informer/shared_informer.h"

namespace larder {
namespace {

constexpr size_t kRowsPerCommit = 256;
constexpr size_t kBytesPerCommit = size_t{4} << 20;  // of their objects

// No handler's name begins so.
constexpr std::string_view kPrefix = "~enqueuer/";

std::string EnqueuerName(const std::string& name) { return std::string(kPrefix) + name; }

// Calls the user's function; what it throws must not end the commit.
void CallEnqueue(const EnqueueFunction& function, const std::string& name,
                 const ObjectChange& change, const Enqueue& enqueue) {
  try {
    function(change, enqueue);
  } catch (const std::exception& error) {
    spdlog::error("enqueuer {} threw on {}: {}", name, change.current()->key().ToString(),
                  error.what());
  } catch (...) {
    spdlog::error("enqueuer {} threw on {}", name, change.current()->key().ToString());
  }
}

void StageItem(WorkQueue& queue, const std::string& name, Transaction& transaction,
               std::string_view item, int32_t priority, WorkQueue::Staged* staged) {
  if (auto done = queue.Stage(transaction, item, priority, staged); !done) {
    spdlog::error("enqueuer {}: not queued: {}", name, done.error().message);
  }
}

}  // namespace

Result<void> SharedInformer::AddEnqueuer(WorkQueue* queue, EnqueuerOptions options,
                                         EnqueueFunction function) {
  auto enqueuer = std::make_shared<Enqueuer>();
  enqueuer->queue = queue;
  enqueuer->options = std::move(options);
  enqueuer->function = std::move(function);
  const std::string name = EnqueuerName(enqueuer->options.name);
  if (queue == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument, "enqueuer {} has no queue",
                     enqueuer->options.name);
  }
  bool initial_due = false;
  bool known = false;
  {
    const auto writer = indexer_->BeginWrite();
    MutexLock lock(mutex_);
    for (const auto& other : enqueuers_) {
      if (other->options.name == enqueuer->options.name) {
        return MakeError(ErrorCode::kAlreadyExists, "there is an enqueuer named {} already",
                         enqueuer->options.name);
      }
    }
    const auto revision = names_->Revision(name);
    known = revision.has_value();
    initial_due = revision != enqueuer->options.revision || enqueuer->options.always_initial;
    enqueuer->initial_due = initial_due;
    absent_.erase(name);
    enqueuers_.push_back(enqueuer);
  }
  // From here on changes are enqueued by their own commits.
  // What was kept is due to a raised revision, too: it may be a delete.
  Result<void> outcome = known ? EnqueueKept(*enqueuer) : Result<void>();
  if (outcome && initial_due) outcome = EnqueueAll(*enqueuer);
  if (!outcome) ReleaseEnqueuer(enqueuer->options.name);
  return outcome;
}

void SharedInformer::ReleaseEnqueuer(const std::string& enqueuer) {
  const std::string name = EnqueuerName(enqueuer);
  const auto writer = indexer_->BeginWrite();
  MutexLock lock(mutex_);
  std::erase_if(enqueuers_, [&](const auto& one) { return one->options.name == enqueuer; });
  if (names_->Revision(name)) absent_.try_emplace(name, indexer_.get(), name);
}

std::vector<std::string> SharedInformer::AbsentEnqueuers() const {
  std::vector<std::string> names;
  MutexLock lock(mutex_);
  for (const auto& [name, kept] : absent_) {
    if (name.starts_with(kPrefix)) names.push_back(name.substr(kPrefix.size()));
  }
  return names;
}

Result<void> SharedInformer::ForgetEnqueuer(const std::string& name) {
  return ForgetHandler(EnqueuerName(name));
}

// What changed while nobody of this name was there, deletes included.
Result<void> SharedInformer::EnqueueKept(Enqueuer& enqueuer) {
  PendingDeltas kept(indexer_.get(), EnqueuerName(enqueuer.options.name));
  for (;;) {
    const auto writer = indexer_->BeginWrite();
    LARDER_ASSIGN_OR_RETURN(
        const auto rows, kept.Read(kept.BeginRead(*writer), {}, kRowsPerCommit, kBytesPerCommit));
    if (rows.empty()) return {};
    WorkQueue::Staged staged;
    const auto enqueue = [&](std::string_view item, int32_t priority) {
      StageItem(*enqueuer.queue, enqueuer.options.name, writer->transaction(), item, priority,
                &staged);
    };
    std::vector<PendingDeltas::Delivered> delivered;
    for (const PendingDeltas::Row& row : rows) {
      for (const ObjectChange& change : row.changes) {
        CallEnqueue(enqueuer.function, enqueuer.options.name, change, enqueue);
      }
      delivered.push_back(PendingDeltas::DeliveredOf(row));
    }
    LARDER_RETURN_IF_ERROR(kept.Acknowledge(*writer, delivered));
    LARDER_RETURN_IF_ERROR(writer->Commit(options_.durability));
    enqueuer.queue->Committed(std::move(staged));
  }
}

// Every object that is stored, once: for a new name, or one that always gets them. Changes that are
// committed meanwhile, and the rest of a first list, are enqueued by their own commits; an item
// that comes twice is one item.
Result<void> SharedInformer::EnqueueAll(Enqueuer& enqueuer) {
  LARDER_RETURN_IF_ERROR(
      PendingDeltas(indexer_.get(), EnqueuerName(enqueuer.options.name)).Clear());
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(indexer_->ForEach({}, [&](const ObjectPtr& object) {
    CallEnqueue(enqueuer.function, enqueuer.options.name,
                {ChangeType::kAdded, nullptr, object, true, false},
                [&](std::string_view item, int32_t) {
                  // Synced, where they are to be, all together.
                  AddOptions options;
                  options.priority = enqueuer.options.initial_priority;
                  options.durability = Durability::kRelaxed;
                  auto added = enqueuer.queue->AddWithOptions(item, options);
                  if (added) return;
                  // An item that is refused must not keep the others out.
                  if (added.error().code != ErrorCode::kInvalidArgument) {
                    outcome = added;
                    return;
                  }
                  spdlog::error("enqueuer {}: not queued: {}", enqueuer.options.name,
                                added.error().message);
                });
    return outcome.has_value();
  }));
  LARDER_RETURN_IF_ERROR(outcome);
  // The items first: a crash between the two only repeats them.
  LARDER_RETURN_IF_ERROR(enqueuer.queue->Flush(enqueuer.queue->durability()));
  {
    MutexLock lock(mutex_);
    enqueuer.enqueued = true;
  }
  if (!sync_->cursor().Complete()) return {};
  return RememberEnqueuer(enqueuer);
}

Result<void> SharedInformer::RememberEnqueuer(Enqueuer& enqueuer) {
  LARDER_RETURN_IF_ERROR(
      names_->Remember(EnqueuerName(enqueuer.options.name), enqueuer.options.revision));
  MutexLock lock(mutex_);
  enqueuer.initial_due = false;
  return {};
}

// Every object of the first list was enqueued within its own commit: the names are known from now
// on. One that cannot be written is tried again after the next commit.
void SharedInformer::RememberEnqueuers() {
  std::vector<std::shared_ptr<Enqueuer>> due;
  {
    MutexLock lock(mutex_);
    if (!listed_) return;
    for (const auto& enqueuer : enqueuers_) {
      if (enqueuer->initial_due && enqueuer->enqueued) due.push_back(enqueuer);
    }
  }
  for (const auto& enqueuer : due) {
    if (auto outcome = RememberEnqueuer(*enqueuer); !outcome) {
      spdlog::warn("{}: {}; it is tried again, and a restart before that enqueues everything",
                   enqueuer->options.name, outcome.error().ToString());
    }
  }
}

void SharedInformer::StageItems(Enqueuer& enqueuer, Indexer::Writer& writer,
                                const ObjectChange& change) {
  const auto enqueue = [&](std::string_view item, int32_t priority) {
    StageItem(*enqueuer.queue, enqueuer.options.name, writer.transaction(), item,
              change.in_initial_list ? enqueuer.options.initial_priority : priority,
              &enqueuer.staged);
  };
  CallEnqueue(enqueuer.function, enqueuer.options.name, change, enqueue);
}

}  // namespace larder
