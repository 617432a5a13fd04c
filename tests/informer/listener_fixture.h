// An indexer on a store, for tests of a handler's own bookkeeping.
#pragma once

#include <memory>

#include "informer/listener.h"
#include "tests/informer/fixture.h"
#include "tests/storage/support.h"

namespace larder {

class ListenerTest : public InformerTest {
 protected:
  void SetUp() override {
    InformerTest::SetUp();
    OpenParts();
    CollectionSpec spec;
    spec.cluster_uid = "cluster";
    spec.resource = *LookupResource("pods");
    indexer_ = *Indexer::Open(store_.get(), nullptr, spec, {});
    names_ = std::make_unique<DurableNames>(store_.get(), indexer_->collection().id);
  }
  void TearDown() override {
    indexer_.reset();
    InformerTest::TearDown();
  }

  std::unique_ptr<Indexer> indexer_;
  std::unique_ptr<DurableNames> names_;
};

}  // namespace larder
