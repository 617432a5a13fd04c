// A whole controller: says what becomes of each pod. After a restart it goes on where it was.
// [readme]
#include "controller/builder.h"

using namespace larder;

Result<Outcome> Reconcile(ReconcileContext& context, const ReconcileRequest& request) {
  // From the store on disk, not from the server. Null: it is gone.
  LARDER_ASSIGN_OR_RETURN(const ObjectPtr pod, context.client().Find("pods", request.key));
  if (!pod) {
    context.log().Info("the pod is gone");
    return Outcome::Done();
  }
  const auto phase = FieldPath::Parse("status.phase")->Value(*pod);
  context.log().Info("the pod is {}", phase.value_or("Unknown"));
  if (phase == "Pending") return Outcome::RequeueAfter(std::chrono::minutes(1));
  return Outcome::Done();  // or an error: then it is tried again, with growing delays
}

int main(int argc, char** argv) {
  return RunManager(argc, argv, [](Manager& manager) {
    return ControllerBuilder(manager)
        .For("pods")
        .WithOptions({.max_concurrent_reconciles = 2})
        .Complete(Reconcile);
  });
}
// [readme]
