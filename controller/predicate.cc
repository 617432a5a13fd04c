#include "controller/predicate.h"

#include <algorithm>
#include <memory>

#include "schema/selector.h"

namespace larder {
namespace {

// A predicate about updates; everything else passes.
template <typename Differs>
Predicate OfUpdates(Differs differs) {
  return [differs = std::move(differs)](const ObjectChange& change) {
    return change.type != ChangeType::kUpdated || !change.old || !change.object ||
           differs(*change.old, *change.object);
  };
}

}  // namespace

Predicate GenerationChanged() {
  return OfUpdates(
      [](const Object& old, const Object& now) { return old.generation() != now.generation(); });
}

Predicate ResourceVersionChanged() {
  return OfUpdates([](const Object& old, const Object& now) {
    return old.resource_version() != now.resource_version();
  });
}

Predicate LabelChanged(std::string key) {
  return OfUpdates([key = std::move(key)](const Object& old, const Object& now) {
    return key.empty() ? old.Labels() != now.Labels() : old.Label(key) != now.Label(key);
  });
}

Predicate AnnotationChanged(std::string key) {
  return OfUpdates([key = std::move(key)](const Object& old, const Object& now) {
    return key.empty() ? old.Annotations() != now.Annotations()
                       : old.Annotation(key) != now.Annotation(key);
  });
}

Result<Predicate> MatchesLabels(std::string_view selector) {
  LARDER_ASSIGN_OR_RETURN(LabelSelector parsed, LabelSelector::Parse(selector));
  return Predicate(
      [shared = std::make_shared<const LabelSelector>(std::move(parsed))](const ObjectChange& c) {
        return (c.stored && shared->Matches(*c.stored)) || (c.old && shared->Matches(*c.old)) ||
               (c.object && shared->Matches(*c.object));
      });
}

Predicate InNamespace(std::string ns) {
  return [ns = std::move(ns)](const ObjectChange& change) { return change.current()->ns() == ns; };
}

Predicate And(std::vector<Predicate> all) {
  return [all = std::move(all)](const ObjectChange& change) {
    return std::all_of(all.begin(), all.end(), [&](const Predicate& one) { return one(change); });
  };
}

Predicate Or(std::vector<Predicate> any) {
  return [any = std::move(any)](const ObjectChange& change) {
    return std::any_of(any.begin(), any.end(), [&](const Predicate& one) { return one(change); });
  };
}

Predicate Not(Predicate predicate) {
  return
      [predicate = std::move(predicate)](const ObjectChange& change) { return !predicate(change); };
}

}  // namespace larder
