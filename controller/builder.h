// Puts a controller together, in the words of controller-runtime.
//
// Nothing is asked of the server and nothing runs until the manager does. What is wrong is said by
// Complete.
//
//   ControllerBuilder(*manager)
//       .Named("remediator")
//       .For("pods", {.predicates = {ResourceVersionChanged()}})
//       .Owns("remediations.v1alpha1.aiops.example.com")
//       .Watches("configmaps", [&](const Object& config) { return PodsOf(config); })
//       .WithOptions({.max_concurrent_reconciles = 5})
//       .Complete(Reconcile);
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "controller/controller.h"
#include "controller/manager.h"

namespace larder {

class ControllerBuilder {
 public:
  // `manager` must outlive what is built.
  explicit ControllerBuilder(Manager& manager) : manager_(manager) {}

  // Unique in a manager; names the queue on disk and the metrics. Without: the resource of For.
  ControllerBuilder& Named(std::string name);
  // The objects that are reconciled: each change queues its own key. Exactly once.
  ControllerBuilder& For(ResourceName resource, SourceOptions options = {});
  // Objects that For's objects control: a change queues the owner's key.
  ControllerBuilder& Owns(ResourceName resource, SourceOptions options = {});
  // Anything else: a change queues the keys that `map` gives.
  ControllerBuilder& Watches(ResourceName resource, MapFunction map, SourceOptions options = {});
  // For all sources, in addition to their own.
  ControllerBuilder& WithEventFilter(Predicate predicate);
  ControllerBuilder& WithOptions(ControllerOptions options);

  // Hands it to the manager. kInvalidArgument: what is missing or twice there; kAlreadyExists: the
  // name; kNotReady: the manager runs already.
  Result<void> Complete(ReconcileFunction reconcile);
  Result<void> Complete(std::shared_ptr<Reconciler> reconciler);

 private:
  Manager& manager_;
  Controller::Definition definition_;
};

}  // namespace larder
