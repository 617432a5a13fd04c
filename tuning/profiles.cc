// The named profiles: what large clusters do, in numbers that can be read.
#include "tuning/model.h"

namespace larder::tuning {
namespace {

ResourceModel Of(const char* resource, uint64_t objects, uint64_t json_bytes, unsigned indexes) {
  ResourceModel model;
  model.resource = resource;
  model.objects = objects;
  model.json_bytes = json_bytes;
  model.indexes = indexes;
  return model;
}

// Every pod of a large cluster is replaced: created, changed four times until it is ready, its old
// one deleted; the endpoint slices and the owners follow.
WorkloadModel RollingRestart() {
  WorkloadModel model;
  model.name = "rolling-restart";
  model.description = "a large cluster replaces every pod";
  model.events_per_commit = 8;
  model.burst = true;
  ResourceModel pods = Of("pods", 15'000, 9000, 2);
  pods.creates = 10;
  pods.deletes = 10;
  pods.updates = 2;
  pods.updates_after_create = 4;
  ResourceModel slices = Of("endpointslices.discovery.k8s.io", 1500, 6000, 1);
  slices.updates = 12;
  slices.skew = 0.5;
  ResourceModel sets = Of("replicasets.apps", 3000, 4000, 1);
  sets.updates = 8;
  sets.creates = 1;
  sets.deletes = 1;
  sets.deletes_oldest = true;
  ResourceModel deployments = Of("deployments.apps", 1500, 4500, 1);
  deployments.updates = 6;
  model.resources = {pods, slices, sets, deployments};
  return model;
}

// A quiet day: kubelets report, leases are renewed, a few things come and go.
WorkloadModel SteadyChurn() {
  WorkloadModel model;
  model.name = "steady-churn";
  model.description = "a quiet day: status updates and lease renewals";
  model.events_per_commit = 2;
  model.gets_per_event = 1;
  ResourceModel pods = Of("pods", 12'000, 9000, 2);
  pods.updates = 30;
  pods.skew = 0.6;
  pods.creates = 1;
  pods.deletes = 1;
  pods.updates_after_create = 4;
  ResourceModel leases = Of("leases.coordination.k8s.io", 1000, 700, 0);
  leases.updates = 50;
  ResourceModel nodes = Of("nodes", 500, 12'000, 1);
  nodes.updates = 8;
  ResourceModel maps = Of("configmaps", 5000, 3000, 1);
  maps.updates = 1;
  maps.skew = 0.8;
  model.resources = {pods, leases, nodes, maps};
  return model;
}

// Batch work: jobs and their pods live for minutes.
WorkloadModel JobStorms() {
  WorkloadModel model;
  model.name = "job-storms";
  model.description = "thousands of jobs come, run and go";
  model.events_per_commit = 16;
  model.queue_items_per_event = 1;
  model.burst = true;
  ResourceModel jobs = Of("jobs.batch", 2000, 4000, 1);
  jobs.creates = 10;
  jobs.deletes = 10;
  jobs.updates_after_create = 3;
  jobs.deletes_oldest = true;
  ResourceModel pods = Of("pods", 4000, 9000, 2);
  pods.creates = 12;
  pods.deletes = 12;
  pods.updates_after_create = 3;
  pods.deletes_oldest = true;
  ResourceModel nodes = Of("nodes", 300, 12'000, 1);
  nodes.updates = 2;
  model.resources = {jobs, pods, nodes};
  return model;
}

// A zone is lost: its pods turn unready, are deleted and come back elsewhere; every slice changes
// again and again.
WorkloadModel NodeFailure() {
  WorkloadModel model;
  model.name = "node-failure";
  model.description = "a zone is lost and its pods come back elsewhere";
  model.events_per_commit = 12;
  model.gets_per_event = 1;
  model.burst = true;
  ResourceModel pods = Of("pods", 15'000, 9000, 2);
  pods.updates = 20;
  pods.creates = 5;
  pods.deletes = 5;
  pods.updates_after_create = 4;
  ResourceModel nodes = Of("nodes", 500, 12'000, 1);
  nodes.updates = 10;
  nodes.skew = 0.7;
  ResourceModel slices = Of("endpointslices.discovery.k8s.io", 1500, 6000, 1);
  slices.updates = 25;
  ResourceModel leases = Of("leases.coordination.k8s.io", 500, 700, 0);
  leases.updates = 10;
  model.resources = {pods, nodes, slices, leases};
  return model;
}

// Something is wrong everywhere, and every kubelet says so; events go after an hour.
WorkloadModel EventFlood() {
  WorkloadModel model;
  model.name = "event-flood";
  model.description = "every kubelet complains at once; events expire";
  model.events_per_commit = 32;
  model.gets_per_event = 0.05;
  model.queue_items_per_event = 0.1;
  model.burst = true;
  ResourceModel events = Of("events", 20'000, 1100, 1);
  events.creates = 40;
  events.deletes = 40;
  events.updates = 25;
  events.skew = 0.7;
  events.deletes_oldest = true;
  ResourceModel pods = Of("pods", 3000, 9000, 2);
  pods.updates = 10;
  model.resources = {events, pods};
  return model;
}

}  // namespace

const std::vector<WorkloadModel>& Profiles() {
  static const std::vector<WorkloadModel> profiles = {RollingRestart(), SteadyChurn(), JobStorms(),
                                                      NodeFailure(), EventFlood()};
  return profiles;
}

Result<WorkloadModel> FindProfile(std::string_view name) {
  std::string known;
  for (const WorkloadModel& profile : Profiles()) {
    if (profile.name == name) return profile;
    known += (known.empty() ? "" : ", ") + profile.name;
  }
  return MakeError(ErrorCode::kInvalidArgument, "there is no profile {}; there are {}", name,
                   known);
}

}  // namespace larder::tuning
