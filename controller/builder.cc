#include "controller/builder.h"

#include <algorithm>

namespace larder {
namespace {

class FunctionReconciler final : public Reconciler {
 public:
  explicit FunctionReconciler(ReconcileFunction function) : function_(std::move(function)) {}
  Result<Outcome> Reconcile(ReconcileContext& context, const ReconcileRequest& request) override {
    return function_(context, request);
  }

 private:
  const ReconcileFunction function_;
};

}  // namespace

ControllerBuilder& ControllerBuilder::Named(std::string name) {
  definition_.name = std::move(name);
  return *this;
}

ControllerBuilder& ControllerBuilder::For(ResourceName resource, SourceOptions options) {
  definition_.sources.push_back(
      {SourceRole::kFor, std::move(resource), Itself(), std::move(options)});
  return *this;
}

ControllerBuilder& ControllerBuilder::Owns(ResourceName resource, SourceOptions options) {
  // The mapping needs For's kind, which the manager finds out.
  definition_.sources.push_back(
      {SourceRole::kOwns, std::move(resource), nullptr, std::move(options)});
  return *this;
}

ControllerBuilder& ControllerBuilder::Watches(ResourceName resource, MapFunction map,
                                              SourceOptions options) {
  definition_.sources.push_back(
      {SourceRole::kWatches, std::move(resource), std::move(map), std::move(options)});
  return *this;
}

ControllerBuilder& ControllerBuilder::WithEventFilter(Predicate predicate) {
  definition_.predicates.push_back(std::move(predicate));
  return *this;
}

ControllerBuilder& ControllerBuilder::WithOptions(ControllerOptions options) {
  definition_.options = std::move(options);
  return *this;
}

Result<void> ControllerBuilder::Complete(ReconcileFunction reconcile) {
  if (!reconcile) return Complete(std::shared_ptr<Reconciler>());
  return Complete(std::make_shared<FunctionReconciler>(std::move(reconcile)));
}

Result<void> ControllerBuilder::Complete(std::shared_ptr<Reconciler> reconciler) {
  const auto is_for = [](const Source& source) { return source.role == SourceRole::kFor; };
  const auto& sources = definition_.sources;
  const auto first = std::find_if(sources.begin(), sources.end(), is_for);
  if (definition_.name.empty() && first != sources.end()) {
    definition_.name = first->resource.ToString();
  }
  const auto wrong = [&](const char* what) {
    return MakeError(ErrorCode::kInvalidArgument, "controller {}: {}",
                     definition_.name.empty() ? "without a name" : definition_.name, what);
  };
  if (first == sources.end()) return wrong("it needs a For(): the objects that it reconciles");
  if (std::count_if(sources.begin(), sources.end(), is_for) > 1) {
    return wrong("it has two For(): use Watches() with Itself() for the second");
  }
  for (const Source& source : sources) {
    if (source.role == SourceRole::kWatches && !source.map) {
      return wrong("a Watches() has no mapping function");
    }
  }
  if (!reconciler) return wrong("it has no reconciler");
  definition_.reconciler = std::move(reconciler);
  return manager_.Add(std::move(definition_));
}

}  // namespace larder
