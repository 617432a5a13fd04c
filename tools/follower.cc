#include "tools/follower.h"

#include <algorithm>
#include <map>

namespace larder::tools {
namespace {

struct Head {
  ObjectKey key;
  ObjectHead head;
};

// As the store orders keys.
bool ComesBefore(const ObjectKey& a, const ObjectKey& b) {
  return a.ns == b.ns ? a.name < b.name : a.ns + "/" < b.ns + "/";
}

Result<std::map<CollectionId, CollectionInfo>> CollectionsOf(const Store& store) {
  std::map<CollectionId, CollectionInfo> out;
  LARDER_ASSIGN_OR_RETURN(auto collections, store.Collections());
  for (CollectionInfo& info : collections) out.emplace(info.id, std::move(info));
  return out;
}

Result<std::vector<FollowedChange>> ChangesOf(const Store& before, const Store& now,
                                              const CollectionInfo& info) {
  LARDER_ASSIGN_OR_RETURN(const auto keys, CompareHeads(before, info.id, now, info.id));
  std::vector<FollowedChange> out;
  for (const KeyDifference& difference : keys) {
    FollowedChange change;
    if (difference.before) {
      LARDER_ASSIGN_OR_RETURN(change.before, before.Get(info.id, difference.key));
    }
    if (difference.now) {
      LARDER_ASSIGN_OR_RETURN(change.now, now.Get(info.id, difference.key));
    }
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
  std::stable_sort(out.begin(), out.end(), [](const FollowedChange& a, const FollowedChange& b) {
    return CompareResourceVersions(a.version, b.version).value_or(0) < 0;
  });
  return out;
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

Result<bool> StoreFollower::Advance(const Sink& sink) {
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
  LARDER_ASSIGN_OR_RETURN(const auto before, CollectionsOf(*old_side.store));
  LARDER_ASSIGN_OR_RETURN(const auto now, CollectionsOf(*new_side.store));
  std::vector<std::pair<CollectionInfo, std::vector<FollowedChange>>> reports;
  for (const auto& [id, info] : now) {
    const auto known = before.find(id);
    const bool same = known != before.end() &&
                      known->second.cursor.resource_version == info.cursor.resource_version &&
                      known->second.cursor.state == info.cursor.state &&
                      known->second.cursor.updated_ms == info.cursor.updated_ms;
    if (same) continue;
    LARDER_ASSIGN_OR_RETURN(auto changes, ChangesOf(*old_side.store, *new_side.store, info));
    reports.emplace_back(info, std::move(changes));
  }
  if (reports.empty()) return false;
  {
    WriterLock turn(turn_mutex_);
    current_ = 1 - current;
  }
  for (auto& [info, changes] : reports) sink(info, std::move(changes));
  return true;
}

}  // namespace larder::tools
