// Queries over a collection: by namespace, label selector, field selector, index, with paging.
//
//   Lister pods(indexer);
//   auto web = pods.List({.ns = "default", .labels = *LabelSelector::Parse("app=web")});
//
// A planner uses an index where one fits and says which (Explain). Thread-safe. A list is of one
// moment; pages of one list are each of their own moment, in key order, and none is skipped or
// repeated that was there throughout.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "indexer/indexer.h"
#include "schema/selector.h"

namespace larder {

struct Query {
  std::string ns;  // empty: all
  LabelSelector labels;
  FieldSelector fields;
  // Use this index; otherwise the planner chooses.
  std::optional<std::pair<std::string, std::string>> index;  // name, value
  size_t limit = 0;                                          // 0: all
  std::string continue_token;                                // of the page before
};

struct QueryPage {
  std::vector<ObjectPtr> objects;
  std::string continue_token;  // empty: this was the last page
};

class Lister {
 public:
  explicit Lister(const Indexer* indexer) : indexer_(indexer) {}

  Result<ObjectPtr> Get(const ObjectKey& key) const { return indexer_->GetByKey(key); }
  Result<QueryPage> List(const Query& options) const;
  // One at a time, without holding the list; the visitor returns false to stop. limit and token are
  // honoured.
  Result<void> ForEach(const Query& options, const Store::ObjectVisitor& visit) const;
  Result<size_t> Count(const Query& options) const;
  // "index node=node-1, then labels app=web" or "scan of namespace default".
  Result<std::string> Explain(const Query& options) const;

 private:
  struct Plan {
    std::optional<std::pair<std::string, std::string>> index;
  };
  Plan Choose(const Query& options) const;

  const Indexer* indexer_;
};

}  // namespace larder
