#include "storage/encoded_scan.h"

#include "storage/keys.h"
#include "storage/store_impl.h"

namespace larder {

Result<void> ScanEncoded(const Store& store, CollectionId collection, std::string_view ns,
                         const EncodedVisitor& visit) {
  const std::string prefix =
      ns.empty() ? keys::CollectionPrefix(collection) : keys::NamespacePrefix(collection, ns);
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(store.impl().ScanRows(
      Family::kObjects, prefix, {},
      [&](std::string_view row, std::string_view value) {
        auto key = keys::ParseObject(row);
        if (!key) {
          outcome = tl::unexpected(key.error());
          return false;
        }
        return visit({*std::move(key), std::string(value)});
      },
      nullptr, /*fill_cache=*/false));
  return store.impl().Noted(std::move(outcome));
}

}  // namespace larder
