#include "indexer/lister.h"

#include <algorithm>

#include "schema/key_order.h"

namespace larder {
namespace {

constexpr std::string_view kTokenPrefix = "after:";
// Index entries read at a time, for each value asked for: what a list holds beside its result.
constexpr size_t kChunk = 512;
// Beyond so many entries the planner does not count on.
constexpr size_t kMostCounted = 1000;

Result<ObjectKey> ParseToken(const std::string& token) {
  if (token.empty()) return ObjectKey{};
  if (token.rfind(kTokenPrefix, 0) == 0) {
    const std::string rest = token.substr(kTokenPrefix.size());
    const size_t slash = rest.find('/');
    if (slash != std::string::npos && slash + 1 < rest.size() &&
        rest.find('/', slash + 1) == std::string::npos) {
      return ObjectKey{rest.substr(0, slash), rest.substr(slash + 1)};
    }
  }
  return MakeError(ErrorCode::kInvalidArgument, "\"{}\" is not a continue token of a list", token);
}

// What a field selector says of `path` with a plain `=`. Not a value that absent fields have, too,
// nor what is read elsewhere: no index over the path would find those.
std::optional<std::string> Required(const FieldSelector& fields, std::string_view path) {
  for (const auto& requirement : fields.requirements()) {
    if (!requirement.negated && requirement.value != requirement.absent &&
        requirement.read.empty() && requirement.path.text() == path) {
      return requirement.value;
    }
  }
  return std::nullopt;
}

}  // namespace

FieldSelector Lister::FieldsOf(const Query& query) const {
  return query.fields.For(indexer_->collection().spec.resource);
}

std::vector<Lister::Plan> Lister::IndexPlans(const Query& query,
                                             const FieldSelector& fields) const {
  std::vector<Plan> plans;
  const size_t requirements = fields.requirements().size() + query.labels.requirements().size();
  const auto add = [&](const IndexDefinition& index, std::vector<std::string> values) {
    Plan plan;
    plan.kind = Plan::Kind::kIndex;
    plan.ns = query.ns;
    plan.index = index.name();
    plan.values = std::move(values);
    plan.exact = requirements == 1;
    plans.push_back(std::move(plan));
  };
  const auto progress = indexer_->Progress();
  for (const IndexDefinition& index : indexer_->GetIndexers()) {
    const bool ready = std::any_of(progress.begin(), progress.end(), [&](const auto& entry) {
      return entry.index == index.name() && entry.ready;
    });
    if (!ready) continue;
    // An index over a list has several values where a selector sees one, so what it finds is
    // checked again.
    if (!index.path().empty()) {
      if (const auto value = Required(fields, index.path())) {
        add(index, {*value});
        plans.back().exact = false;
      }
    }
    for (const auto& requirement : query.labels.requirements()) {
      if (!index.label().empty() && requirement.key == index.label() &&
          requirement.op == LabelSelector::Op::kIn) {
        add(index, requirement.values);
      }
    }
  }
  return plans;
}

size_t Lister::Estimate(const Plan& plan, const Indexer::View& view) const {
  size_t count = 0;
  for (const std::string& value : plan.values) {
    (void)indexer_->ForEachIndexed(plan.index, value,
                                   [&](const IndexEntry&) { return ++count < kMostCounted; }, view,
                                   {.ns = plan.ns});
  }
  return count;
}

Result<Lister::Plan> Lister::Choose(const Query& query) const {
  Plan plan;
  plan.ns = query.ns;
  if (query.index) {
    plan.kind = Plan::Kind::kIndex;
    plan.index = query.index->first;
    plan.values = {query.index->second};
    plan.exact = query.fields.Empty() && query.labels.Empty();
    return plan;
  }
  const FieldSelector fields = FieldsOf(query);
  const auto ns = Required(fields, "metadata.namespace");
  if (ns && plan.ns.empty()) plan.ns = *ns;
  const auto name = Required(fields, "metadata.name");
  const bool cluster_scoped = !indexer_->collection().spec.resource.namespaced;
  if (name && (!plan.ns.empty() || cluster_scoped)) {
    plan.kind = Plan::Kind::kGet;
    plan.name = *name;
    return plan;
  }
  std::vector<Plan> plans = IndexPlans(query, fields);
  if (plans.empty()) {
    plan.exact = query.fields.Empty() && query.labels.Empty();
    return plan;
  }
  if (plans.size() == 1) return plans.front();
  const Indexer::View view = indexer_->TakeView();
  std::vector<size_t> counts;
  counts.reserve(plans.size());
  for (const Plan& candidate : plans) counts.push_back(Estimate(candidate, view));
  const auto best = std::min_element(counts.begin(), counts.end()) - counts.begin();
  return plans[static_cast<size_t>(best)];
}

Result<std::string> Lister::Explain(const Query& query) const {
  LARDER_ASSIGN_OR_RETURN(const Plan plan, Choose(query));
  std::string out;
  switch (plan.kind) {
    case Plan::Kind::kGet:
      out = "get of " + ObjectKey{plan.ns, plan.name}.ToString();
      break;
    case Plan::Kind::kScan:
      out =
          plan.ns.empty() ? std::string("scan of all namespaces") : "scan of namespace " + plan.ns;
      break;
    case Plan::Kind::kIndex:
      if (plan.values.size() == 1) {
        out = fmt::format("index {} = {}", plan.index, plan.values.front());
      } else {
        std::string values;
        for (const std::string& value : plan.values) values += (values.empty() ? "" : ", ") + value;
        out = fmt::format("index {} in ({})", plan.index, values);
      }
      if (!plan.ns.empty()) out += " within namespace " + plan.ns;
      break;
  }
  if (!plan.exact && !query.labels.Empty()) out += ", then labels " + query.labels.ToString();
  if (!plan.exact && !query.fields.Empty()) out += ", then fields " + query.fields.ToString();
  return out;
}

// Several values are several ranges of the index; they are merged chunk by chunk, so that keys come
// in order, each once, and few are held.
Result<void> Lister::ForEachKey(const Plan& plan, const ObjectKey& after, const Indexer::View& view,
                                const KeyVisitor& visit) const {
  IndexRange range{plan.ns, after};
  for (;;) {
    std::vector<ObjectKey> keys;
    std::optional<ObjectKey> bound;  // beyond it, a value may have keys that were not read yet
    for (const std::string& value : plan.values) {
      size_t read = 0;
      LARDER_RETURN_IF_ERROR(indexer_->ForEachIndexed(
          plan.index, value,
          [&](const IndexEntry& entry) {
            keys.push_back(entry.key);
            return ++read < kChunk;
          },
          view, range));
      if (read == kChunk && (!bound || ComesBefore(keys.back(), *bound))) bound = keys.back();
    }
    std::sort(keys.begin(), keys.end(), ComesBefore);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (const ObjectKey& key : keys) {
      if (bound && ComesBefore(*bound, key)) break;
      LARDER_ASSIGN_OR_RETURN(const bool go_on, visit(key));
      if (!go_on) return {};
    }
    if (!bound) return {};
    range.after = *bound;
  }
}

Result<void> Lister::ForEach(const Query& query, const Store::ObjectVisitor& visit) const {
  LARDER_ASSIGN_OR_RETURN(const ObjectKey after, ParseToken(query.continue_token));
  // The plan first: an index that is ready for it is ready in every later view.
  LARDER_ASSIGN_OR_RETURN(const Plan plan, Choose(query));
  const FieldSelector fields = FieldsOf(query);
  const Indexer::View view = indexer_->TakeView();
  size_t given = 0;
  const auto offer = [&](const ObjectPtr& object) {
    if (!plan.exact && (!query.labels.Matches(*object) || !fields.Matches(*object))) {
      return true;
    }
    if (!visit(object)) return false;
    return query.limit == 0 || ++given < query.limit;
  };
  if (plan.kind == Plan::Kind::kScan) return indexer_->ForEach(plan.ns, after, offer, view);
  if (plan.kind == Plan::Kind::kGet) {
    const ObjectKey key{plan.ns, plan.name};
    if (!after.name.empty() && !ComesBefore(after, key)) return {};
    const auto object = indexer_->GetByKey(key, view);
    if (object) {
      (void)offer(*object);
    } else if (object.error().code != ErrorCode::kNotFound) {
      return tl::unexpected(object.error());
    }
    return {};
  }
  return ForEachKey(plan, after, view, [&](const ObjectKey& key) -> Result<bool> {
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr object, indexer_->GetIndexed(plan.index, key, view));
    return offer(object);
  });
}

Result<QueryPage> Lister::List(const Query& query) const {
  // One more than there is room for says whether there is a next page.
  Query wider = query;
  wider.limit = 0;
  QueryPage page;
  size_t bytes = 0;
  bool more = false;
  LARDER_RETURN_IF_ERROR(ForEach(wider, [&](const ObjectPtr& object) {
    bytes += object->ByteSize();
    more = (query.limit != 0 && page.objects.size() == query.limit) ||
           (query.max_bytes != 0 && !page.objects.empty() && bytes > query.max_bytes);
    if (!more) page.objects.push_back(object);
    return !more;
  }));
  if (more) page.continue_token = TokenAfter(*page.objects.back());
  return page;
}

std::string Lister::TokenAfter(const Object& last) {
  return fmt::format("{}{}/{}", kTokenPrefix, last.ns(), last.name());
}

Result<size_t> Lister::Count(const Query& query) const {
  LARDER_ASSIGN_OR_RETURN(const Plan plan, Choose(query));
  size_t count = 0;
  if (plan.exact && plan.kind == Plan::Kind::kScan) return indexer_->Count(plan.ns);
  if (plan.exact && plan.kind == Plan::Kind::kIndex) {
    LARDER_RETURN_IF_ERROR(
        ForEachKey(plan, {}, indexer_->TakeView(), [&](const ObjectKey&) -> Result<bool> {
          ++count;
          return true;
        }));
    return count;
  }
  Query all = query;
  all.limit = 0;
  all.continue_token.clear();
  LARDER_RETURN_IF_ERROR(ForEach(all, [&](const ObjectPtr&) {
    ++count;
    return true;
  }));
  return count;
}

}  // namespace larder
