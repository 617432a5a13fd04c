#include "tests/simulation/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/maintenance.h"

namespace larder::simulation {
namespace {

// As worker and handler name the pod.
std::string KeyOf(const std::string& name) { return "x/" + name; }

}  // namespace

std::string StateText(std::string_view uid, std::string_view version) {
  return fmt::format("{}@{}", uid, version);
}

Result<State> StoredPods(Indexer& indexer) {
  static const FieldPath phase_path = *FieldPath::Parse("status.phase");
  State state;
  LARDER_RETURN_IF_ERROR(indexer.ForEach({}, [&](const ObjectPtr& object) {
    TestPod pod;
    pod.name = object->name();
    pod.uid = object->uid();
    pod.version = object->resource_version();
    if (const auto phase = phase_path.Value(*object)) {
      pod.extra = fmt::format(R"(,"status":{{"phase":"{}"}})", *phase);
    }
    state[pod.name] = pod;
    return true;
  }));
  return state;
}

Result<std::set<std::string>> PendingKeys(const OpenParts& parts) {
  std::set<std::string> keys;
  LARDER_RETURN_IF_ERROR(parts.store->ScanDeltas(parts.indexer->collection().id, parts.handler, {},
                                                 [&](const ObjectKey& key, std::string_view) {
                                                   keys.insert(key.ToString());
                                                   return true;
                                                 }));
  return keys;
}

bool IsWorkLeft(const WorkQueue& queue) {
  const auto items = queue.Items();
  return std::any_of(items.begin(), items.end(), [](const QueueItemInfo& item) {
    return item.in_process || item.pending != PendingPhase::kDead;
  });
}

bool Judge::Fail(std::string_view what, const Error& error) {
  ExpectThat(false, fmt::format("{}: {}", what, error.ToString()));
  return false;
}

void Judge::Check(const OpenParts& parts) {
  CheckSound(parts);
  const Result<State> stored = StoredPods(*parts.indexer);
  if (!stored) {
    Fail("objects", stored.error());
    return;
  }
  for (const auto& [name, pod] : *stored) world_.trace(PodJson(pod));
  CheckPrefix(parts, *stored);
  CheckWork(parts, *stored);
  CheckHandler(parts, *stored);
}

void Judge::CheckCaughtUp(const OpenParts& parts) {
  const Result<State> stored = StoredPods(*parts.indexer);
  ExpectThat(stored && Texts(*stored) == Texts(world_.Now()),
             "a calm cluster was not caught up with");
  ExpectThat(!IsWorkLeft(*parts.queue), "work is left");
}

// All that is stored verifies, indexes recomputed.
void Judge::CheckSound(const OpenParts& parts) {
  const auto report = Verify(*parts.store);
  if (!report) {
    Fail("verify", report.error());
    return;
  }
  for (const Problem& problem : report->problems) {
    ExpectThat(false, fmt::format("{} {}: {}", problem.family, problem.key, problem.message));
  }
}

// A store that says it is complete is what the cluster was at its cursor.
void Judge::CheckPrefix(const OpenParts& parts, const State& stored) {
  const auto cursor = parts.store->GetCursor(parts.indexer->collection().id);
  if (!cursor) {
    Fail("cursor", cursor.error());
    return;
  }
  if (cursor->state != SyncState::kSynced) return;
  const uint64_t version = std::stoull(cursor->resource_version);
  ExpectThat(world_.WasEver(version, stored),
             fmt::format("the store is not what the cluster was at its cursor {}: {}", version,
                         world_.Difference(version, stored)));
}

// A key whose stored state the worker has not seen is pending.
void Judge::CheckWork(const OpenParts& parts, const State& stored) {
  std::set<std::string> pending;
  const auto queued = parts.queue->Items();
  for (const auto& item : queued) {
    pending.insert(item.item);
    world_.trace(fmt::format("{} {} {} {}", item.item, item.not_before_ms, item.failures,
                             static_cast<int>(item.pending)));
  }
  ExpectNothing(journal_.Check(queued));
  for (const auto& [name, pod] : stored) {
    const std::string key = KeyOf(name);
    ExpectThat(journal_.keys[key].states.count(StateText(pod.uid, pod.version)) != 0 ||
                   pending.count(key) != 0,
               fmt::format("{} at {} is neither worked on nor pending", key, pod.version));
  }
  std::set<std::string> there;
  for (const auto& [name, pod] : stored) there.insert(KeyOf(name));
  for (auto& [key, seen] : journal_.keys) {
    if (there.count(key) != 0 || pending.count(key) != 0) continue;
    if (journal_.power_lost) seen.uid.clear();
    ExpectThat(seen.uid.empty() || seen.gone.count(seen.uid) != 0,
               fmt::format("nobody will hear that {} is gone", key));
  }
  journal_.power_lost = false;
}

void Judge::CheckHandler(const OpenParts& parts, const State& stored) {
  Deliveries::States states;
  for (const auto& [name, pod] : stored) states[KeyOf(name)] = StateText(pod.uid, pod.version);
  const auto rows = PendingKeys(parts);
  if (!rows) {
    Fail("rows", rows.error());
    return;
  }
  for (const std::string& row : *rows) world_.trace(row);
  ExpectNothing(deliveries_.Check(states, *rows));
}

}  // namespace larder::simulation
