// The indexes of a collection as they stand at one moment, evaluated together: all field paths in
// one pass over the document. Immutable; an added index makes a new set. Internal to indexer/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/index_definition.h"
#include "storage/store.h"

namespace larder {

// One index. `ready_since` is the moment of the collection (Indexer::View) from which on a snapshot
// has all its keys.
struct LiveIndex {
  static constexpr uint64_t kNotReady = UINT64_MAX;

  LiveIndex(IndexDefinition definition_in, IndexId id_in, bool ready, bool declared_in = true,
            bool other_key_in = false)
      : definition(std::move(definition_in)),
        id(id_in),
        declared(declared_in),
        other_key(other_key_in),
        ready_since(ready ? 0 : kNotReady) {}

  bool Ready() const { return ready_since.load() != kNotReady; }
  // A function that nobody gave has no values here: built by it, the index would be empty, and be
  // taken for ready by who has the function.
  bool ToBuild() const { return declared && definition.Computable() && !Ready(); }

  const IndexDefinition definition;
  const IndexId id;
  // By somebody of this process. Otherwise it is of an earlier run: kept in step, but not shown.
  const bool declared;
  // Its values are hashed with another key than ours: never ready.
  const bool other_key;
  std::atomic<uint64_t> ready_since;
  std::atomic<size_t> scanned{0};
  // The builder's: the keys of all objects up to this one are committed.
  ObjectKey built_to;
  // Of the last attempt to build it that failed. Under Indexer::build_mutex_.
  std::optional<Error> error;
};
using LiveIndexPtr = std::shared_ptr<LiveIndex>;

class IndexSet {
 public:
  explicit IndexSet(std::vector<LiveIndexPtr> indexes);

  const std::vector<LiveIndexPtr>& indexes() const { return indexes_; }
  LiveIndexPtr Find(std::string_view name) const;  // null: none of this name
  // The values of each index, in the order of indexes(); each sorted, without repetitions.
  std::vector<std::vector<std::string>> Values(const Object& object) const;

 private:
  std::vector<LiveIndexPtr> indexes_;
  std::vector<FieldPath> paths_;
  std::vector<size_t> path_owner_;  // which index each of paths_ belongs to
};
using IndexSetPtr = std::shared_ptr<const IndexSet>;

}  // namespace larder
