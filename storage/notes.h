// Names of notes about a collection (Transaction::PutNote). The first two no longer hold when rows
// are lost: repair leaves them out then, and whoever keeps them begins anew.
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

// Since when nobody has declared an index, in milliseconds since 1970.
inline std::string UnusedIndexNotes(CollectionId collection) {
  return "unused-index/" + std::to_string(collection) + "/";
}
inline std::string UnusedIndexNote(CollectionId collection, uint32_t index) {
  return UnusedIndexNotes(collection) + std::to_string(index);
}

}  // namespace larder
