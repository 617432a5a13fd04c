#include "controller/resyncer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>

#include "base/thread_name.h"

namespace larder::internal {
namespace {

using std::chrono::milliseconds;

// After a failure, and the longest sleep: a clock that was set is noticed.
constexpr std::chrono::minutes kRetry{1};

std::string NoteName(const Controller& controller) {
  return "controller/" + controller.name() + "/resynced";
}

std::string Millis(Clock::Wall time) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count());
}

Result<void> WriteNote(Store& store, const Controller& controller, Clock::Wall time) {
  Transaction transaction = store.Begin();
  transaction.PutNote(NoteName(controller), Millis(time));
  return store.Commit(std::move(transaction), Durability::kRelaxed);
}

}  // namespace

void Resyncer::Start() {
  if (entries_.empty()) return;
  {
    MutexLock lock(mutex_);
    alive_ = true;
  }
  thread_ = std::jthread([this](const std::stop_token& stop) {
    NameThread("larder-resync");
    Work(stop);
    MutexLock lock(mutex_);
    alive_ = false;
    idle_.notify_all();
  });
}

void Resyncer::Work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Clock::Wall next = RunDue(stop);
    const auto pause =
        std::clamp<Clock::Wall::duration>(next - clock_->WallNow(), milliseconds(10), kRetry);
    if (!clock_->SleepFor(pause, stop)) return;
  }
}

bool Resyncer::WaitUntilIdle(Clock::Steady deadline) {
  MutexLock lock(mutex_);
  while (alive_) {
    if (clock_->Now() >= deadline) return false;
    clock_->WaitUntil(mutex_, idle_, deadline, {});
  }
  return true;
}

void Resyncer::Stop() {
  BeginStop();
  if (thread_.joinable()) thread_.join();
}

Result<Clock::Wall> Resyncer::LastRun(const Entry& entry) {
  const Clock::Wall now = clock_->WallNow();
  // One that cannot be read is not written over: it still says when.
  LARDER_ASSIGN_OR_RETURN(const auto note, store_->GetNote(NoteName(*entry.controller)));
  int64_t millis = 0;
  if (note) {
    const std::string& text = *note;
    std::from_chars(text.data(), text.data() + text.size(), millis);
    const Clock::Wall last{milliseconds(millis)};
    if (millis > 0 && last <= now) return last;
  }
  // The first start queues all keys anyway: the period begins now.
  LARDER_RETURN_IF_ERROR(WriteNote(*store_, *entry.controller, now));
  return now;
}

Result<void> Resyncer::Resync(const Entry& entry, const std::stop_token& stop) {
  const EnqueueFunction function =
      MakeEnqueueFunction(entry.controller->name(), Itself(), entry.predicates,
                          entry.controller->definition().options.initial_priority);
  WorkQueue& queue = entry.controller->queue();
  Result<void> outcome;
  for (SharedInformer* informer : entry.informers) {
    LARDER_RETURN_IF_ERROR(informer->GetIndexer().ForEach({}, [&](const ObjectPtr& object) {
      function({ChangeType::kAdded, nullptr, object, false, false},
               [&](std::string_view key, int32_t priority) {
                 // Synced, where they are to be, all together.
                 AddOptions options;
                 options.priority = priority;
                 options.durability = Durability::kRelaxed;
                 if (auto added = queue.AddWithOptions(key, options); !added) outcome = added;
               });
      return outcome.has_value() && !stop.stop_requested();
    }));
    if (!outcome || stop.stop_requested()) break;
  }
  LARDER_RETURN_IF_ERROR(outcome);
  if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
  // The items first: a crash between the two only repeats them.
  LARDER_RETURN_IF_ERROR(queue.Flush(queue.durability()));
  return WriteNote(*store_, *entry.controller, clock_->WallNow());
}

Result<Clock::Wall> Resyncer::RunIfDue(const Entry& entry, const std::stop_token& stop) {
  const auto period = std::chrono::duration_cast<Clock::Wall::duration>(entry.period);
  LARDER_ASSIGN_OR_RETURN(Clock::Wall last, LastRun(entry));
  if (Clock::After(last, period) > clock_->WallNow()) return Clock::After(last, period);
  LARDER_RETURN_IF_ERROR(Resync(entry, stop));
  LARDER_ASSIGN_OR_RETURN(last, LastRun(entry));
  return Clock::After(last, period);
}

Clock::Wall Resyncer::RunDue(const std::stop_token& stop) {
  Clock::Wall next = Clock::Wall::max();
  for (const Entry& entry : entries_) {
    if (stop.stop_requested()) break;
    const Result<Clock::Wall> due = RunIfDue(entry, stop);
    if (!due && !stop.stop_requested()) {
      spdlog::warn("resync failed: {} controller={}", due.error().ToString(),
                   entry.controller->name());
    }
    // Not at once: a disk that is full would be asked for ever, and every key queued each time.
    next = std::min(next, due ? *due : Clock::After(clock_->WallNow(), kRetry));
  }
  return next;
}

}  // namespace larder::internal
