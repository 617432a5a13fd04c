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

std::string ResyncedNote(const Controller& controller) {
  return "controller/" + controller.name() + "/resynced";
}

std::string LedNote(const Controller& controller) {
  return "controller/" + controller.name() + "/led";
}

std::string TextOf(const Leadership& leadership) {
  return fmt::format("{} {}", leadership.lease_uid, leadership.transitions);
}

std::string Millis(Clock::Wall time) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count());
}

Result<void> WriteNote(Store& store, const std::string& name, const std::string& value) {
  Transaction transaction = store.Begin();
  transaction.PutNote(name, value);
  return store.Commit(std::move(transaction), Durability::kRelaxed);
}

}  // namespace

void Resyncer::Start(std::optional<Leadership> leadership) {
  if (entries_.empty()) return;
  leadership_ = std::move(leadership);
  for (const Entry& entry : entries_) {
    if (auto noted = NoteFirstTurn(entry); !noted) {
      spdlog::warn("the first turn is not stored: {} controller={}", noted.error().ToString(),
                   entry.controller->name());
    }
  }
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
    if (next == Clock::Wall::max()) return;
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
  LARDER_ASSIGN_OR_RETURN(const auto note, store_->GetNote(ResyncedNote(*entry.controller)));
  int64_t millis = 0;
  if (note) {
    const std::string& text = *note;
    std::from_chars(text.data(), text.data() + text.size(), millis);
    const Clock::Wall last{milliseconds(millis)};
    if (millis > 0 && last <= now) return last;
  }
  // The first start queues all keys anyway: the period begins now.
  LARDER_RETURN_IF_ERROR(WriteNote(*store_, ResyncedNote(*entry.controller), Millis(now)));
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
  return WriteNote(*store_, ResyncedNote(*entry.controller), Millis(clock_->WallNow()));
}

Result<void> Resyncer::NoteFirstTurn(const Entry& entry) {
  if (!leadership_) return {};
  const Controller& controller = *entry.controller;
  // One that worked here before there were such notes, or without a lease, has the other one.
  for (const std::string& name : {LedNote(controller), ResyncedNote(controller)}) {
    LARDER_ASSIGN_OR_RETURN(const auto note, store_->GetNote(name));
    if (note) return {};
  }
  return WriteNote(*store_, LedNote(controller), TextOf(*leadership_));
}

Result<void> Resyncer::CatchUp(const Entry& entry, const std::stop_token& stop) {
  if (!leadership_) return {};
  const Controller& controller = *entry.controller;
  LARDER_ASSIGN_OR_RETURN(const auto led, store_->GetNote(LedNote(controller)));
  const std::string now = TextOf(*leadership_);
  if (led == now) return {};
  const Leadership before{leadership_->lease_uid, leadership_->transitions - 1};
  if (led != TextOf(before)) {
    spdlog::info("another one led meanwhile: every key again controller={}", controller.name());
    LARDER_RETURN_IF_ERROR(Resync(entry, stop));
  }
  return WriteNote(*store_, LedNote(controller), now);
}

Result<Clock::Wall> Resyncer::RunIfDue(const Entry& entry, const std::stop_token& stop) {
  LARDER_RETURN_IF_ERROR(CatchUp(entry, stop));
  if (entry.period.count() <= 0) return Clock::Wall::max();
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
