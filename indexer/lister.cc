#include "indexer/lister.h"

#include <algorithm>

namespace larder {
namespace {

constexpr std::string_view kTokenPrefix = "after:";

Result<ObjectKey> ParseToken(const std::string& token) {
  if (token.empty()) return ObjectKey{};
  if (token.rfind(kTokenPrefix, 0) == 0) {
    const std::string rest = token.substr(kTokenPrefix.size());
    const size_t slash = rest.find('/');
    if (slash != std::string::npos && slash + 1 < rest.size()) {
      return ObjectKey{rest.substr(0, slash), rest.substr(slash + 1)};
    }
  }
  return MakeError(ErrorCode::kInvalidArgument, "\"{}\" is not a continue token of a list", token);
}

}  // namespace

Lister::Plan Lister::Choose(const Query& options) const {
  if (options.index) return {options.index};
  const auto ready = indexer_->Progress();
  const auto is_ready = [&](const std::string& name) {
    return std::any_of(ready.begin(), ready.end(), [&](const auto& progress) {
      return progress.index == name && progress.ready;
    });
  };
  for (const IndexDefinition& index : indexer_->GetIndexers()) {
    if (!is_ready(index.name())) continue;
    for (const auto& requirement : options.fields.requirements()) {
      // "" also matches objects without the field, which an index does not hold.
      if (!index.path().empty() && requirement.path.text() == index.path() &&
          !requirement.negated && !requirement.value.empty()) {
        return {{{index.name(), requirement.value}}};
      }
    }
    for (const auto& requirement : options.labels.requirements()) {
      if (!index.label().empty() && requirement.key == index.label() &&
          requirement.op == LabelSelector::Op::kIn && requirement.values.size() == 1) {
        return {{{index.name(), requirement.values[0]}}};
      }
    }
  }
  return {};
}

Result<std::string> Lister::Explain(const Query& options) const {
  const Plan plan = Choose(options);
  std::string out;
  if (plan.index) {
    out = "index " + plan.index->first + "=" + plan.index->second;
    if (!options.ns.empty()) out += ", then namespace " + options.ns;
  } else {
    out = options.ns.empty() ? std::string("scan of all namespaces")
                             : "scan of namespace " + options.ns;
  }
  if (!options.labels.Empty()) out += ", then labels " + options.labels.ToString();
  if (!options.fields.Empty()) out += ", then fields " + options.fields.ToString();
  return out;
}

Result<void> Lister::ForEach(const Query& options, const Store::ObjectVisitor& visit) const {
  LARDER_ASSIGN_OR_RETURN(const ObjectKey after, ParseToken(options.continue_token));
  const Indexer::View view = indexer_->TakeView();
  size_t given = 0;
  const auto offer = [&](const ObjectPtr& object) {
    if (!options.labels.Matches(*object) || !options.fields.Matches(*object)) return true;
    if (!visit(object)) return false;
    return options.limit == 0 || ++given < options.limit;
  };
  const Plan plan = Choose(options);
  if (!plan.index) return indexer_->ForEach(options.ns, after, offer, view);
  Result<void> outcome;
  LARDER_RETURN_IF_ERROR(indexer_->ForEachIndexed(
      plan.index->first, plan.index->second,
      [&](const IndexEntry& entry) {
        if (!options.ns.empty() && entry.key.ns != options.ns) return true;
        if (!after.name.empty() &&
            (entry.key.ns + "/" + entry.key.name) <= (after.ns + "/" + after.name)) {
          return true;
        }
        auto object = indexer_->GetByKey(entry.key, view);
        if (!object) {
          outcome = tl::unexpected(object.error());
          return false;
        }
        return offer(*object);
      },
      view));
  return outcome;
}

Result<QueryPage> Lister::List(const Query& options) const {
  QueryPage page;
  LARDER_RETURN_IF_ERROR(ForEach(options, [&](const ObjectPtr& object) {
    page.objects.push_back(object);
    return true;
  }));
  if (options.limit != 0 && page.objects.size() == options.limit) {
    const ObjectPtr& last = page.objects.back();
    page.continue_token =
        std::string(kTokenPrefix) + std::string(last->ns()) + "/" + std::string(last->name());
  }
  return page;
}

Result<size_t> Lister::Count(const Query& options) const {
  size_t count = 0;
  LARDER_RETURN_IF_ERROR(ForEach(options, [&](const ObjectPtr&) {
    ++count;
    return true;
  }));
  return count;
}

}  // namespace larder
