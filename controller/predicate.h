// Which changes are worth a reconcile.
//
// A predicate is a function of a change; those here are controller-runtime's. It runs where the
// change is committed, on the informer's thread: be quick, and do not wait for anything. One that
// throws lets the change pass, because a needless reconcile is harmless and a missed one is not.
//
//   builder.For("deployments.apps", {.predicates = {Or(GenerationChanged(), LabelChanged())}});
//   builder.WithEventFilter([](const ObjectChange& change) { return ...; });
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "informer/change.h"

namespace larder {

using Predicate = std::function<bool(const ObjectChange& change)>;

// Of updates only those that raised metadata.generation: the spec changed, not the status or the
// metadata (a pod's crash loop is status). Adds and deletes pass.
Predicate GenerationChanged();
// Of updates only those with another resourceVersion: leaves out resyncs.
Predicate ResourceVersionChanged();
// Of updates only those in which a label (or this one) changed.
Predicate LabelChanged(std::string key = {});
Predicate AnnotationChanged(std::string key = {});

// Changes of objects that match, before or after: an object that ceases to match passes once. So
// does the delete of one that matched as it was stored and ceased to while nobody watched
// (ObjectChange::stored, which a predicate of one's own should look at, too).
Result<Predicate> MatchesLabels(std::string_view selector);
Predicate InNamespace(std::string ns);

Predicate And(std::vector<Predicate> all);
Predicate Or(std::vector<Predicate> any);
Predicate Not(Predicate predicate);
template <typename... More>
Predicate And(Predicate first, Predicate second, More... more) {
  return And(std::vector<Predicate>{std::move(first), std::move(second), std::move(more)...});
}
template <typename... More>
Predicate Or(Predicate first, Predicate second, More... more) {
  return Or(std::vector<Predicate>{std::move(first), std::move(second), std::move(more)...});
}

}  // namespace larder
