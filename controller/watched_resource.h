// Reads of one resource from the informers that watch it: one that has all of it, or several that
// each have a part (a namespace, what a selector matches). For CachedClient.
//
// What a read finds is never older than what any of these informers has told a queue: of several
// that could answer, the one that is furthest is asked. An informer whose first list is not
// complete answers nothing; one that resumes is complete from its opening on. One that has only
// metadata answers a read of metadata. A read of whole objects learns from it which objects there
// are, and that their rest is on the server.
//
// Thread-safe. Immutable: With makes a new one. Errors: kNotReady (retryable) names the collection
// that is not complete.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "indexer/lister.h"
#include "informer/scope.h"
#include "informer/shared_informer.h"

namespace larder::internal {

class WatchedResource {
 public:
  // Beside those of `others` (may be null); one that is there already is not added twice.
  // `reconciled`: a controller reconciles what it sees (For, Owns). kInvalidArgument: its selectors
  // cannot be read.
  static Result<std::shared_ptr<const WatchedResource>> With(const WatchedResource* others,
                                                             SharedInformer* informer,
                                                             bool reconciled);

  // Is anything of this namespace watched? Empty: of any.
  bool Serves(std::string_view ns) const { return !Fitting(ns).empty(); }
  // Is anything of this namespace watched as metadata only? `reconciled`: by a controller that
  // reconciles it.
  bool HasMetadataOnly(std::string_view ns, bool reconciled = false) const;
  // The object, where any of them has it. kNotFound: none has. nullopt: it is there, but only its
  // metadata is, and it was to be `whole`.
  Result<std::optional<ObjectPtr>> Get(const ObjectKey& key, bool whole) const;
  // From one that has all that the query asks for; else what all of them have, each object once.
  // nullopt: it is to be `whole`, and of some that may be asked for only metadata is watched.
  Result<std::optional<std::vector<ObjectPtr>>> List(const Query& query, bool whole) const;
  // The one that shows this object, if possible in full; else any of its namespace. Null: there is
  // none.
  SharedInformer* Showing(const Object& object) const;

 private:
  struct Source {
    SharedInformer* informer = nullptr;
    std::string ns;      // empty: all
    Scope scope;         // its selectors
    bool whole = false;  // all that its namespace has
    bool metadata_only = false;
    bool reconciled = false;
    std::atomic<bool> complete{false};

    bool IsComplete();
    Error NotReady() const;
    bool Covers(const Query& query) const;
    bool HasIndex(std::string_view name) const;
    // All objects that `other` has, and each in full.
    bool ShowsInFull(const Source& other) const;
  };
  using Sources = std::vector<std::shared_ptr<Source>>;

  Sources Fitting(std::string_view ns) const;
  static bool HasFull(const std::shared_ptr<Source>& source);
  // The furthest first.
  static void SortByProgress(Sources& sources);
  // Leaves those that have whole objects. False: the others have objects that these may not have.
  static bool KeepFull(Sources& sources);
  static Result<std::vector<ObjectPtr>> ListOne(const Source& source, const Query& query);
  static Result<std::vector<ObjectPtr>> Merge(const Sources& sources, const Query& query);

  Sources sources_;
};

}  // namespace larder::internal
