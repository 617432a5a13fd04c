// The resources of a store as an API server announces them.
//
// A book is a picture of one moment; it never changes. ReadBook makes a new one.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "apiserver/resource_info.h"
#include "tools/catalog.h"
#include "tools/columns/columns.h"

namespace larder::tools {

struct ServedResource {
  StoredResource stored;
  apiserver::ResourceInfoPtr info;
  ColumnSet columns;
};

class ResourceBook {
 public:
  static Result<std::shared_ptr<const ResourceBook>> Read(Store& store);

  // Null: not served.
  const ServedResource* Find(std::string_view group, std::string_view version,
                             std::string_view resource) const;
  const apiserver::ResourceRegistry& registry() const { return registry_; }
  const std::map<std::string, ServedResource>& resources() const { return resources_; }

  explicit ResourceBook(std::map<std::string, ServedResource> resources);

 private:
  const std::map<std::string, ServedResource> resources_;  // by "group/version/resource"
  const apiserver::ResourceRegistry registry_;
};

}  // namespace larder::tools
