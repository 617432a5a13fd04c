#include "schema/resource.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace larder {
namespace {

struct BuiltIn {
  std::string_view group;
  std::string_view version;
  std::string_view plural;
  std::string_view singular;
  std::string_view kind;
  bool namespaced;
  std::string_view short_names;  // separated by spaces
};

constexpr std::string_view kAdmission = "admissionregistration.k8s.io";
constexpr std::string_view kCoordination = "coordination.k8s.io";
constexpr std::string_view kNetworking = "networking.k8s.io";
constexpr std::string_view kRbac = "rbac.authorization.k8s.io";

// Where two groups have the same name (events), the first one wins, as in kubectl.
constexpr auto kBuiltIns = std::to_array<BuiltIn>({
    {"", "v1", "bindings", "binding", "Binding", true, ""},
    {"", "v1", "componentstatuses", "componentstatus", "ComponentStatus", false, "cs"},
    {"", "v1", "configmaps", "configmap", "ConfigMap", true, "cm"},
    {"", "v1", "endpoints", "endpoints", "Endpoints", true, "ep"},
    {"", "v1", "events", "event", "Event", true, "ev"},
    {"", "v1", "limitranges", "limitrange", "LimitRange", true, "limits"},
    {"", "v1", "namespaces", "namespace", "Namespace", false, "ns"},
    {"", "v1", "nodes", "node", "Node", false, "no"},
    {"", "v1", "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", true,
     "pvc"},
    {"", "v1", "persistentvolumes", "persistentvolume", "PersistentVolume", false, "pv"},
    {"", "v1", "pods", "pod", "Pod", true, "po"},
    {"", "v1", "podtemplates", "podtemplate", "PodTemplate", true, ""},
    {"", "v1", "replicationcontrollers", "replicationcontroller", "ReplicationController", true,
     "rc"},
    {"", "v1", "resourcequotas", "resourcequota", "ResourceQuota", true, "quota"},
    {"", "v1", "secrets", "secret", "Secret", true, ""},
    {"", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", true, "sa"},
    {"", "v1", "services", "service", "Service", true, "svc"},
    {"apps", "v1", "controllerrevisions", "controllerrevision", "ControllerRevision", true, ""},
    {"apps", "v1", "daemonsets", "daemonset", "DaemonSet", true, "ds"},
    {"apps", "v1", "deployments", "deployment", "Deployment", true, "deploy"},
    {"apps", "v1", "replicasets", "replicaset", "ReplicaSet", true, "rs"},
    {"apps", "v1", "statefulsets", "statefulset", "StatefulSet", true, "sts"},
    {"autoscaling", "v2", "horizontalpodautoscalers", "horizontalpodautoscaler",
     "HorizontalPodAutoscaler", true, "hpa"},
    {"batch", "v1", "cronjobs", "cronjob", "CronJob", true, "cj"},
    {"batch", "v1", "jobs", "job", "Job", true, ""},
    {"policy", "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", true,
     "pdb"},
    {kNetworking, "v1", "ingressclasses", "ingressclass", "IngressClass", false, ""},
    {kNetworking, "v1", "ingresses", "ingress", "Ingress", true, "ing"},
    {kNetworking, "v1", "networkpolicies", "networkpolicy", "NetworkPolicy", true, "netpol"},
    {kRbac, "v1", "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding", false, ""},
    {kRbac, "v1", "clusterroles", "clusterrole", "ClusterRole", false, ""},
    {kRbac, "v1", "rolebindings", "rolebinding", "RoleBinding", true, ""},
    {kRbac, "v1", "roles", "role", "Role", true, ""},
    {"storage.k8s.io", "v1", "csidrivers", "csidriver", "CSIDriver", false, ""},
    {"storage.k8s.io", "v1", "csinodes", "csinode", "CSINode", false, ""},
    {"storage.k8s.io", "v1", "storageclasses", "storageclass", "StorageClass", false, "sc"},
    {"storage.k8s.io", "v1", "volumeattachments", "volumeattachment", "VolumeAttachment", false,
     ""},
    {kCoordination, "v1", "leases", "lease", "Lease", true, ""},
    {"discovery.k8s.io", "v1", "endpointslices", "endpointslice", "EndpointSlice", true, ""},
    {"events.k8s.io", "v1", "events", "event", "Event", true, "ev"},
    {"scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass", false, "pc"},
    {"node.k8s.io", "v1", "runtimeclasses", "runtimeclass", "RuntimeClass", false, ""},
    {"certificates.k8s.io", "v1", "certificatesigningrequests", "certificatesigningrequest",
     "CertificateSigningRequest", false, "csr"},
    {kAdmission, "v1", "mutatingwebhookconfigurations", "mutatingwebhookconfiguration",
     "MutatingWebhookConfiguration", false, ""},
    {kAdmission, "v1", "validatingwebhookconfigurations", "validatingwebhookconfiguration",
     "ValidatingWebhookConfiguration", false, ""},
    {kAdmission, "v1", "validatingadmissionpolicies", "validatingadmissionpolicy",
     "ValidatingAdmissionPolicy", false, ""},
    {"apiextensions.k8s.io", "v1", "customresourcedefinitions", "customresourcedefinition",
     "CustomResourceDefinition", false, "crd crds"},
    {"apiregistration.k8s.io", "v1", "apiservices", "apiservice", "APIService", false, ""},
});

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool HasWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t space = std::min(words.find(' '), words.size());
    if (words.substr(0, space) == word) return true;
    words.remove_prefix(std::min(space + 1, words.size()));
  }
  return false;
}

bool IsNamed(const BuiltIn& built_in, std::string_view name) {
  return built_in.plural == name || built_in.singular == name || Lower(built_in.kind) == name ||
         HasWord(built_in.short_names, name);
}

Resource ToResource(const BuiltIn& from) {
  return {std::string(from.group), std::string(from.version), std::string(from.plural),
          std::string(from.kind), from.namespaced};
}

// "v1", "v2beta1", "v1alpha3".
bool IsVersion(std::string_view text) {
  size_t at = 1;
  const auto number = [&] {
    const size_t begin = at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]))) ++at;
    return at > begin;
  };
  if (text.empty() || text[0] != 'v' || !number()) return false;
  if (at == text.size()) return true;
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("alpha")) {
    at += 5;
  } else if (rest.starts_with("beta")) {
    at += 4;
  } else {
    return false;
  }
  return number() && at == text.size();
}

// Lower-case letters, digits, inner hyphens: what may stand between the dots of a DNS name.
bool IsDnsLabel(std::string_view text) {
  return !text.empty() && text.size() <= 63 && text.front() != '-' && text.back() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

bool IsDnsName(std::string_view text) {
  if (text.size() > 253) return false;
  while (true) {
    const size_t dot = text.find('.');
    if (!IsDnsLabel(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

// One segment of a URL's path. Names may have a colon (system:node), which needs no escape there.
std::string Segment(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || c == ':';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

}  // namespace

std::string Resource::Path(std::string_view ns, std::string_view name) const {
  std::string path = group.empty() ? "/api/" : "/apis/" + group + "/";
  path += version;
  if (namespaced && !ns.empty()) path += "/namespaces/" + Segment(ns);
  path += "/" + resource;
  if (!name.empty()) path += "/" + Segment(name);
  return path;
}

Result<Resource> LookupResource(std::string_view text) {
  const std::string lower = Lower(text);
  std::string_view group = lower;
  const size_t dot = group.find('.');
  const std::string_view name = group.substr(0, dot);
  group = dot == std::string_view::npos ? std::string_view() : group.substr(dot + 1);
  const size_t second = group.find('.');
  std::string_view version = group.substr(0, second);
  if (IsVersion(version)) {
    group = second == std::string_view::npos ? std::string_view() : group.substr(second + 1);
  } else {
    version = {};
  }
  for (const BuiltIn& built_in : kBuiltIns) {
    if (!IsNamed(built_in, name)) continue;
    const bool any_group = dot == std::string_view::npos;
    if (!any_group && built_in.group != group) continue;
    Resource resource = ToResource(built_in);
    if (!version.empty()) resource.version = version;
    return resource;
  }
  if (!version.empty() && !group.empty() && IsDnsLabel(name) && IsDnsName(group)) {
    return Resource{std::string(group), std::string(version), std::string(name), "", true};
  }
  return MakeError(ErrorCode::kNotFound,
                   "no resource \"{}\" is known: spell it in full as plural.version.group, for "
                   "example widgets.v1.example.com",
                   text);
}

}  // namespace larder
