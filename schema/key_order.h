// The order in which a store and a server keep objects: of "namespace/name" as bytes. It is not
// that of the pairs: "a-b/x" comes before "a/x".
#pragma once

#include <string_view>

#include "schema/object.h"

namespace larder {

bool ComesBefore(const ObjectKey& a, const ObjectKey& b);
// The same for what is in two namespaces; false where they are the same.
bool NamespaceComesBefore(std::string_view a, std::string_view b);

}  // namespace larder
