// A collection of small things with four indexes, for tests of the indexer.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "indexer/indexer.h"
#include "tests/storage/support.h"

namespace larder::testing {

ObjectPtr Thing(std::string_view name, uint64_t version, std::string_view node,
                std::string_view app, const std::vector<std::string>& tags,
                std::string_view uid = "uid", std::string_view ns = "n");
std::vector<std::string> NamesOf(const std::vector<ObjectPtr>& objects);
// node: spec.nodeName; app: label; tag: spec.tags, a list; initial: a function.
std::vector<IndexDefinition> ThingIndexes();

class IndexedStore : public ::testing::Test {
 protected:
  void SetUp() override;
  // Closes everything and opens it again, with these indexes.
  void Reopen(std::vector<IndexDefinition> indexes);

  Indexer::Change Upsert(const ObjectPtr& object,
                         Indexer::Writer::Expect expect = Indexer::Writer::Expect::kOlder);
  Indexer::Change Delete(const std::string& name, std::string_view uid, std::string_view version,
                         const std::string& ns = "n");
  // The names that an index has under a value.
  std::vector<std::string> By(std::string_view index, std::string_view value) {
    return NamesOf(Must(indexer_->ByIndex(index, value)));
  }
  // In one commit.
  void Write(const std::vector<ObjectPtr>& objects);
  // Out of memory, as eviction would have it.
  void MakeCold(const std::string& name, const std::string& ns = "n");

  TempDir dir_;
  Clock* clock_ = RealClock();  // of the next store that is opened
  std::unique_ptr<Store> store_;
  std::unique_ptr<HotTier> hot_;
  std::unique_ptr<Indexer> indexer_;
};

}  // namespace larder::testing
