// Pods, services, nodes and the other kinds of the core group.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tools/age.h"
#include "tools/columns/columns.h"

namespace larder::tools {
namespace {

// Containers that run beside the others although they are listed among the init containers.
bool IsSidecar(const JsonView& container) { return container["restartPolicy"].Text() == "Always"; }

struct Restarts {
  int64_t count = 0;
  std::string last;  // timestamp

  void Add(const JsonView& status) {
    count += status["restartCount"].Number();
    last = std::max(last, status["lastState"]["terminated"]["finishedAt"].Text());
  }
};

struct PodSummary {
  int64_t ready = 0;
  int64_t total = 0;
  Restarts restarts;
  Restarts sidecars;  // theirs alone
  std::string reason;
};

std::string TerminatedReason(const JsonView& terminated) {
  std::string reason = terminated["reason"].Text();
  if (!reason.empty()) return reason;
  const int64_t signal = terminated["signal"].Number();
  return signal != 0 ? fmt::format("Signal:{}", signal)
                     : fmt::format("ExitCode:{}", terminated["exitCode"].Number());
}

// What the first init container that is not through says; empty where all are.
std::string InitReason(const JsonView& root, PodSummary& pod) {
  const auto specs = root["spec"]["initContainers"].Items();
  const auto statuses = root["status"]["initContainerStatuses"].Items();
  const auto spec_of = [&](const std::string& name) {
    for (const JsonView& spec : specs) {
      if (spec["name"].Text() == name) return spec;
    }
    return JsonView();
  };
  for (size_t i = 0; i < statuses.size(); ++i) {
    const JsonView& status = statuses[i];
    const bool sidecar = IsSidecar(spec_of(status["name"].Text()));
    pod.restarts.Add(status);
    if (sidecar) pod.sidecars.Add(status);
    const JsonView terminated = status["state"]["terminated"];
    if (terminated.Exists() && terminated["exitCode"].Number() == 0) continue;
    if (sidecar && status["started"].True()) {
      if (status["ready"].True()) ++pod.ready;
      continue;
    }
    if (terminated.Exists()) return "Init:" + TerminatedReason(terminated);
    const std::string waiting = status["state"]["waiting"]["reason"].Text();
    if (!waiting.empty() && waiting != "PodInitializing") return "Init:" + waiting;
    return fmt::format("Init:{}/{}", i, specs.size());
  }
  return "";
}

bool HasCondition(const JsonView& root, std::string_view type) {
  for (const JsonView& condition : root["status"]["conditions"].Items()) {
    if (condition["type"].Text() == type) return condition["status"].Text() == "True";
  }
  return false;
}

void ContainerReason(const JsonView& root, PodSummary& pod) {
  bool running = false;
  auto statuses = root["status"]["containerStatuses"].Items();
  for (auto it = statuses.rbegin(); it != statuses.rend(); ++it) {
    const JsonView& status = *it;
    pod.restarts.Add(status);
    const JsonView terminated = status["state"]["terminated"];
    const std::string waiting = status["state"]["waiting"]["reason"].Text();
    if (!waiting.empty()) {
      pod.reason = waiting;
    } else if (terminated.Exists()) {
      pod.reason = TerminatedReason(terminated);
    } else if (status["ready"].True() && status["state"]["running"].Exists()) {
      running = true;
      ++pod.ready;
    }
  }
  if (pod.reason == "Completed" && running) {
    pod.reason = HasCondition(root, "Ready") ? "Running" : "NotReady";
  }
}

PodSummary Summarise(const RowInput& in) {
  PodSummary pod;
  const JsonView& root = in.root;
  pod.total = static_cast<int64_t>(root["spec"]["containers"].Size());
  for (const JsonView& container : root["spec"]["initContainers"].Items()) {
    if (IsSidecar(container)) ++pod.total;
  }
  pod.reason = root["status"]["reason"].Text(root["status"]["phase"].Text());
  for (const JsonView& condition : root["status"]["conditions"].Items()) {
    if (condition["type"].Text() == "PodScheduled" &&
        condition["reason"].Text() == "SchedulingGated") {
      pod.reason = "SchedulingGated";
    }
  }
  const std::string init = InitReason(root, pod);
  const bool initialising = !init.empty() && !HasCondition(root, "Initialized");
  if (initialising) {
    pod.reason = init;
  } else {
    // What restarted on the way is over; sidecars go on.
    pod.restarts = pod.sidecars;
    ContainerReason(root, pod);
  }
  if (in.object.deletion_timestamp() != 0) {
    const bool lost = root["status"]["reason"].Text() == "NodeLost";
    const std::string phase = root["status"]["phase"].Text();
    if (lost) {
      pod.reason = "Unknown";
    } else if (phase != "Failed" && phase != "Succeeded") {
      pod.reason = "Terminating";
    }
  }
  return pod;
}

std::string ReadinessGates(const JsonView& root) {
  const auto gates = root["spec"]["readinessGates"].Items();
  if (gates.empty()) return "<none>";
  int64_t open = 0;
  for (const JsonView& gate : gates) {
    if (HasCondition(root, gate["conditionType"].Text())) ++open;
  }
  return fmt::format("{}/{}", open, gates.size());
}

Cells PodCells(const RowInput& in) {
  const PodSummary pod = Summarise(in);
  std::string restarts = std::to_string(pod.restarts.count);
  if (pod.restarts.count != 0 && !pod.restarts.last.empty()) {
    restarts += fmt::format(" ({} ago)", AgeOf(pod.restarts.last, in.now));
  }
  std::string ip = in.root["status"]["podIP"].Text();
  const auto ips = in.root["status"]["podIPs"].Items();
  if (!ips.empty()) ip = ips.front()["ip"].Text();
  return {in.Name(),
          fmt::format("{}/{}", pod.ready, pod.total),
          pod.reason,
          restarts,
          in.Age(),
          OrNone(ip),
          OrNone(in.root["spec"]["nodeName"].Text()),
          OrNone(in.root["status"]["nominatedNodeName"].Text()),
          ReadinessGates(in.root)};
}

std::string ExternalIp(const JsonView& root) {
  const std::string type = root["spec"]["type"].Text("ClusterIP");
  std::vector<std::string> ips;
  for (const JsonView& ip : root["spec"]["externalIPs"].Items()) ips.push_back(ip.Text());
  if (type == "ExternalName") return root["spec"]["externalName"].Text();
  if (type != "LoadBalancer") return OrNone(Join(ips));
  std::vector<std::string> all;
  for (const JsonView& ingress : root["status"]["loadBalancer"]["ingress"].Items()) {
    all.push_back(ingress["ip"].Text(ingress["hostname"].Text()));
  }
  all.insert(all.end(), ips.begin(), ips.end());
  return OrNone(Join(all), "<pending>");
}

Cells ServiceCells(const RowInput& in) {
  const JsonView spec = in.root["spec"];
  std::vector<std::string> ports;
  for (const JsonView& port : spec["ports"].Items()) {
    const std::string node = port["nodePort"].Text();
    const std::string protocol = port["protocol"].Text("TCP");
    const bool on_nodes = !node.empty() && node != "0";
    ports.push_back(fmt::format("{}{}{}/{}", port["port"].Text(), on_nodes ? ":" : "",
                                on_nodes ? node : "", protocol));
  }
  std::string ip = spec["clusterIP"].Text();
  const auto ips = spec["clusterIPs"].Items();
  if (!ips.empty()) ip = ips.front().Text();
  return {in.Name(),
          spec["type"].Text("ClusterIP"),
          OrNone(ip),
          ExternalIp(in.root),
          OrNone(Join(ports)),
          in.Age(),
          FormatLabels(spec["selector"])};
}

std::string NodeAddress(const JsonView& root, std::string_view type) {
  for (const JsonView& address : root["status"]["addresses"].Items()) {
    if (address["type"].Text() == type) return address["address"].Text();
  }
  return "<none>";
}

Cells NodeCells(const RowInput& in) {
  std::string status = "Unknown";
  for (const JsonView& condition : in.root["status"]["conditions"].Items()) {
    if (condition["type"].Text() != "Ready") continue;
    status = condition["status"].Text() == "True" ? "Ready" : "NotReady";
  }
  if (in.root["spec"]["unschedulable"].True()) status += ",SchedulingDisabled";
  constexpr std::string_view kRole = "node-role.kubernetes.io/";
  std::set<std::string> roles;
  for (const auto& [key, value] : in.object.Labels()) {
    if (key.substr(0, kRole.size()) == kRole && key.size() > kRole.size()) {
      roles.emplace(key.substr(kRole.size()));
    } else if (key == "kubernetes.io/role" && !value.empty()) {
      roles.emplace(value);
    }
  }
  const JsonView info = in.root["status"]["nodeInfo"];
  return {in.Name(),
          status,
          OrNone(Join({roles.begin(), roles.end()})),
          in.Age(),
          info["kubeletVersion"].Text(),
          NodeAddress(in.root, "InternalIP"),
          NodeAddress(in.root, "ExternalIP"),
          OrNone(info["osImage"].Text(), "<unknown>"),
          OrNone(info["kernelVersion"].Text(), "<unknown>"),
          OrNone(info["containerRuntimeVersion"].Text(), "<unknown>")};
}

std::string EndpointsText(const JsonView& root) {
  constexpr size_t kMost = 3;
  std::vector<std::string> list;
  size_t count = 0;
  for (const JsonView& subset : root["subsets"].Items()) {
    const auto ports = subset["ports"].Items();
    for (const JsonView& address : subset["addresses"].Items()) {
      if (ports.empty() && ++count <= kMost) list.push_back(address["ip"].Text());
      for (const JsonView& port : ports) {
        if (++count <= kMost) list.push_back(address["ip"].Text() + ":" + port["port"].Text());
      }
    }
  }
  const std::string text = Join(list);
  return count > kMost ? fmt::format("{} + {} more...", text, count - kMost) : OrNone(text);
}

Cells EventCells(const RowInput& in) {
  const JsonView& root = in.root;
  const JsonView regarding = root["involvedObject"];
  std::string kind = regarding["kind"].Text();
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string first = root["firstTimestamp"].Text(root["eventTime"].Text());
  std::string last = root["lastTimestamp"].Text(first);
  if (root["series"].Exists()) last = root["series"]["lastObservedTime"].Text(last);
  const int64_t count = root["series"].Exists() ? root["series"]["count"].Number()
                                                : std::max<int64_t>(1, root["count"].Number());
  const std::string component = root["source"]["component"].Text(root["reportingComponent"].Text());
  const std::string host = root["source"]["host"].Text();
  return {AgeOf(last, in.now),
          root["type"].Text(),
          root["reason"].Text(),
          kind + "/" + regarding["name"].Text(),
          regarding["fieldPath"].Text(),
          host.empty() ? component : component + ", " + host,
          root["message"].Text(),
          AgeOf(first, in.now),
          count,
          in.Name()};
}

std::string AccessModes(const JsonView& modes) {
  std::vector<std::string> out;
  const std::pair<const char*, const char*> names[] = {{"ReadWriteOnce", "RWO"},
                                                       {"ReadOnlyMany", "ROX"},
                                                       {"ReadWriteMany", "RWX"},
                                                       {"ReadWriteOncePod", "RWOP"}};
  for (const auto& [name, letters] : names) {
    for (const JsonView& mode : modes.Items()) {
      if (mode.Text() == name) {
        out.emplace_back(letters);
        break;
      }
    }
  }
  return Join(out);
}

Cells ClaimCells(const RowInput& in) {
  const JsonView& root = in.root;
  const bool bound = !root["spec"]["volumeName"].Text().empty();
  const std::string phase =
      in.object.deletion_timestamp() != 0 ? "Terminating" : root["status"]["phase"].Text();
  return {in.Name(),
          phase,
          root["spec"]["volumeName"].Text(),
          bound ? root["status"]["capacity"]["storage"].Text() : "",
          bound ? AccessModes(root["status"]["accessModes"]) : "",
          root["spec"]["storageClassName"].Text(),
          root["spec"]["volumeAttributesClassName"].Text("<unset>"),
          in.Age(),
          root["spec"]["volumeMode"].Text("<unset>")};
}

Cells VolumeCells(const RowInput& in) {
  const JsonView& root = in.root;
  const JsonView claim = root["spec"]["claimRef"];
  const std::string phase =
      in.object.deletion_timestamp() != 0 ? "Terminating" : root["status"]["phase"].Text();
  return {in.Name(),
          root["spec"]["capacity"]["storage"].Text(),
          AccessModes(root["spec"]["accessModes"]),
          root["spec"]["persistentVolumeReclaimPolicy"].Text(),
          phase,
          claim.Exists() ? claim["namespace"].Text() + "/" + claim["name"].Text() : "",
          root["spec"]["storageClassName"].Text(),
          root["spec"]["volumeAttributesClassName"].Text("<unset>"),
          root["status"]["reason"].Text(),
          in.Age(),
          root["spec"]["volumeMode"].Text("<unset>")};
}

std::string QuotaText(const JsonView& root, bool limits) {
  std::vector<std::string> parts;
  for (const auto& [name, hard] : root["status"]["hard"].Fields()) {
    if ((name.substr(0, 7) == "limits.") != limits) continue;
    parts.push_back(
        fmt::format("{}: {}/{}", name, root["status"]["used"][name].Text(), hard.Text()));
  }
  std::sort(parts.begin(), parts.end());
  return Join(parts, ", ");
}

Cells CreatedAtCells(const RowInput& in) {
  return {in.Name(), in.root["metadata"]["creationTimestamp"].Text()};
}

}  // namespace

std::vector<KindColumns> CoreColumns() {
  const Column name = NameColumn(), age = TextColumn("Age");
  return {
      {"",
       "pods",
       {{name, TextColumn("Ready"), TextColumn("Status"), TextColumn("Restarts"), age,
         WideColumn("IP"), WideColumn("Node"), WideColumn("Nominated Node"),
         WideColumn("Readiness Gates")},
        PodCells}},
      {"",
       "services",
       {{name, TextColumn("Type"), TextColumn("Cluster-IP"), TextColumn("External-IP"),
         TextColumn("Port(s)"), age, WideColumn("Selector")},
        ServiceCells}},
      {"",
       "nodes",
       {{name, TextColumn("Status"), TextColumn("Roles"), age, TextColumn("Version"),
         WideColumn("Internal-IP"), WideColumn("External-IP"), WideColumn("OS-Image"),
         WideColumn("Kernel-Version"), WideColumn("Container-Runtime")},
        NodeCells}},
      {"",
       "namespaces",
       {{name, TextColumn("Status"), age},
        [](const RowInput& in) -> Cells {
          return {in.Name(), in.root["status"]["phase"].Text(), in.Age()};
        }}},
      {"",
       "configmaps",
       {{name, TextColumn("Data"), age},
        [](const RowInput& in) -> Cells {
          const size_t entries = in.root["data"].Size() + in.root["binaryData"].Size();
          return {in.Name(), std::to_string(entries), in.Age()};
        }}},
      {"",
       "secrets",
       {{name, TextColumn("Type"), TextColumn("Data"), age},
        [](const RowInput& in) -> Cells {
          return {in.Name(), in.root["type"].Text(), std::to_string(in.root["data"].Size()),
                  in.Age()};
        }}},
      {"",
       "endpoints",
       {{name, TextColumn("Endpoints"), age},
        [](const RowInput& in) -> Cells {
          return {in.Name(), EndpointsText(in.root), in.Age()};
        }}},
      {"",
       "events",
       {{TextColumn("Last Seen"),
         TextColumn("Type"),
         TextColumn("Reason"),
         TextColumn("Object"),
         WideColumn("Subobject"),
         WideColumn("Source"),
         TextColumn("Message"),
         WideColumn("First Seen"),
         {"Count", "integer", "", 1},
         {"Name", "string", "name", 1}},
        EventCells}},
      {"",
       "persistentvolumeclaims",
       {{name, TextColumn("Status"), TextColumn("Volume"), TextColumn("Capacity"),
         TextColumn("Access Modes"), TextColumn("StorageClass"),
         TextColumn("VolumeAttributesClass"), age, WideColumn("VolumeMode")},
        ClaimCells}},
      {"",
       "persistentvolumes",
       {{name, TextColumn("Capacity"), TextColumn("Access Modes"), TextColumn("Reclaim Policy"),
         TextColumn("Status"), TextColumn("Claim"), TextColumn("StorageClass"),
         TextColumn("VolumeAttributesClass"), TextColumn("Reason"), age, WideColumn("VolumeMode")},
        VolumeCells}},
      {"",
       "resourcequotas",
       {{name, TextColumn("Request"), TextColumn("Limit"), age},
        [](const RowInput& in) -> Cells {
          return {in.Name(), QuotaText(in.root, false), QuotaText(in.root, true), in.Age()};
        }}},
      {"", "limitranges", {{name, TextColumn("Created At")}, CreatedAtCells}},
      {"apiextensions.k8s.io",
       "customresourcedefinitions",
       {{name, TextColumn("Created At")}, CreatedAtCells}},
      {"rbac.authorization.k8s.io", "roles", {{name, TextColumn("Created At")}, CreatedAtCells}},
      {"rbac.authorization.k8s.io",
       "clusterroles",
       {{name, TextColumn("Created At")}, CreatedAtCells}},
  };
}

}  // namespace larder::tools
