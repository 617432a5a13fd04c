#include "tools/follower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "schema/key_order.h"

namespace larder::tools {
namespace {

struct Head {
  ObjectKey key;
  ObjectHead head;
};

Result<std::map<CollectionId, CollectionInfo>> CollectionsOf(const Store& store) {
  std::map<CollectionId, CollectionInfo> out;
  LARDER_ASSIGN_OR_RETURN(auto collections, store.Collections());
  for (CollectionInfo& info : collections) out.emplace(info.id, std::move(info));
  return out;
}

bool SameCursor(const Cursor& a, const Cursor& b) {
  return a.resource_version == b.resource_version && a.state == b.state && a.epoch == b.epoch &&
         a.updated_ms == b.updated_ms;
}

// Is everything between them a watch's work? No watch goes back: that is an older store, which was
// put in the place of this one.
bool Continues(const Cursor& before, const Cursor& now) {
  return before.state == SyncState::kSynced && now.state == SyncState::kSynced &&
         before.epoch == now.epoch &&
         CompareResourceVersions(before.resource_version, now.resource_version).value_or(0) <= 0;
}

bool IsToldBefore(const FollowedChange& a, const FollowedChange& b) {
  const int order = CompareResourceVersions(a.version, b.version).value_or(0);
  return order != 0 ? order < 0 : !a.now && b.now;
}

// Two states of a store, and how many changes between them may be held.
struct Span {
  const Store& before;
  const Store& now;
  const StoreFollower::Limits& limits;
};

// Takes the changes of keys from the front, as many as may be held.
Result<std::vector<FollowedChange>> TakeChanges(const Span& span, const CollectionInfo& info,
                                                std::span<const KeyDifference>& keys) {
  std::vector<FollowedChange> out;
  for (size_t bytes = 0;
       !keys.empty() && out.size() < span.limits.changes && bytes < span.limits.bytes;
       keys = keys.subspan(1)) {
    const KeyDifference& difference = keys.front();
    FollowedChange change;
    if (difference.before) {
      LARDER_ASSIGN_OR_RETURN(change.before, span.before.Get(info.id, difference.key));
    }
    if (difference.now) {
      LARDER_ASSIGN_OR_RETURN(change.now, span.now.Get(info.id, difference.key));
    }
    bytes += change.ByteSize();
    change.version =
        change.now ? std::string(change.now->resource_version()) : info.cursor.resource_version;
    const bool recreated = change.before && change.now && change.before->uid() != change.now->uid();
    if (recreated) {
      // The old one went first; nobody knows when, but it was before the new one came.
      out.push_back({std::move(change.before), nullptr, change.version});
      change.before = nullptr;
    }
    out.push_back(std::move(change));
  }
  std::stable_sort(out.begin(), out.end(), IsToldBefore);
  return out;
}

// A turn of a collection, and what of it is still to be read.
struct Report {
  FollowedTurn turn;
  std::vector<KeyDifference> keys{};
};

// Nothing: it did not move.
Result<std::optional<Report>> ReportOf(const Span& span, const CollectionInfo* before,
                                       const CollectionInfo& now) {
  const bool moved = !before || !SameCursor(before->cursor, now.cursor);
  Report out{{now, !before || !Continues(before->cursor, now.cursor)}};
  // Only a list goes on under a cursor that stands still.
  if (!moved && !(out.turn.broken && span.limits.compare_breaks)) return std::optional<Report>();
  if (out.turn.broken && !span.limits.compare_breaks) return out;
  LARDER_ASSIGN_OR_RETURN(out.keys, CompareHeads(span.before, now.id, span.now, now.id));
  if (out.turn.broken) return moved || !out.keys.empty() ? std::optional(out) : std::nullopt;
  std::span<const KeyDifference> rest(out.keys);
  if (rest.size() <= span.limits.changes) {
    LARDER_ASSIGN_OR_RETURN(out.turn.changes, TakeChanges(span, now, rest));
    if (rest.empty()) {
      out.keys.clear();
      return out;
    }
    out.turn.changes.clear();
  }
  out.turn.broken = true;
  if (!span.limits.compare_breaks) out.keys.clear();
  return out;
}

FollowedTurn UnreadTurn(const CollectionInfo& info, const Error& problem) {
  return {info, /*broken=*/true, {}, /*gone=*/false, problem};
}

Result<std::vector<Report>> ReportsOf(const Span& span) {
  LARDER_ASSIGN_OR_RETURN(const auto before, CollectionsOf(span.before));
  LARDER_ASSIGN_OR_RETURN(const auto now, CollectionsOf(span.now));
  const auto& chosen = span.limits.resources;
  const auto wanted = [&](const CollectionInfo& info) {
    return chosen.empty() ||
           std::find(chosen.begin(), chosen.end(), info.spec.resource.ToString()) != chosen.end();
  };
  std::vector<Report> reports;
  for (const auto& [id, info] : before) {
    if (wanted(info) && !now.contains(id)) {
      reports.push_back({{info, /*broken=*/true, {}, /*gone=*/true}});
    }
  }
  for (const auto& [id, info] : now) {
    if (!wanted(info)) continue;
    const auto known = before.find(id);
    auto report = ReportOf(span, known == before.end() ? nullptr : &known->second, info);
    if (!report) {
      reports.push_back({UnreadTurn(info, report.error())});
    } else if (*report) {
      reports.push_back(**std::move(report));
    }
  }
  return reports;
}

}  // namespace

Result<std::vector<KeyDifference>> CompareHeads(const Store& first, CollectionId in_first,
                                                const Store& second, CollectionId in_second) {
  std::vector<Head> heads;
  LARDER_RETURN_IF_ERROR(
      first.ScanHeads(in_first, {}, [&](const ObjectKey& key, const ObjectHead& head) {
        heads.push_back({key, head});
        return true;
      }));
  std::vector<KeyDifference> out;
  size_t at = 0;
  LARDER_RETURN_IF_ERROR(
      second.ScanHeads(in_second, {}, [&](const ObjectKey& key, const ObjectHead& head) {
        while (at < heads.size() && ComesBefore(heads[at].key, key)) {
          out.push_back({heads[at++].key, true, false});
        }
        if (at == heads.size() || heads[at].key != key) {
          out.push_back({key, false, true});
          return true;
        }
        const ObjectHead& old = heads[at++].head;
        if (old.uid != head.uid || old.resource_version != head.resource_version) {
          out.push_back({key, true, true});
        }
        return true;
      }));
  for (; at < heads.size(); ++at) out.push_back({heads[at].key, true, false});
  return out;
}

Result<std::unique_ptr<StoreFollower>> StoreFollower::Open(const StoreArguments& arguments) {
  std::unique_ptr<StoreFollower> follower(new StoreFollower());
  for (Side& side : follower->sides_) {
    LARDER_ASSIGN_OR_RETURN(side.store, OpenReader(arguments, Store::Reading::kFollowing));
  }
  return follower;
}

size_t FollowedChange::ByteSize() const {
  return (before ? before->ByteSize() : 0) + (now ? now->ByteSize() : 0);
}

Result<bool> StoreFollower::Advance(const Limits& limits, const Sink& sink) {
  size_t current = 0;
  {
    ReaderLock turn(turn_mutex_);
    current = current_;
  }
  Side& old_side = sides_[current];
  Side& new_side = sides_[1 - current];
  {
    // Nobody new can come: readers take the current side. Those who are left finish first.
    WriterLock lock(new_side.mutex);
    LARDER_RETURN_IF_ERROR(new_side.store->CatchUp());
  }
  const Span span{*old_side.store, *new_side.store, limits};
  LARDER_ASSIGN_OR_RETURN(auto reports, ReportsOf(span));
  if (reports.empty()) return false;
  {
    WriterLock turn(turn_mutex_);
    current_ = 1 - current;
  }
  for (Report& report : reports) {
    const CollectionInfo info = report.turn.collection;
    const bool broken = report.turn.broken;
    if (report.keys.empty()) sink(std::move(report.turn));
    for (std::span<const KeyDifference> rest(report.keys); !rest.empty();) {
      auto changes = TakeChanges(span, info, rest);
      if (!changes) {
        sink(UnreadTurn(info, changes.error()));
        break;
      }
      sink({info, broken, *std::move(changes)});
    }
  }
  return true;
}

}  // namespace larder::tools
