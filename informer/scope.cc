#include "informer/scope.h"

#include <algorithm>

namespace larder {
namespace {

std::string Joined(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  return a + "," + b;
}

}  // namespace

bool Scope::Contains(const Object& object) const {
  return Contains(object.key()) && labels.Matches(object) && fields.Matches(object);
}

Result<std::string> JoinLabelSelectors(const std::string& a, const std::string& b) {
  LARDER_ASSIGN_OR_RETURN(const LabelSelector first, LabelSelector::Parse(a));
  LARDER_ASSIGN_OR_RETURN(const LabelSelector second, LabelSelector::Parse(b));
  LARDER_ASSIGN_OR_RETURN(const LabelSelector both,
                          LabelSelector::Parse(Joined(first.ToString(), second.ToString())));
  return both.ToString();
}

Result<std::string> JoinFieldSelectors(const std::string& a, const std::string& b) {
  LARDER_ASSIGN_OR_RETURN(const FieldSelector first, FieldSelector::Parse(a));
  LARDER_ASSIGN_OR_RETURN(const FieldSelector second, FieldSelector::Parse(b));
  LARDER_ASSIGN_OR_RETURN(const FieldSelector both,
                          FieldSelector::Parse(Joined(first.ToString(), second.ToString())));
  return both.ToString();
}

bool Implies(const LabelSelector& narrow, const LabelSelector& wide) {
  return std::all_of(
      wide.requirements().begin(), wide.requirements().end(), [&](const auto& wanted) {
        return std::any_of(
            narrow.requirements().begin(), narrow.requirements().end(), [&](const auto& one) {
              return one.key == wanted.key && one.op == wanted.op && one.values == wanted.values;
            });
      });
}

bool Implies(const FieldSelector& narrow, const FieldSelector& wide) {
  return std::all_of(
      wide.requirements().begin(), wide.requirements().end(), [&](const auto& wanted) {
        return std::any_of(narrow.requirements().begin(), narrow.requirements().end(),
                           [&](const auto& one) {
                             return one.path.text() == wanted.path.text() &&
                                    one.value == wanted.value && one.negated == wanted.negated;
                           });
      });
}

}  // namespace larder
