// A sink for tests of the write side alone.
#pragma once

#include "informer/collection_sync.h"

namespace larder {

class NobodyListens final : public ChangeSink {
 public:
  Result<void> Stage(Indexer::Writer&, const ObjectChange&) override { return {}; }
  void Publish(bool) override {}
  void Synced() override {}
};

}  // namespace larder
