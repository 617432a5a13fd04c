#include "schema/selectable_fields.h"

#include <map>

namespace larder {

const std::vector<SelectableField>& SelectableFields(const Resource& resource) {
  static const std::map<std::string, std::vector<SelectableField>, std::less<>> kFields = {
      {"events",
       {{"involvedObject.kind"},
        {"involvedObject.namespace"},
        {"involvedObject.name"},
        {"involvedObject.uid"},
        {"involvedObject.apiVersion"},
        {"involvedObject.resourceVersion"},
        {"involvedObject.fieldPath"},
        {"reason"},
        {"reportingComponent"},
        {"source", "", {"source.component", "reportingComponent"}},
        {"type"}}},
      {"jobs.batch", {{"status.successful", "0", {"status.succeeded"}}}},
      {"namespaces", {{"status.phase"}}},
      {"nodes", {{"spec.unschedulable", "false"}}},
      {"pods",
       {{"spec.nodeName"},
        {"spec.restartPolicy"},
        {"spec.schedulerName"},
        {"spec.serviceAccountName"},
        {"spec.hostNetwork", "false"},
        {"status.phase"},
        {"status.podIP"},
        {"status.podIPs"},
        {"status.nominatedNodeName"}}},
      {"replicasets.apps", {{"status.replicas", "0"}}},
      {"replicationcontrollers", {{"status.replicas", "0"}}},
      {"secrets", {{"type"}}},
      {"services", {{"spec.clusterIP"}, {"spec.type"}}},
  };
  static const std::vector<SelectableField> kNone;
  const auto found = kFields.find(resource.ToString());
  return found == kFields.end() ? kNone : found->second;
}

}  // namespace larder
