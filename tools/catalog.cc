#include "tools/catalog.h"

#include <algorithm>
#include <set>

#include "tools/json_view.h"

namespace larder::tools {
namespace {

constexpr const char* kCrds = "customresourcedefinitions.apiextensions.k8s.io";
// kubectl's category "all".
constexpr const char* kAll[] = {"pods",
                                "replicationcontrollers",
                                "services",
                                "daemonsets.apps",
                                "deployments.apps",
                                "replicasets.apps",
                                "statefulsets.apps",
                                "horizontalpodautoscalers.autoscaling",
                                "cronjobs.batch",
                                "jobs.batch"};

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (;;) {
    const size_t end = text.find(separator);
    if (end != 0 && !text.empty()) out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

bool IsWhole(const CollectionSpec& spec) {
  return spec.ns.empty() && spec.label_selector.empty() && spec.field_selector.empty() &&
         spec.projection.empty() && spec.shard.empty();
}

bool IsLeftBehind(int64_t older_ms, int64_t newer_ms) {
  constexpr int64_t kLeftBehindMs = 150'000;
  return newer_ms - older_ms > kLeftBehindMs;
}

std::string StoredResource::NamePrefix() const {
  const std::string kind = resource.kind.empty() ? resource.resource : Lower(resource.kind);
  return resource.group.empty() ? kind : kind + "." + resource.group;
}

bool StoredResource::Complete() const {
  return std::all_of(collections.begin(), collections.end(),
                     [](const CollectionInfo& info) { return info.cursor.Complete(); });
}

bool StoredResource::Partial() const {
  return std::any_of(collections.begin(), collections.end(),
                     [](const CollectionInfo& info) { return info.spec.projection == "metadata"; });
}

StoredResource StoredResource::Within(std::string_view ns) const {
  StoredResource out = *this;
  if (ns.empty()) return out;
  std::erase_if(out.collections, [&](const CollectionInfo& info) {
    return !info.spec.ns.empty() && info.spec.ns != ns;
  });
  return out;
}

Result<Catalog> Catalog::Read(Store& store) {
  Catalog catalog;
  LARDER_ASSIGN_OR_RETURN(catalog.collections_, store.Collections());
  // CRDs are large, and only custom kinds need them.
  const bool custom = std::any_of(
      catalog.collections_.begin(), catalog.collections_.end(),
      [](const CollectionInfo& info) { return !LookupResource(info.spec.resource.ToString()); });
  for (const CollectionInfo& info : catalog.collections_) {
    if (!custom || info.spec.resource.ToString() != kCrds) continue;
    LARDER_RETURN_IF_ERROR(store.Scan(info.id, {}, {}, [&](const ObjectPtr& crd) {
      catalog.crds_.push_back(crd);
      return true;
    }));
  }
  return catalog;
}

ObjectPtr Catalog::CrdOf(const Resource& resource) const {
  const std::string name = resource.ToString();
  for (const ObjectPtr& crd : crds_) {
    if (crd->name() == name) return crd;
  }
  return nullptr;
}

StoredResource Catalog::Gather(const Resource& resource) const {
  StoredResource out;
  out.resource = resource;
  const CollectionInfo* whole = nullptr;
  for (const CollectionInfo& info : collections_) {
    if (info.spec.resource.ToString() != resource.ToString()) continue;
    out.resource = info.spec.resource;
    out.collections.push_back(info);
    if (!IsWhole(info.spec)) continue;
    if (!whole || info.cursor.updated_ms > whole->cursor.updated_ms) whole = &info;
  }
  if (whole) {
    out.collections = {*whole};
    out.resource = whole->spec.resource;
  }
  out.crd = CrdOf(out.resource);
  if (out.resource.kind.empty() && out.crd) {
    out.resource.kind = JsonDocument(*out.crd).root()["spec"]["names"]["kind"].Text();
  }
  return out;
}

bool Catalog::IsCustomName(const CollectionInfo& info, std::string_view name) const {
  const Resource& resource = info.spec.resource;
  const std::string wanted = Lower(name);
  const auto is = [&](std::string_view text) {
    const std::string lower = Lower(text);
    return !lower.empty() && (lower == wanted || lower + "." + resource.group == wanted ||
                              lower + "." + resource.version + "." + resource.group == wanted);
  };
  if (is(resource.resource) || is(resource.kind)) return true;
  const ObjectPtr crd = CrdOf(resource);
  if (!crd) return false;
  const JsonDocument document(*crd);
  const JsonView names = document.root()["spec"]["names"];
  if (is(names["kind"].Text()) || is(names["singular"].Text())) return true;
  const auto short_names = names["shortNames"].Items();
  return std::any_of(short_names.begin(), short_names.end(),
                     [&](const JsonView& text) { return is(text.Text()); });
}

std::string Catalog::Known() const {
  std::set<std::string> names;
  for (const CollectionInfo& info : collections_) names.insert(info.spec.resource.ToString());
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out.empty() ? "nothing" : out;
}

Result<StoredResource> Catalog::ResolveOne(std::string_view name) const {
  if (const auto built_in = LookupResource(name)) {
    StoredResource found = Gather(*built_in);
    if (!found.collections.empty()) return found;
  }
  for (const CollectionInfo& info : collections_) {
    if (IsCustomName(info, name)) return Gather(info.spec.resource);
  }
  return MakeError(ErrorCode::kNotFound, "the store has no resource \"{}\"; it has {}", name,
                   Known());
}

Result<std::vector<StoredResource>> Catalog::Resolve(std::string_view names) const {
  std::vector<StoredResource> out;
  for (const std::string& name : Split(names, ',')) {
    if (name != "all") {
      LARDER_ASSIGN_OR_RETURN(StoredResource found, ResolveOne(name));
      out.push_back(std::move(found));
      continue;
    }
    for (const char* member : kAll) {
      if (auto found = ResolveOne(member)) out.push_back(*std::move(found));
    }
  }
  if (out.empty()) {
    return MakeError(ErrorCode::kNotFound, "the store has none of {}; it has {}", names, Known());
  }
  return out;
}

Result<StoredResource> Catalog::ForKind(std::string_view api_version, std::string_view kind) const {
  const size_t slash = api_version.find('/');
  const std::string_view group =
      slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
  for (const StoredResource& resource : Resources()) {
    if (resource.resource.group == group && resource.resource.kind == kind) return resource;
  }
  return MakeError(ErrorCode::kNotFound, "the store has no {} of {}", kind, api_version);
}

std::vector<StoredResource> Catalog::Resources() const {
  std::set<std::string> names;
  std::vector<StoredResource> out;
  for (const CollectionInfo& info : collections_) {
    if (names.insert(info.spec.resource.ToString()).second) {
      out.push_back(Gather(info.spec.resource));
    }
  }
  std::sort(out.begin(), out.end(), [](const StoredResource& a, const StoredResource& b) {
    return a.resource.ToString() < b.resource.ToString();
  });
  return out;
}

Result<std::vector<NamedObject>> ParseNames(const std::vector<std::string>& words) {
  std::vector<NamedObject> out;
  const bool slashes = !words.empty() && words.front().find('/') != std::string::npos;
  for (const std::string& word : words) {
    const size_t slash = word.find('/');
    if ((slash != std::string::npos) != slashes) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "\"{}\": either all are resource/name, or a resource comes first and then "
                       "names without a slash",
                       word);
    }
    if (slashes) out.push_back({word.substr(0, slash), word.substr(slash + 1)});
  }
  if (slashes) return out;
  if (words.size() == 1) out.push_back({words.front(), ""});
  for (size_t i = 1; i < words.size(); ++i) out.push_back({words.front(), words[i]});
  return out;
}

}  // namespace larder::tools
