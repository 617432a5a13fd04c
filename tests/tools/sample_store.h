// A small store with a bit of everything, for the commands to look at.
#pragma once

#include <memory>
#include <string>

#include "storage/store.h"
#include "tests/tools/process.h"

namespace larder {

// Namespace shop: deployment web -> replica set web-1 -> pods web-0, web-1; pod db-0 on its own;
// node n1 and the namespace itself; an event of web-0; a custom kind Widget with printer columns;
// indexes node and app; a queue "pods" with a ready, a delayed and a dead item.
void FillSampleStore(const std::string& path);

// Writes one pod of namespace shop, as its owner would.
void PutPod(Store& store, const std::string& name, const std::string& phase,
            const std::string& version);
// Writes any object of a known resource ("secrets"), as its owner would.
void PutObject(Store& store, const std::string& resource, const std::string& json);
void DeletePod(Store& store, const std::string& name, const std::string& version);

}  // namespace larder
