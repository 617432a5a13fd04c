// A tenant: a name with what it may see. Its informers, listers and queues see nothing else.
//
// Where the factory has an informer that is wide enough, the tenant shares its stream and its store
// and sees the part that is its own; otherwise it gets a stream that is as narrow as its rights, so
// that no more is transferred. Nothing outside its namespaces and selectors reaches it: not by key,
// by index, in counts, in events, in queue items, nor in the last state of what was deleted.
//
// Durable names and queues of tenants do not meet: each is stored under its tenant. Indexes are the
// informer's: two tenants that share one and give one name to two definitions get kAlreadyExists.
//
// Thread-safe. The factory must outlive it. Errors: kForbidden for what it may not ask for,
// kNoSpace past a quota.
//
//   LARDER_ASSIGN_OR_RETURN(auto team, Tenant::Create(&factory, {.name = "team-a",
//                                                               .namespaces = {"a", "a-test"}}));
//   LARDER_ASSIGN_OR_RETURN(ScopedInformer* pods, team->ForResource({.resource = pod_resource}));
//   factory.Start();
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "informer/factory.h"
#include "informer/scoped_informer.h"
#include "queue/work_queue.h"

namespace larder {

struct TenantOptions {
  // Letters, digits and any of "-._".
  std::string name{};
  // What it may see; at least one, or all_namespaces.
  std::vector<std::string> namespaces{};
  bool all_namespaces = false;
  // Every object must match both.
  std::string label_selector{};
  std::string field_selector{};
  // May it see resources that have no namespace (within its selectors)?
  bool cluster_resources = false;

  // Quotas; 0: none. The memory is what may wait for its handlers, and what one List may return: a
  // page with a limit ends there.
  size_t max_handlers = 0;
  size_t max_memory_bytes = 0;
};

struct TenantStatus {
  std::string name;
  size_t handlers = 0;
  size_t memory_bytes = 0;  // set aside for its handlers
  struct Informer {
    std::string collection;
    bool shared = false;  // wider than the tenant's rights
    bool synced = false;
  };
  std::vector<Informer> informers;
};

class Tenant {
 public:
  // kInvalidArgument names the field.
  static Result<std::unique_ptr<Tenant>> Create(SharedInformerFactory* factory,
                                                TenantOptions options);

  // What of this resource is the tenant's. A namespace and selectors of the request narrow it
  // further. Start the factory (again) afterwards. Lives as long as the tenant.
  Result<ScopedInformer*> ForResource(InformerOptions options);
  // A queue of its own, durable in the factory's store, under its own name there.
  Result<std::unique_ptr<WorkQueue>> OpenQueue(WorkQueueOptions options);

  TenantStatus Status() const;
  const TenantOptions& options() const { return options_; }

 private:
  Tenant(SharedInformerFactory* factory, TenantOptions options);
  Result<std::vector<std::string>> NamespacesFor(const InformerOptions& options) const;
  Result<std::vector<ScopedInformer::Part>> PartsFor(const InformerOptions& options,
                                                     const std::vector<std::string>& namespaces);
  std::string Prefix() const { return "tenant/" + options_.name + "/"; }

  SharedInformerFactory* const factory_;
  const TenantOptions options_;
  Quota quota_;
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<ScopedInformer>> informers_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
