// Finalizers: the right to clean up before an object goes.
//
// HandleFinalizer puts the finalizer on an object that lives, and on one that is being deleted runs
// the cleanup and takes the finalizer off. Both write the list of finalizers alone, at the version
// that was read, so that nothing else of the object and no finalizer of somebody else is ever lost;
// a conflict is an error like any other and is tried again.
//
//   LARDER_ASSIGN_OR_RETURN(Finalizing state, HandleFinalizer(context, "pods", pod, "me/cleanup",
//       [&] { return RemoveWhatBelongsTo(*pod); }));
//   if (state != Finalizing::kLive) return Outcome::Done();
#pragma once

#include <functional>
#include <string_view>

#include "base/error.h"
#include "controller/reconciler.h"

namespace larder {

enum class Finalizing {
  kLive,     // it has the finalizer: go on
  kDeleted,  // cleaned up, or none of ours: nothing more to do
};

bool HasFinalizer(const Object& object, std::string_view finalizer);
// True when the list changed.
bool AddFinalizer(Json& object, std::string_view finalizer);
bool RemoveFinalizer(Json& object, std::string_view finalizer);

// `object` is replaced by the state that was written. An error of `cleanup` keeps the finalizer.
Result<Finalizing> HandleFinalizer(ReconcileContext& context, const ResourceName& resource,
                                   ObjectPtr& object, std::string_view finalizer,
                                   const std::function<Result<void>()>& cleanup);

}  // namespace larder
