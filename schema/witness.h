// The newest change that is known of a collection: what to ask a server for, to find out whether
// its history is still the one that the collection was filled from.
#pragma once

#include <string>

#include "schema/object.h"

namespace larder {

struct Witness {
  ObjectKey key;
  std::string resource_version;  // of the change
  bool deleted = false;
};

}  // namespace larder
