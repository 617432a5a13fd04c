// Objects to fill a workload with: of a resource, of about a size, the same for the same arguments.
//
// Pods are those of the simulated API server. Others are made here, alike and different as objects
// of one kind are: most of a document is the kind's own, some is its owner's, some (uids,
// addresses, times, hashes) is its alone and cannot be compressed.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "schema/object.h"
#include "schema/resource.h"

namespace larder::tuning {

struct ContentKind {
  Resource resource;
  uint64_t json_bytes = 2000;
  uint64_t seed = 1;
};

Result<ObjectPtr> MakeObject(const ContentKind& kind, uint64_t index, uint32_t revision,
                             uint64_t resource_version);
// The name of that, without making it.
ObjectKey KeyOfObject(const ContentKind& kind, uint64_t index);

}  // namespace larder::tuning
