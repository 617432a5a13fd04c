// Queries over a collection: by namespace, label selector, field selector, index, with paging.
//
//   Lister pods(indexer);
//   auto web = pods.List({.ns = "default", .labels = *LabelSelector::Parse("app=web")});
//
// A planner uses an index where one fits, and says which (Explain). Thread-safe. Results come in
// key order (namespace/name, as bytes). A list is of one moment; pages of one list are each of
// their own moment, and no object is skipped or repeated that was there throughout.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "indexer/indexer.h"
#include "indexer/reader.h"
#include "schema/selector.h"

namespace larder {

struct Query {
  std::string ns{};  // empty: all
  LabelSelector labels{};
  FieldSelector fields{};
  // Use this index (name, value), kNotReady while it is being built; otherwise the planner chooses
  // among those that are ready.
  std::optional<std::pair<std::string, std::string>> index{};
  size_t limit = 0;              // 0: all
  std::string continue_token{};  // of the page before
  // A page of a List ends here, too, but has at least one object. 0: no limit.
  size_t max_bytes = 0;
};

struct QueryPage {
  std::vector<ObjectPtr> objects;
  std::string continue_token;  // empty: this was the last page
};

class Lister {
 public:
  explicit Lister(const Indexer* indexer) : indexer_(indexer) {}

  Result<ObjectPtr> Get(const ObjectKey& key) const { return indexer_->GetByKey(key); }
  // For many gets in one pass or one reconcile, of objects that are not kept beyond it.
  Reader BeginRead() const { return Reader(indexer_); }
  Result<QueryPage> List(const Query& query) const;
  // One at a time, without holding the list; the visitor returns false to stop. Limit and token are
  // honoured.
  Result<void> ForEach(const Query& query, const Store::ObjectVisitor& visit) const;
  // How many there are, limit and token aside. Reads no object where the index alone can tell.
  Result<size_t> Count(const Query& query) const;
  // The token of a page whose last object this is: for who makes one list of several.
  static std::string TokenAfter(const Object& last);
  // "index node = node-1, then labels app=web" or "scan of namespace default".
  Result<std::string> Explain(const Query& query) const;

 private:
  struct Plan {
    enum class Kind { kGet, kIndex, kScan } kind = Kind::kScan;
    std::string ns;                   // that everything is in; empty: all
    std::string name;                 // kGet
    std::string index;                // kIndex
    std::vector<std::string> values;  // kIndex: any of them
    bool exact = false;               // nothing is left to check on the objects
  };
  // The query's, as the server of this resource reads them.
  FieldSelector FieldsOf(const Query& query) const;
  Result<Plan> Choose(const Query& query) const;
  std::vector<Plan> IndexPlans(const Query& query, const FieldSelector& fields) const;
  size_t Estimate(const Plan& plan, const Indexer::View& view) const;
  // Keys from the plan's index, in key order.
  using KeyVisitor = std::function<Result<bool>(const ObjectKey&)>;
  Result<void> ForEachKey(const Plan& plan, const ObjectKey& after, const Indexer::View& view,
                          const KeyVisitor& visit) const;

  const Indexer* indexer_;
};

}  // namespace larder
