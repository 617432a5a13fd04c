// A store with pods, for tests of what looks after stores.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "storage/maintenance.h"
#include "tests/storage/support.h"

namespace larder::testing {

class StoreOfPods : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open(StoreOptions options = {}) {
    store_.reset();
    options.path = dir_.path();
    options.clock = &clock_;
    store_ = Must(Store::Open(options));
    pods_ = Must(store_->OpenCollection(SpecOf("pods")));
  }
  void Put(size_t from, size_t to, uint64_t version = 1) {
    std::vector<ObjectPtr> objects;
    for (size_t i = from; i < to; ++i) objects.push_back(Pod(i, version));
    PutAll(*store_, pods_.id, objects);
  }
  size_t Count() {
    size_t count = 0;
    Must(store_->ScanHeads(pods_.id, {},
                           [&](const ObjectKey&, const ObjectHead&) { return ++count != 0; }));
    return count;
  }
  StoreOptions Options() const { return {.path = dir_.path()}; }

  TempDir dir_;
  FakeClock clock_;
  std::unique_ptr<Store> store_;
  CollectionInfo pods_;
};

}  // namespace larder::testing
