// A workload in numbers: which resources there are, how large their objects, how often they change.
//
// A model comes from a store's statistics (`larder tune model`), or is one of the named profiles.
// It is a small JSON file that holds no object and no name from the cluster, so that it can be
// shown to others and edited by hand. With a seed it becomes the same sequence of operations every
// time (ModelSource).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "storage/store.h"

namespace larder::tuning {

struct ResourceModel {
  std::string resource;     // as `larder get` takes it: "pods", "jobs.batch"
  uint64_t objects = 0;     // at the start
  uint64_t json_bytes = 0;  // of one, on average
  unsigned indexes = 0;     // index keys of one
  // How often something happens to it, against the other resources: events a second, or any other
  // unit, as long as it is the same for all.
  double updates = 0;
  double creates = 0;
  double deletes = 0;
  // A new object is changed so often before it is left alone: scheduled, started, ready.
  unsigned updates_after_create = 0;
  // Which objects change: 0 all alike; towards 1, few change most.
  double skew = 0;
  // The oldest goes first, as with events and finished jobs; otherwise any.
  bool deletes_oldest = false;
};

struct WorkloadModel {
  std::string name;
  std::string description;
  uint64_t seed = 1;
  uint64_t events = 60'000;  // creations, changes and deletions in all
  // How many events share a commit, on average.
  double events_per_commit = 4;
  // Of an event: reads that miss the hot tier, and items that are queued and done.
  double gets_per_event = 0.5;
  double queue_items_per_event = 0.5;
  // Lists by an index or a namespace, for each thousand events, and how long they are.
  double scans_per_thousand = 2;
  uint64_t scan_rows = 100;
  // The share of commits that waits for the disk.
  double synced_commits = 0;
  // All at once, so that compactions compete with commits; otherwise there is time between commits,
  // as in a controller that keeps up with its watches.
  bool burst = false;
  std::vector<ResourceModel> resources;
};

// kInvalidArgument names the field that makes no sense.
Result<void> Check(const WorkloadModel& model);
std::string ToJson(const WorkloadModel& model);
Result<WorkloadModel> ModelFromJson(std::string_view text);
Result<WorkloadModel> LoadModel(const std::string& path);

// The named profiles: "rolling-restart", "steady-churn", "job-storms", "node-failure",
// "event-flood". All sizes are for about 20,000 objects; `scale` multiplies objects and events.
const std::vector<WorkloadModel>& Profiles();
Result<WorkloadModel> FindProfile(std::string_view name);
WorkloadModel Scaled(WorkloadModel model, double scale);

// What the objects of a store tell about their own changes: when each was created and last written
// (metadata.creationTimestamp, managedFields). Rates are estimates: the time since the last write
// of an object that is written at random moments is 1/rate on average.
Result<WorkloadModel> ModelOf(const Store& store);

}  // namespace larder::tuning
