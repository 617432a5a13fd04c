// Deployments, jobs and the other kinds that make pods.
#include <fmt/format.h>

#include "tools/age.h"
#include "tools/columns/columns.h"

namespace larder::tools {
namespace {

struct Containers {
  std::string names;
  std::string images;
};

Containers ContainersOf(const JsonView& template_spec) {
  std::vector<std::string> names, images;
  for (const JsonView& container : template_spec["containers"].Items()) {
    names.push_back(container["name"].Text());
    images.push_back(container["image"].Text());
  }
  return {Join(names), Join(images)};
}

Cells DeploymentCells(const RowInput& in) {
  const JsonView spec = in.root["spec"], status = in.root["status"];
  const Containers containers = ContainersOf(spec["template"]["spec"]);
  return {in.Name(),
          fmt::format("{}/{}", status["readyReplicas"].Number(), spec["replicas"].Number(1)),
          std::to_string(status["updatedReplicas"].Number()),
          std::to_string(status["availableReplicas"].Number()),
          in.Age(),
          containers.names,
          containers.images,
          FormatSelector(spec["selector"])};
}

Cells ReplicaSetCells(const RowInput& in) {
  const JsonView spec = in.root["spec"], status = in.root["status"];
  const Containers containers = ContainersOf(spec["template"]["spec"]);
  return {in.Name(),
          spec["replicas"].Number(1),
          status["replicas"].Number(),
          status["readyReplicas"].Number(),
          in.Age(),
          containers.names,
          containers.images,
          FormatSelector(spec["selector"])};
}

Cells ReplicationControllerCells(const RowInput& in) {
  Cells cells = ReplicaSetCells(in);
  cells.back() = FormatLabels(in.root["spec"]["selector"]);
  return cells;
}

Cells StatefulSetCells(const RowInput& in) {
  const JsonView spec = in.root["spec"];
  const Containers containers = ContainersOf(spec["template"]["spec"]);
  return {
      in.Name(),
      fmt::format("{}/{}", in.root["status"]["readyReplicas"].Number(), spec["replicas"].Number(1)),
      in.Age(), containers.names, containers.images};
}

Cells DaemonSetCells(const RowInput& in) {
  const JsonView spec = in.root["spec"], status = in.root["status"];
  const Containers containers = ContainersOf(spec["template"]["spec"]);
  return {in.Name(),
          status["desiredNumberScheduled"].Number(),
          status["currentNumberScheduled"].Number(),
          status["numberReady"].Number(),
          status["updatedNumberScheduled"].Number(),
          status["numberAvailable"].Number(),
          FormatLabels(spec["template"]["spec"]["nodeSelector"]),
          in.Age(),
          containers.names,
          containers.images,
          FormatSelector(spec["selector"])};
}

bool JobHas(const JsonView& root, std::string_view type) {
  for (const JsonView& condition : root["status"]["conditions"].Items()) {
    if (condition["type"].Text() == type && condition["status"].Text() == "True") return true;
  }
  return false;
}

std::string JobStatus(const RowInput& in) {
  if (JobHas(in.root, "Complete")) return "Complete";
  if (JobHas(in.root, "Failed")) return "Failed";
  if (in.object.deletion_timestamp() != 0) return "Terminating";
  if (JobHas(in.root, "Suspended")) return "Suspended";
  if (JobHas(in.root, "FailureTarget")) return "FailureTarget";
  if (JobHas(in.root, "SuccessCriteriaMet")) return "SuccessCriteriaMet";
  return "Running";
}

Cells JobCells(const RowInput& in) {
  const JsonView spec = in.root["spec"], status = in.root["status"];
  std::string completions;
  const int64_t succeeded = status["succeeded"].Number(), parallel = spec["parallelism"].Number();
  if (spec["completions"].Exists()) {
    completions = fmt::format("{}/{}", succeeded, spec["completions"].Number());
  } else if (parallel > 1) {
    completions = fmt::format("{}/1 of {}", succeeded, parallel);
  } else {
    completions = fmt::format("{}/1", succeeded);
  }
  std::string duration;
  if (status["startTime"].Exists()) {
    const int64_t start = ParseTimestamp(status["startTime"].Text());
    const int64_t end = status["completionTime"].Exists()
                            ? ParseTimestamp(status["completionTime"].Text())
                            : in.now;
    duration = HumanDuration(std::chrono::seconds(end - start));
  }
  const Containers containers = ContainersOf(spec["template"]["spec"]);
  return {in.Name(), JobStatus(in),    completions,       duration,
          in.Age(),  containers.names, containers.images, FormatSelector(spec["selector"])};
}

Cells CronJobCells(const RowInput& in) {
  const JsonView spec = in.root["spec"], status = in.root["status"];
  const JsonView job = spec["jobTemplate"]["spec"];
  const Containers containers = ContainersOf(job["template"]["spec"]);
  const std::string last = status["lastScheduleTime"].Text();
  return {in.Name(),
          spec["schedule"].Text(),
          spec["timeZone"].Text("<none>"),
          spec["suspend"].True() ? "True" : "False",
          static_cast<int64_t>(status["active"].Size()),
          last.empty() ? "<none>" : AgeOf(last, in.now),
          in.Age(),
          containers.names,
          containers.images,
          FormatSelector(job["selector"])};
}

Cells RevisionCells(const RowInput& in) {
  std::string controller = "<none>";
  for (const OwnerReference& owner : in.object.Owners()) {
    if (!owner.controller) continue;
    std::string kind = owner.kind;
    for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::string group = owner.api_version.substr(0, owner.api_version.find('/'));
    controller = owner.api_version.find('/') == std::string::npos
                     ? fmt::format("{}/{}", kind, owner.name)
                     : fmt::format("{}.{}/{}", kind, group, owner.name);
  }
  return {in.Name(), controller, in.root["revision"].Number(), in.Age()};
}

// One metric: "cpu: 30%/80%".
std::string MetricText(const JsonView& metric, const JsonView& status) {
  const std::string type = metric["type"].Text();
  std::string field = type;
  if (!field.empty()) field[0] = static_cast<char>(std::tolower(field[0]));
  const JsonView target = metric[field]["target"];
  JsonView current;
  for (const JsonView& entry : status["currentMetrics"].Items()) {
    const bool same =
        entry["type"].Text() == type && entry[field]["name"].Text() == metric[field]["name"].Text();
    if (same) current = entry[field]["current"];
  }
  const std::string name =
      type == "Resource" || type == "ContainerResource" ? metric[field]["name"].Text() + ": " : "";
  if (target["averageUtilization"].Exists()) {
    const std::string now = current["averageUtilization"].Exists()
                                ? current["averageUtilization"].Text() + "%"
                                : "<unknown>";
    return fmt::format("{}{}/{}%", name, now, target["averageUtilization"].Text());
  }
  if (target["averageValue"].Exists()) {
    return fmt::format("{}{}/{}{}", name, current["averageValue"].Text("<unknown>"),
                       target["averageValue"].Text(), name.empty() ? " (avg)" : "");
  }
  return fmt::format("{}{}/{}", name, current["value"].Text("<unknown>"), target["value"].Text());
}

Cells AutoscalerCells(const RowInput& in) {
  constexpr size_t kMost = 2;
  const JsonView spec = in.root["spec"], status = in.root["status"];
  std::vector<std::string> targets;
  const auto metrics = spec["metrics"].Items();
  for (const JsonView& metric : metrics) {
    if (targets.size() < kMost) targets.push_back(MetricText(metric, status));
  }
  std::string text = OrNone(Join(targets, ", "));
  if (metrics.size() > kMost) text += fmt::format(" + {} more...", metrics.size() - kMost);
  return {in.Name(),
          spec["scaleTargetRef"]["kind"].Text() + "/" + spec["scaleTargetRef"]["name"].Text(),
          text,
          spec["minReplicas"].Text("<unset>"),
          spec["maxReplicas"].Number(),
          status["currentReplicas"].Number(),
          in.Age()};
}

Cells BudgetCells(const RowInput& in) {
  const JsonView spec = in.root["spec"];
  return {in.Name(), spec["minAvailable"].Text("N/A"), spec["maxUnavailable"].Text("N/A"),
          in.root["status"]["disruptionsAllowed"].Number(), in.Age()};
}

}  // namespace

std::vector<KindColumns> WorkloadColumns() {
  const Column name = NameColumn(), age = TextColumn("Age");
  const Column containers = WideColumn("Containers"), images = WideColumn("Images"),
               selector = WideColumn("Selector");
  return {
      {"apps",
       "deployments",
       {{name, TextColumn("Ready"), TextColumn("Up-to-date"), TextColumn("Available"), age,
         containers, images, selector},
        DeploymentCells}},
      {"apps",
       "replicasets",
       {{name, NumberColumn("Desired"), NumberColumn("Current"), NumberColumn("Ready"), age,
         containers, images, selector},
        ReplicaSetCells}},
      {"",
       "replicationcontrollers",
       {{name, NumberColumn("Desired"), NumberColumn("Current"), NumberColumn("Ready"), age,
         containers, images, selector},
        ReplicationControllerCells}},
      {"apps",
       "statefulsets",
       {{name, TextColumn("Ready"), age, containers, images}, StatefulSetCells}},
      {"apps",
       "daemonsets",
       {{name, NumberColumn("Desired"), NumberColumn("Current"), NumberColumn("Ready"),
         NumberColumn("Up-to-date"), NumberColumn("Available"), TextColumn("Node Selector"), age,
         containers, images, selector},
        DaemonSetCells}},
      {"apps",
       "controllerrevisions",
       {{name, TextColumn("Controller"), NumberColumn("Revision"), age}, RevisionCells}},
      {"batch",
       "jobs",
       {{name, TextColumn("Status"), TextColumn("Completions"), TextColumn("Duration"), age,
         containers, images, selector},
        JobCells}},
      {"batch",
       "cronjobs",
       {{name, TextColumn("Schedule"), TextColumn("Timezone"), TextColumn("Suspend"),
         NumberColumn("Active"), TextColumn("Last Schedule"), age, containers, images, selector},
        CronJobCells}},
      {"autoscaling",
       "horizontalpodautoscalers",
       {{name, TextColumn("Reference"), TextColumn("Targets"), TextColumn("MinPods"),
         NumberColumn("MaxPods"), NumberColumn("Replicas"), age},
        AutoscalerCells}},
      {"policy",
       "poddisruptionbudgets",
       {{name, TextColumn("Min Available"), TextColumn("Max Unavailable"),
         NumberColumn("Allowed Disruptions"), age},
        BudgetCells}},
  };
}

}  // namespace larder::tools
