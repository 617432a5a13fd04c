#include "controller/resyncer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>

#include "base/thread_name.h"

namespace larder::internal {
namespace {

using std::chrono::milliseconds;

std::string NoteName(const Controller& controller) {
  return "controller/" + controller.name() + "/resynced";
}

std::string Millis(Clock::Wall time) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count());
}

// Never where that is later than the calendar goes.
Clock::Wall After(Clock::Wall time, Clock::Wall::duration period) {
  return period > Clock::Wall::max() - time ? Clock::Wall::max() : time + period;
}

Result<void> WriteNote(Store& store, const Controller& controller, Clock::Wall time) {
  Transaction transaction = store.Begin();
  transaction.PutNote(NoteName(controller), Millis(time));
  return store.Commit(std::move(transaction), Durability::kRelaxed);
}

}  // namespace

void Resyncer::Start() {
  if (entries_.empty()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    NameThread("larder-resync");
    while (!stop.stop_requested()) {
      const Clock::Wall next = RunDue(stop);
      // A failed one is tried again after a while, and a clock that was set is noticed.
      const auto pause = std::clamp<Clock::Wall::duration>(
          next - clock_->WallNow(), milliseconds(10), std::chrono::minutes(1));
      if (!clock_->SleepFor(pause, stop)) return;
    }
  });
}

void Resyncer::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

Clock::Wall Resyncer::LastRun(const Entry& entry) {
  const Clock::Wall now = clock_->WallNow();
  const auto note = store_->GetNote(NoteName(*entry.controller));
  int64_t millis = 0;
  if (note && *note) {
    const std::string& text = **note;
    std::from_chars(text.data(), text.data() + text.size(), millis);
    const Clock::Wall last{milliseconds(millis)};
    if (millis > 0 && last <= now) return last;
  }
  // The first start queues all keys anyway: the period begins now.
  if (auto written = WriteNote(*store_, *entry.controller, now); !written) {
    spdlog::warn("{}: {}", NoteName(*entry.controller), written.error().ToString());
  }
  return now;
}

Result<void> Resyncer::Resync(const Entry& entry, const std::stop_token& stop) {
  const EnqueueFunction function =
      MakeEnqueueFunction(entry.controller->name(), Itself(), entry.predicates,
                          entry.controller->definition().options.initial_priority);
  WorkQueue& queue = entry.controller->queue();
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(entry.informer->GetIndexer().ForEach({}, [&](const ObjectPtr& object) {
    function({ChangeType::kAdded, nullptr, object, false, false},
             [&](std::string_view key, int32_t priority) {
               if (auto added = queue.AddWithPriority(key, priority); !added) outcome = added;
             });
    return outcome.has_value() && !stop.stop_requested();
  }));
  LARDER_RETURN_IF_ERROR(outcome);
  if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped");
  return WriteNote(*store_, *entry.controller, clock_->WallNow());
}

Clock::Wall Resyncer::RunDue(const std::stop_token& stop) {
  Clock::Wall next = Clock::Wall::max();
  for (const Entry& entry : entries_) {
    if (stop.stop_requested()) break;
    const auto period = std::chrono::duration_cast<Clock::Wall::duration>(entry.period);
    Clock::Wall due = After(LastRun(entry), period);
    if (due <= clock_->WallNow()) {
      if (auto done = Resync(entry, stop); !done && !stop.stop_requested()) {
        spdlog::warn("resync failed: {} controller={}", done.error().ToString(),
                     entry.controller->name());
      }
      due = After(LastRun(entry), period);
    }
    next = std::min(next, due);
  }
  return next;
}

}  // namespace larder::internal
