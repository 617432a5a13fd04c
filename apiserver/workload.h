// Pods as a busy cluster has them: 5 to 10 KB each, with managedFields, owners, probes, volumes and
// a full status.
//
// A pod is a function of (seed, index, incarnation, revision) and of nothing else, but for times
// that are given, so a test can say what the hundredth pod looks like without asking. Ten pods in a
// row share a Deployment and its template; every sixteenth Deployment is a StatefulSet, whose pods
// come back under their old name (a higher incarnation: another uid). A revision is an update as a
// kubelet makes it: readiness, restarts, transition times.
//
//   PodSource pods({.seed = 1, .namespaces = 20, .nodes = 100});
//   pods.Make({.index = 99}).text;       // {"metadata":{"name":...
//   MakePod(1, 99);                      // the same as a whole object with kind and apiVersion
#pragma once

#include <cstdint>
#include <string>

#include "apiserver/stored_body.h"
#include "schema/object.h"

namespace larder::apiserver {

struct WorkloadShape {
  uint64_t seed = 1;
  uint32_t namespaces = 20;
  uint32_t nodes = 100;
};

struct PodVersion {
  uint64_t index = 0;
  uint32_t incarnation = 0;
  uint32_t revision = 0;
  // Seconds since 1970; 0: a time that follows from the rest.
  int64_t created = 0;
  int64_t written = 0;  // what managedFields say of the last change
};

class PodSource {
 public:
  explicit PodSource(WorkloadShape shape) : shape_(shape) {}

  PreparedBody Make(const PodVersion& pod) const;
  ObjectKey Key(uint64_t index) const;
  std::string Uid(uint64_t index, uint32_t incarnation) const;
  // True where a deleted pod comes back under its name.
  bool Stable(uint64_t index) const;
  std::string NamespaceName(uint64_t number) const;
  std::string NodeName(uint64_t number) const;
  const WorkloadShape& shape() const { return shape_; }

 private:
  WorkloadShape shape_;
};

// One pod as JSON with kind and apiVersion, and without a resourceVersion.
std::string MakePod(uint64_t seed, uint64_t index, uint32_t revision = 0);

}  // namespace larder::apiserver
