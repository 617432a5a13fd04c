#include "controller/watched_resource.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "schema/key_order.h"

namespace larder::internal {
namespace {

// As the store has them, and so in the cursor's own commit: the informer's copy comes a little
// after the queue items that a commit causes.
Result<Cursor> CursorOf(const SharedInformer& informer) {
  const Indexer& indexer = informer.GetIndexer();
  return indexer.store()->GetCursor(indexer.collection().id);
}

// In the order of a Lister.
bool ComesFirst(const ObjectPtr& a, const ObjectPtr& b) { return ComesBefore(a->key(), b->key()); }

bool SameKey(const ObjectPtr& a, const ObjectPtr& b) {
  return a->ns() == b->ns() && a->name() == b->name();
}

}  // namespace

bool WatchedResource::Source::IsComplete() {
  // A collection that was complete once stays so.
  if (complete.load(std::memory_order_acquire)) return true;
  const Result<Cursor> cursor = CursorOf(*informer);
  if (!cursor || !cursor->Complete()) return false;
  complete.store(true, std::memory_order_release);
  return true;
}

Error WatchedResource::Source::NotReady() const {
  return {ErrorCode::kNotReady,
          informer->GetIndexer().collection().spec.ToString() +
              " was not listed completely yet, so nothing is read from it",
          {},
          {}};
}

bool WatchedResource::Source::Covers(const Query& query) const {
  return (ns.empty() || ns == query.ns) && informer->options().shard_selector.empty() &&
         Implies(query.labels, scope.labels) && Implies(query.fields, scope.fields);
}

bool WatchedResource::Source::HasIndex(std::string_view name) const {
  const auto indexes = informer->GetIndexer().GetIndexers();
  return std::any_of(indexes.begin(), indexes.end(),
                     [&](const IndexDefinition& index) { return index.name() == name; });
}

bool WatchedResource::HasFull(const std::shared_ptr<Source>& source) {
  return !source->metadata_only;
}

bool WatchedResource::Source::ShowsInFull(const Source& other) const {
  return whole && !metadata_only && (ns.empty() || ns == other.ns);
}

Result<std::shared_ptr<const WatchedResource>> WatchedResource::With(const WatchedResource* others,
                                                                     SharedInformer* informer,
                                                                     bool reconciled) {
  auto made = std::make_shared<WatchedResource>();
  if (others != nullptr) made->sources_ = others->sources_;
  std::erase_if(made->sources_, [&](const auto& source) {
    if (source->informer != informer) return false;
    reconciled = reconciled || source->reconciled;
    return true;
  });
  const InformerOptions& options = informer->options();
  auto source = std::make_shared<Source>();
  source->informer = informer;
  source->ns = options.ns;
  source->metadata_only = options.metadata_only;
  source->reconciled = reconciled;
  LARDER_ASSIGN_OR_RETURN(source->scope.labels, LabelSelector::Parse(options.label_selector));
  LARDER_ASSIGN_OR_RETURN(source->scope.fields, FieldSelector::Parse(options.field_selector));
  source->whole = options.label_selector.empty() && options.field_selector.empty() &&
                  options.shard_selector.empty();
  made->sources_.push_back(std::move(source));
  return made;
}

WatchedResource::Sources WatchedResource::Fitting(std::string_view ns) const {
  Sources fitting;
  for (const auto& source : sources_) {
    if (ns.empty() || source->ns.empty() || source->ns == ns) fitting.push_back(source);
  }
  return fitting;
}

bool WatchedResource::HasMetadataOnly(std::string_view ns, bool reconciled) const {
  const Sources fitting = Fitting(ns);
  return std::any_of(fitting.begin(), fitting.end(), [&](const auto& source) {
    return source->metadata_only && (source->reconciled || !reconciled);
  });
}

bool WatchedResource::KeepFull(Sources& sources) {
  Sources partial;
  std::erase_if(sources, [&](const auto& source) {
    if (source->metadata_only) partial.push_back(source);
    return source->metadata_only;
  });
  return std::all_of(partial.begin(), partial.end(), [&](const auto& one) {
    return std::any_of(sources.begin(), sources.end(),
                       [&](const auto& full) { return full->ShowsInFull(*one); });
  });
}

void WatchedResource::SortByProgress(Sources& sources) {
  if (sources.size() < 2) return;
  std::vector<std::pair<std::string, std::shared_ptr<Source>>> versions;
  versions.reserve(sources.size());
  for (auto& source : sources) {
    const Result<Cursor> cursor = CursorOf(*source->informer);
    versions.emplace_back(cursor ? cursor->resource_version : std::string(), std::move(source));
  }
  std::stable_sort(versions.begin(), versions.end(), [](const auto& a, const auto& b) {
    if (a.first.empty() || b.first.empty()) return !a.first.empty() && b.first.empty();
    return CompareResourceVersions(a.first, b.first).value_or(0) > 0;
  });
  for (size_t i = 0; i < sources.size(); ++i) sources[i] = std::move(versions[i].second);
}

Result<std::optional<ObjectPtr>> WatchedResource::Get(const ObjectKey& key, bool whole) const {
  Sources sources = Fitting(key.ns);
  SortByProgress(sources);
  if (whole) std::stable_partition(sources.begin(), sources.end(), HasFull);
  std::optional<Error> not_ready;
  Error absent{ErrorCode::kNotFound, fmt::format("no object {}", key.ToString()), {}, {}};
  for (const auto& source : sources) {
    // It may be in one that has it in full, and is not complete.
    if (whole && source->metadata_only && not_ready) break;
    if (!source->IsComplete()) {
      not_ready = source->NotReady();
      continue;
    }
    Result<ObjectPtr> object = source->informer->GetIndexer().GetByKey(key);
    if (object) {
      if (whole && source->metadata_only) return std::nullopt;
      return *std::move(object);
    }
    if (object.error().code != ErrorCode::kNotFound) return tl::unexpected(object.error());
    absent = std::move(object).error();
    // Nobody else can have it but one that is behind.
    if (source->whole) return tl::unexpected(std::move(absent));
  }
  return tl::unexpected(not_ready ? *std::move(not_ready) : std::move(absent));
}

Result<std::vector<ObjectPtr>> WatchedResource::ListOne(const Source& source, const Query& query) {
  LARDER_ASSIGN_OR_RETURN(QueryPage page, source.informer->GetLister().List(query));
  return std::move(page.objects);
}

Result<std::optional<std::vector<ObjectPtr>>> WatchedResource::List(const Query& query,
                                                                    bool whole) const {
  Sources sources = Fitting(query.ns);
  const bool all = !whole || KeepFull(sources);
  Sources covering = sources;
  if (sources.size() > 1 || !all) {
    std::erase_if(covering, [&](const auto& source) { return !source->Covers(query); });
  }
  if (covering.empty() && !all) return std::nullopt;
  if (covering.empty()) return Merge(sources, query);
  SortByProgress(covering);
  if (query.index) {
    std::stable_partition(covering.begin(), covering.end(),
                          [&](const auto& source) { return source->HasIndex(query.index->first); });
  }
  for (const auto& source : covering) {
    if (source->IsComplete()) return ListOne(*source, query);
  }
  return tl::unexpected(covering.front()->NotReady());
}

Result<std::vector<ObjectPtr>> WatchedResource::Merge(const Sources& sources, const Query& query) {
  for (const auto& source : sources) {
    if (!source->IsComplete()) return tl::unexpected(source->NotReady());
  }
  Sources ordered = sources;
  SortByProgress(ordered);
  Query part = query;
  part.max_bytes = 0;  // of all of them together
  std::vector<ObjectPtr> merged;
  for (const auto& source : ordered) {
    LARDER_ASSIGN_OR_RETURN(std::vector<ObjectPtr> objects, ListOne(*source, part));
    std::move(objects.begin(), objects.end(), std::back_inserter(merged));
  }
  // Of two versions that of the one who is further stays.
  std::stable_sort(merged.begin(), merged.end(), ComesFirst);
  merged.erase(std::unique(merged.begin(), merged.end(), SameKey), merged.end());
  size_t bytes = 0;
  size_t kept = 0;
  for (; kept < merged.size() && (query.limit == 0 || kept < query.limit); ++kept) {
    bytes += merged[kept]->ByteSize();
    if (query.max_bytes != 0 && kept > 0 && bytes > query.max_bytes) break;
  }
  merged.resize(kept);
  return merged;
}

SharedInformer* WatchedResource::Showing(const Object& object) const {
  Sources sources = Fitting(object.ns());
  std::stable_partition(sources.begin(), sources.end(), HasFull);
  for (const auto& source : sources) {
    if (source->scope.Contains(object)) return source->informer;
  }
  return sources.empty() ? nullptr : sources.front()->informer;
}

}  // namespace larder::internal
