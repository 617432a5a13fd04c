#include "tools/serve/resource_book.h"

#include "tools/json_view.h"

namespace larder::tools {
namespace {

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string KeyOf(std::string_view group, std::string_view version, std::string_view resource) {
  return fmt::format("{}/{}/{}", group, version, resource);
}

// Short names of built-in kinds that the simulator does not have.
std::vector<std::string> ShortNamesOf(const Resource& resource) {
  constexpr const char* kKnown[] = {"cm",     "ep", "ev",  "limits", "ns",    "no",  "pvc",
                                    "pv",     "po", "rc",  "sa",     "quota", "svc", "ds",
                                    "deploy", "rs", "sts", "hpa",    "cj",    "pdb", "ing",
                                    "netpol", "sc", "pc",  "csr",    "crd",   "crds"};
  std::vector<std::string> out;
  for (const char* name : kKnown) {
    const auto found = LookupResource(name);
    if (found && found->ToString() == resource.ToString()) out.emplace_back(name);
  }
  return out;
}

apiserver::ResourceInfoPtr InfoOf(const StoredResource& stored) {
  static const apiserver::ResourceRegistry built_in;
  auto info = std::make_shared<apiserver::ResourceInfo>();
  if (const auto known = built_in.FindByName(stored.resource.ToString())) *info = *known;
  info->resource = stored.resource;
  if (info->resource.kind.empty()) {
    const auto known = LookupResource(stored.resource.ToString());
    info->resource.kind = known ? known->kind : stored.resource.resource;
  }
  info->singular = Lower(info->resource.kind);
  info->list_kind = info->resource.kind + "List";
  info->preferred = true;
  info->status = info->scale = false;  // there is nothing to write
  info->verbs = {"get", "list", "watch"};
  if (info->short_names.empty()) info->short_names = ShortNamesOf(stored.resource);
  if (!stored.crd) return info;
  const JsonDocument document(*stored.crd);
  const JsonView names = document.root()["spec"]["names"];
  info->custom = true;
  info->singular = names["singular"].Text(info->singular);
  info->list_kind = names["listKind"].Text(info->list_kind);
  info->short_names.clear();
  for (const JsonView& name : names["shortNames"].Items()) {
    info->short_names.push_back(name.Text());
  }
  for (const JsonView& name : names["categories"].Items()) {
    info->categories.push_back(name.Text());
  }
  return info;
}

std::vector<apiserver::ResourceInfoPtr> InfosOf(
    const std::map<std::string, ServedResource>& resources) {
  std::vector<apiserver::ResourceInfoPtr> out;
  out.reserve(resources.size());
  for (const auto& [key, resource] : resources) out.push_back(resource.info);
  return out;
}

}  // namespace

ResourceBook::ResourceBook(std::map<std::string, ServedResource> resources)
    : resources_(std::move(resources)), registry_(InfosOf(resources_)) {}

Result<std::shared_ptr<const ResourceBook>> ResourceBook::Read(Store& store) {
  LARDER_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Read(store));
  std::map<std::string, ServedResource> resources;
  for (StoredResource& stored : catalog.Resources()) {
    ServedResource served;
    served.info = InfoOf(stored);
    stored.resource = served.info->resource;
    served.columns = ColumnsFor(stored.resource, stored.crd);
    served.columns.partial = stored.Partial();
    const std::string key =
        KeyOf(stored.resource.group, stored.resource.version, stored.resource.resource);
    served.stored = std::move(stored);
    resources.emplace(key, std::move(served));
  }
  return std::make_shared<const ResourceBook>(std::move(resources));
}

const ServedResource* ResourceBook::Find(std::string_view group, std::string_view version,
                                         std::string_view resource) const {
  const auto found = resources_.find(KeyOf(group, version, resource));
  return found == resources_.end() ? nullptr : &found->second;
}

}  // namespace larder::tools
