// Objects of a resource that is stored as one collection or several.
#include <algorithm>
#include <memory>

#include "schema/key_order.h"
#include "tools/catalog.h"

namespace larder::tools {
namespace {

// Objects of one collection that are read at a time.
constexpr size_t kChunk = 500;

// Which of two copies is shown: the newer one; of two of one version the one with more in it.
bool IsBetter(const CollectionInfo& a, std::string_view version_a, const CollectionInfo& b,
              std::string_view version_b) {
  const int order = CompareResourceVersions(version_a, version_b).value_or(0);
  if (order != 0) return order > 0;
  if (a.spec.projection.empty() != b.spec.projection.empty()) return a.spec.projection.empty();
  return a.id < b.id;
}

// Several collections as one, in key order. An object that is in two comes from the one that has
// its better copy, and only if that one is selected: an older copy must not show what is no longer
// so.
class MergedScan {
 public:
  MergedScan(Store& store, const StoredResource& resource, const Query& query)
      : store_(store), resource_(resource), query_(query) {}

  Result<void> Open() {
    for (const CollectionInfo& info : resource_.collections) {
      Source source;
      source.id = info.id;
      LARDER_ASSIGN_OR_RETURN(source.indexer, Indexer::Attach(&store_, info));
      source.token = query_.continue_token;
      LARDER_RETURN_IF_ERROR(Fill(source));
      sources_.push_back(std::move(source));
    }
    return {};
  }

  // Null: that was all.
  Result<ObjectPtr> Next() {
    for (;;) {
      Source* least = nullptr;
      for (Source& source : sources_) {
        if (source.at == source.objects.size()) continue;
        if (!least || ComesBefore(source.front()->key(), least->front()->key())) least = &source;
      }
      if (!least) return ObjectPtr();
      const ObjectPtr object = least->front();
      if (++least->at == least->objects.size()) LARDER_RETURN_IF_ERROR(Fill(*least));
      LARDER_ASSIGN_OR_RETURN(const CollectionId shown, FindCopy(store_, resource_, object->key()));
      if (shown == least->id) return object;
    }
  }

 private:
  struct Source {
    CollectionId id = 0;
    std::unique_ptr<Indexer> indexer{};
    std::vector<ObjectPtr> objects{};
    size_t at = 0;
    std::string token{};
    bool ended = false;

    const ObjectPtr& front() const { return objects[at]; }
  };

  Result<void> Fill(Source& source) {
    source.objects.clear();
    source.at = 0;
    if (source.ended) return {};
    Query query = query_;
    query.limit = query_.limit == 0 ? kChunk : std::min(kChunk, query_.limit + 1);
    query.continue_token = source.token;
    LARDER_ASSIGN_OR_RETURN(QueryPage page, Lister(source.indexer.get()).List(query));
    source.objects = std::move(page.objects);
    source.token = std::move(page.continue_token);
    source.ended = source.token.empty();
    return {};
  }

  Store& store_;
  const StoredResource& resource_;
  const Query& query_;
  std::vector<Source> sources_;
};

}  // namespace

Result<void> ForEachObject(Store& store, const StoredResource& resource, const Query& query,
                           const Store::ObjectVisitor& visit) {
  const StoredResource within = resource.Within(query.ns);
  if (within.collections.size() == 1) {
    LARDER_ASSIGN_OR_RETURN(const auto indexer, Indexer::Attach(&store, within.collections[0]));
    return Lister(indexer.get()).ForEach(query, visit);
  }
  MergedScan scan(store, within, query);
  LARDER_RETURN_IF_ERROR(scan.Open());
  for (size_t given = 0; query.limit == 0 || given < query.limit; ++given) {
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr object, scan.Next());
    if (!object || !visit(object)) break;
  }
  return {};
}

Result<QueryPage> ListObjects(Store& store, const StoredResource& resource, const Query& query) {
  // One more than asked for says whether there is a next page.
  Query wider = query;
  if (query.limit != 0) ++wider.limit;
  QueryPage page;
  size_t bytes = 0;
  bool full = false;
  LARDER_RETURN_IF_ERROR(ForEachObject(store, resource, wider, [&](const ObjectPtr& object) {
    bytes += object->ByteSize();
    full = (query.limit != 0 && page.objects.size() == query.limit) ||
           (query.max_bytes != 0 && !page.objects.empty() && bytes > query.max_bytes);
    if (!full) page.objects.push_back(object);
    return !full;
  }));
  if (full) page.continue_token = Lister::TokenAfter(*page.objects.back());
  return page;
}

std::string NotCovered(const StoredResource& resource, const Query& query) {
  const std::string name = resource.resource.ToString();
  const StoredResource within = resource.Within(query.ns);
  if (within.collections.empty()) {
    std::string held;
    for (const CollectionInfo& info : resource.collections) {
      held += (held.empty() ? "" : ", ") + info.spec.ns;
    }
    return fmt::format("the store does not hold {} of namespace {}, only those of {}", name,
                       query.ns, held);
  }
  for (const auto& requirement : query.fields.requirements()) {
    if (!within.Partial() || requirement.path.text().rfind("metadata.", 0) == 0) continue;
    return fmt::format("the store holds only the metadata of {}: it does not know {}", name,
                       requirement.path.text());
  }
  return {};
}

Result<CollectionId> FindCopy(const Store& store, const StoredResource& resource,
                              const ObjectKey& key) {
  const CollectionInfo* best = nullptr;
  std::string version;
  for (const CollectionInfo& info : resource.collections) {
    if (!info.spec.ns.empty() && info.spec.ns != key.ns) continue;
    const auto head = store.GetHead(info.id, key);
    if (!head && head.error().code == ErrorCode::kNotFound) continue;
    if (!head) return tl::unexpected(head.error());
    if (best && !IsBetter(info, head->resource_version, *best, version)) continue;
    best = &info;
    version = head->resource_version;
  }
  return best ? best->id : 0;
}

Result<ObjectPtr> GetObject(const Store& store, const StoredResource& resource,
                            const ObjectKey& key) {
  LARDER_ASSIGN_OR_RETURN(const CollectionId in, FindCopy(store, resource, key));
  if (in != 0) return store.Get(in, key);
  return MakeError(ErrorCode::kNotFound, "{} \"{}\" not found", resource.resource.ToString(),
                   key.name);
}

}  // namespace larder::tools
