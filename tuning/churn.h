// How often the objects of a store change, estimated from the objects themselves: when each was
// created, and when its managedFields say it was last written. Works on any store, live or not.
//
// It is an estimate from a sample, and of what is stored: writers that leave no managedFields (a
// projection that dropped them) show only as creations.
#pragma once

#include <map>
#include <vector>

#include "base/error.h"
#include "storage/maintenance.h"
#include "storage/store.h"

namespace larder::tuning {

// A second, of a whole collection.
struct Churn {
  double updates = 0;
  double creates = 0;
  double deletes = 0;  // as many as creates: a population that keeps its size
  double Total() const { return updates + creates + deletes; }
};

// For each of these collections; one that is encrypted, where nobody gave the key, is left out.
Result<std::map<CollectionId, Churn>> EstimateChurn(
    const Store& store, const std::vector<CollectionStats>& collections);

}  // namespace larder::tuning
