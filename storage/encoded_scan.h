// Rows as they are stored, for a reader that decodes them (Store::Decode) on threads of its own.
#pragma once

#include <functional>
#include <string_view>

#include "storage/store.h"

namespace larder {

// Visits the objects of a namespace (empty: all) in key order; false ends it. Nothing is verified:
// Decode does that.
using EncodedVisitor = std::function<bool(EncodedObject)>;
Result<void> ScanEncoded(const Store& store, CollectionId collection, std::string_view ns,
                         const EncodedVisitor& visit);

}  // namespace larder
