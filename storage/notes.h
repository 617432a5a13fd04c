// Names of notes about a collection (Transaction::PutNote) that no longer hold when rows are lost.
// Repair leaves them out then, and whoever keeps them begins anew.
#pragma once

#include <string>

#include "storage/collection.h"

namespace larder {

// Which durable names were told everything that is not pending.
inline std::string DurableNamesNote(CollectionId collection) {
  return "durable-names/" + std::to_string(collection);
}

// How many objects and bytes there are.
inline std::string SizeNote(CollectionId collection) {
  return "size/" + std::to_string(collection);
}

}  // namespace larder
