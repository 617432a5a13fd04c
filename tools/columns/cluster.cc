// Networking, storage, access control and coordination.
#include <fmt/format.h>

#include "tools/age.h"
#include "tools/columns/columns.h"

namespace larder::tools {
namespace {

Cells IngressCells(const RowInput& in) {
  const JsonView spec = in.root["spec"];
  std::vector<std::string> hosts, addresses;
  for (const JsonView& rule : spec["rules"].Items()) {
    if (!rule["host"].Text().empty()) hosts.push_back(rule["host"].Text());
  }
  for (const JsonView& ingress : in.root["status"]["loadBalancer"]["ingress"].Items()) {
    addresses.push_back(ingress["ip"].Text(ingress["hostname"].Text()));
  }
  return {in.Name(),       OrNone(spec["ingressClassName"].Text()),   OrNone(Join(hosts), "*"),
          Join(addresses), spec["tls"].Size() > 0 ? "80, 443" : "80", in.Age()};
}

Cells IngressClassCells(const RowInput& in) {
  const JsonView parameters = in.root["spec"]["parameters"];
  std::string text = "<none>";
  if (parameters.Exists()) {
    const std::string group = parameters["apiGroup"].Text();
    text = parameters["kind"].Text() + (group.empty() ? "" : "." + group) + "/" +
           parameters["name"].Text();
  }
  return {in.Name(), in.root["spec"]["controller"].Text(), text, in.Age()};
}

std::string SliceEndpoints(const JsonView& root) {
  constexpr size_t kMost = 3;
  std::vector<std::string> list;
  size_t count = 0;
  for (const JsonView& endpoint : root["endpoints"].Items()) {
    for (const JsonView& address : endpoint["addresses"].Items()) {
      if (++count <= kMost) list.push_back(address.Text());
    }
  }
  const std::string text = OrNone(Join(list), "<unset>");
  return count > kMost ? fmt::format("{} + {} more...", text, count - kMost) : text;
}

Cells SliceCells(const RowInput& in) {
  std::vector<std::string> ports;
  for (const JsonView& port : in.root["ports"].Items()) ports.push_back(port["port"].Text("*"));
  return {in.Name(), in.root["addressType"].Text(), OrNone(Join(ports), "<unset>"),
          SliceEndpoints(in.root), in.Age()};
}

Cells StorageClassCells(const RowInput& in) {
  const bool is_default =
      in.object.Annotation("storageclass.kubernetes.io/is-default-class") == "true";
  return {in.Name() + (is_default ? " (default)" : ""),
          in.root["provisioner"].Text(),
          in.root["reclaimPolicy"].Text("Delete"),
          in.root["volumeBindingMode"].Text("<unset>"),
          in.root["allowVolumeExpansion"].True() ? "true" : "false",
          in.Age()};
}

Cells AttachmentCells(const RowInput& in) {
  return {in.Name(),
          in.root["spec"]["attacher"].Text(),
          in.root["spec"]["source"]["persistentVolumeName"].Text(),
          in.root["spec"]["nodeName"].Text(),
          in.root["status"]["attached"].Text("false"),
          in.Age()};
}

Cells BindingCells(const RowInput& in) {
  const JsonView role = in.root["roleRef"];
  std::vector<std::string> users, groups, accounts;
  for (const JsonView& subject : in.root["subjects"].Items()) {
    const std::string kind = subject["kind"].Text(), name = subject["name"].Text();
    if (kind == "User") users.push_back(name);
    if (kind == "Group") groups.push_back(name);
    if (kind == "ServiceAccount") accounts.push_back(subject["namespace"].Text() + "/" + name);
  }
  return {in.Name(),          role["kind"].Text() + "/" + role["name"].Text(),
          in.Age(),           Join(users, ", "),
          Join(groups, ", "), Join(accounts, ", ")};
}

Cells RequestCells(const RowInput& in) {
  const JsonView spec = in.root["spec"];
  std::vector<std::string> conditions;
  for (const JsonView& condition : in.root["status"]["conditions"].Items()) {
    conditions.push_back(condition["type"].Text());
  }
  if (!in.root["status"]["certificate"].Text().empty()) conditions.emplace_back("Issued");
  const JsonView seconds = spec["expirationSeconds"];
  return {in.Name(),
          in.Age(),
          spec["signerName"].Text("<none>"),
          spec["username"].Text(),
          seconds.Exists() ? HumanDuration(std::chrono::seconds(seconds.Number())) : "<none>",
          OrNone(Join(conditions), "Pending")};
}

Cells ServiceApiCells(const RowInput& in) {
  const JsonView service = in.root["spec"]["service"];
  std::string available = "Unknown";
  for (const JsonView& condition : in.root["status"]["conditions"].Items()) {
    if (condition["type"].Text() != "Available") continue;
    available = condition["status"].Text();
    if (available != "True") available += " (" + condition["reason"].Text() + ")";
  }
  return {in.Name(),
          service.Exists() ? service["namespace"].Text() + "/" + service["name"].Text() : "Local",
          available, in.Age()};
}

ColumnSet Counted(const char* column, const char* field) {
  return {{NameColumn(), NumberColumn(column), TextColumn("Age")},
          [field](const RowInput& in) -> Cells {
            return {in.Name(), static_cast<int64_t>(in.root[field].Size()), in.Age()};
          }};
}

// Columns that are fields of the document: {"Holder", "spec", "holderIdentity"}.
ColumnSet Field(const char* column, const char* parent, const char* field) {
  return {{NameColumn(), TextColumn(column), TextColumn("Age")},
          [parent, field](const RowInput& in) -> Cells {
            const JsonView from = *parent == '\0' ? in.root : in.root[parent];
            return {in.Name(), from[field].Text(), in.Age()};
          }};
}

}  // namespace

std::vector<KindColumns> ClusterColumns() {
  const Column name = NameColumn(), age = TextColumn("Age");
  const std::vector<Column> binding = {name,
                                       TextColumn("Role"),
                                       age,
                                       WideColumn("Users"),
                                       WideColumn("Groups"),
                                       WideColumn("ServiceAccounts")};
  return {
      {"networking.k8s.io",
       "ingresses",
       {{name, TextColumn("Class"), TextColumn("Hosts"), TextColumn("Address"), TextColumn("Ports"),
         age},
        IngressCells}},
      {"networking.k8s.io",
       "ingressclasses",
       {{name, TextColumn("Controller"), TextColumn("Parameters"), age}, IngressClassCells}},
      {"networking.k8s.io",
       "networkpolicies",
       {{name, TextColumn("Pod-Selector"), age},
        [](const RowInput& in) -> Cells {
          return {in.Name(), FormatSelector(in.root["spec"]["podSelector"]), in.Age()};
        }}},
      {"discovery.k8s.io",
       "endpointslices",
       {{name, TextColumn("AddressType"), TextColumn("Ports"), TextColumn("Endpoints"), age},
        SliceCells}},
      {"coordination.k8s.io", "leases", Field("Holder", "spec", "holderIdentity")},
      {"storage.k8s.io",
       "storageclasses",
       {{name, TextColumn("Provisioner"), TextColumn("ReclaimPolicy"),
         TextColumn("VolumeBindingMode"), TextColumn("AllowVolumeExpansion"), age},
        StorageClassCells}},
      {"storage.k8s.io",
       "volumeattachments",
       {{name, TextColumn("Attacher"), TextColumn("PV"), TextColumn("Node"), TextColumn("Attached"),
         age},
        AttachmentCells}},
      {"storage.k8s.io",
       "csinodes",
       {{name, NumberColumn("Drivers"), age},
        [](const RowInput& in) -> Cells {
          return {in.Name(), static_cast<int64_t>(in.root["spec"]["drivers"].Size()), in.Age()};
        }}},
      {"rbac.authorization.k8s.io", "rolebindings", {binding, BindingCells}},
      {"rbac.authorization.k8s.io", "clusterrolebindings", {binding, BindingCells}},
      {"certificates.k8s.io",
       "certificatesigningrequests",
       {{name, age, TextColumn("SignerName"), TextColumn("Requestor"),
         TextColumn("RequestedDuration"), TextColumn("Condition")},
        RequestCells}},
      {"scheduling.k8s.io",
       "priorityclasses",
       {{name, NumberColumn("Value"), TextColumn("Global-Default"), age,
         TextColumn("PreemptionPolicy")},
        [](const RowInput& in) -> Cells {
          return {in.Name(), in.root["value"].Number(),
                  in.root["globalDefault"].True() ? "true" : "false", in.Age(),
                  in.root["preemptionPolicy"].Text()};
        }}},
      {"node.k8s.io", "runtimeclasses", Field("Handler", "", "handler")},
      {"admissionregistration.k8s.io", "mutatingwebhookconfigurations",
       Counted("Webhooks", "webhooks")},
      {"admissionregistration.k8s.io", "validatingwebhookconfigurations",
       Counted("Webhooks", "webhooks")},
      {"apiregistration.k8s.io",
       "apiservices",
       {{name, TextColumn("Service"), TextColumn("Available"), age}, ServiceApiCells}},
  };
}

}  // namespace larder::tools
