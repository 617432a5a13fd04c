// A collection is one stream of objects: everything that decides what the stream contains.
//
// Its fingerprint keys all that is stored for it. Same fingerprint: shared and resumed. Any part
// changed: another collection, synced anew. Resuming a version with another selector would be a
// silently wrong cache, so it is impossible by construction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/resource.h"
#include "schema/witness.h"

namespace larder {

// Assigned by the store when a collection is first opened, never reused within a store.
using CollectionId = uint32_t;

struct CollectionSpec {
  std::string cluster_uid;  // the UID of the namespace kube-system
  Resource resource;
  std::string ns;              // empty: all namespaces
  std::string label_selector;  // canonical text (LabelSelector::ToString)
  std::string field_selector;
  std::string projection;  // "": full objects; "metadata": PartialObjectMetadata; or chosen paths
  std::string transform;   // name and version of what is applied before storing
  std::string shard;       // shardSelector

  // 32 hex digits over all of the above.
  std::string Fingerprint() const;
  // "pods", "pods in x, app=web": for messages.
  std::string ToString() const;
};

enum class SyncState : uint8_t {
  kEmpty = 0,      // nothing stored yet
  kListing = 1,    // a first list is under way; what is stored is a part
  kSynced = 2,     // complete up to the cursor
  kRelisting = 3,  // was complete; a differential relist is under way
};
std::string_view ToString(SyncState state);

// How far a collection is. Committed together with the objects it covers.
struct Cursor {
  std::string resource_version;  // watch from here; empty before the first sync
  SyncState state = SyncState::kEmpty;
  uint64_t epoch = 0;                // counts lists
  int64_t updated_ms = 0;            // wall clock of the commit
  std::optional<Witness> witness{};  // the newest change up to here, where one is known

  // Was the collection complete at least once, so that it may be served?
  bool Complete() const { return state == SyncState::kSynced || state == SyncState::kRelisting; }
};

struct CollectionInfo {
  CollectionId id = 0;
  CollectionSpec spec;
  Cursor cursor;
  int64_t last_opened_ms = 0;
  // Its rows are encrypted, whatever a program that opens the store later asks for.
  bool encrypted = false;
};

}  // namespace larder
