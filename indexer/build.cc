// Building an index over a collection that has objects already: in the background, in chunks, while
// commits go on.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/thread_name.h"
#include "indexer/indexer.h"

namespace larder {
namespace {

// Objects indexed per commit of a build: commits of events wait no longer than this takes.
constexpr size_t kBuildChunk = 256;
// Before it is tried again. Damage waits for a repair, or for the object to change.
constexpr std::chrono::seconds kPause{1};
constexpr std::chrono::seconds kPauseAfterDamage{30};

}  // namespace

std::vector<Indexer::BuildProgress> Indexer::Progress() const {
  std::vector<BuildProgress> out;
  const IndexSetPtr set = Indexes();
  MutexLock lock(build_mutex_);
  for (const LiveIndexPtr& live : set->indexes()) {
    if (!live->declared) continue;
    const bool ready = live->Ready();
    out.push_back({live->definition.name(), ready, live->scanned.load(),
                   live->definition.exceptions(), ready ? std::nullopt : live->error});
  }
  return out;
}

bool Indexer::WaitUntilReady(std::chrono::milliseconds timeout) const {
  MutexLock lock(build_mutex_);
  return build_wake_.wait_for(build_mutex_, timeout, [this] {
    const IndexSetPtr set = Indexes();
    return std::none_of(set->indexes().begin(), set->indexes().end(),
                        [](const LiveIndexPtr& live) { return live->ToBuild(); });
  });
}

void Indexer::BuildLoop(const std::stop_token& stop) {
  NameThread("larder-index");
  for (;;) {
    LiveIndexPtr next;
    {
      MutexLock lock(build_mutex_);
      build_wake_.wait(build_mutex_, stop, [&] {
        const IndexSetPtr set = Indexes();
        for (const LiveIndexPtr& live : set->indexes()) {
          if (live->ToBuild()) next = live;
        }
        return next != nullptr;
      });
    }
    if (stop.stop_requested()) return;
    if (auto built = Build(next, stop); !built && !stop.stop_requested()) {
      spdlog::error("building index {} on {}: {}; trying again", next->definition.name(),
                    collection_.spec.ToString(), built.error().ToString());
      {
        MutexLock lock(build_mutex_);
        next->error = built.error();
      }
      const bool damage = built.error().code == ErrorCode::kCorruption;
      store_->options().clock->SleepFor(damage ? kPauseAfterDamage : kPause, stop);
    }
    MutexLock lock(build_mutex_);
    build_wake_.notify_all();
  }
}

Result<void> Indexer::Build(const LiveIndexPtr& index, const std::stop_token& stop) {
  for (bool more = true; more;) {
    if (stop.stop_requested()) return {};
    LARDER_ASSIGN_OR_RETURN(more, BuildChunk(*index));
  }
  Transaction transaction = store_->Begin();
  transaction.PutIndexRecord(collection_.id, {index->id, index->definition.name(),
                                              StoredDefinition(index->definition), true});
  LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
  // A view that has this moment was taken after the last key was written.
  index->ready_since.store(moment_.fetch_add(1) + 1);
  return {};
}

// Under the write lock, so that no commit changes an object between its reading here and the
// writing of its keys. What is committed from now on brings its own keys (Writer), so what is built
// stays right while the rest is tried again.
Result<bool> Indexer::BuildChunk(LiveIndex& index) {
  MutexLock write_lock(write_mutex_);
  Transaction transaction = store_->Begin();
  size_t in_chunk = 0;
  ObjectKey last = index.built_to;
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(
      store_->Scan(collection_.id, {}, index.built_to, [&](const ObjectPtr& object) {
        for (const std::string& value : index.definition.Values(*object)) {
          auto token = store_->IndexToken(collection_.id, value);
          if (!token) {
            outcome = tl::unexpected(token.error());
            return false;
          }
          transaction.PutIndexKey(collection_.id, index.id, *token, object->key(), object->uid());
        }
        last = object->key();
        return ++in_chunk < kBuildChunk;
      }));
  LARDER_RETURN_IF_ERROR(std::move(outcome));
  if (!transaction.Empty()) {
    LARDER_RETURN_IF_ERROR(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  index.built_to = std::move(last);
  index.scanned += in_chunk;
  return in_chunk == kBuildChunk;
}

}  // namespace larder
