// An operator with a resource of its own: for each pod that crashes or restarts too often it keeps
// a Remediation, which says what is wrong and what to do, and removes it when the pod is well
// again.
//
// For Pod, Owns Remediation, Watches ConfigMap: the ConfigMap "remediation-policy" of a namespace
// says how many restarts are too many, and a change of it puts all pods of the namespace into the
// queue. Needs deploy/base/crd.yaml in the cluster.
#include <charconv>
#include <numeric>
#include <set>

#include "controller/builder.h"
#include "controller/owner.h"

using namespace larder;

namespace {

constexpr const char* kRemediations = "remediations.v1alpha1.aiops.example.com";
constexpr const char* kPolicy = "remediation-policy";
constexpr const char* kFieldManager = "anomaly-remediator";

struct Anomaly {
  std::string reason;
  int64_t restarts = 0;
};

int64_t ToNumber(const std::string& text, int64_t otherwise) {
  std::from_chars(text.data(), text.data() + text.size(), otherwise);
  return otherwise;
}

Result<int64_t> MaxRestarts(CachedClient& client, const std::string& ns) {
  LARDER_ASSIGN_OR_RETURN(const ObjectPtr policy, client.Find("configmaps", {ns, kPolicy}));
  if (!policy) return 5;
  static const FieldPath path = *FieldPath::Parse("data.maxRestarts");
  return ToNumber(path.Value(*policy).value_or("5"), 5);
}

std::optional<Anomaly> FindAnomaly(const Object& pod, int64_t max_restarts) {
  static const FieldPath restarts = *FieldPath::Parse("status.containerStatuses.restartCount");
  static const FieldPath waiting =
      *FieldPath::Parse("status.containerStatuses.state.waiting.reason");
  static const std::set<std::string> kBroken = {"CrashLoopBackOff", "ImagePullBackOff"};
  const auto counts = restarts.Values(pod);
  const int64_t total =
      std::accumulate(counts.begin(), counts.end(), int64_t{0},
                      [](int64_t sum, const auto& count) { return sum + ToNumber(count, 0); });
  for (const std::string& reason : waiting.Values(pod)) {
    if (kBroken.contains(reason)) return Anomaly{reason, total};
  }
  if (total > max_restarts) return Anomaly{"TooManyRestarts", total};
  return std::nullopt;
}

Json MakeRemediation(const Object& pod, const Anomaly& anomaly) {
  Json intent;
  intent["metadata"]["name"] = pod.name();
  intent["metadata"]["namespace"] = pod.ns();
  intent["spec"]["podName"] = pod.name();
  intent["spec"]["reason"] = anomaly.reason;
  intent["spec"]["restarts"] = anomaly.restarts;
  intent["spec"]["action"] = anomaly.reason == "ImagePullBackOff" ? "Report" : "RestartPod";
  return intent;
}

bool IsInLine(const Object& remediation, const Object& pod, const Json& intent) {
  const Json spec = remediation.ToMutable().value("spec", Json::object());
  for (const auto& [field, value] : intent.at("spec").items()) {
    if (!spec.contains(field) || spec.at(field) != value) return false;
  }
  return IsControlledBy(remediation, pod);
}

// Made for this pod, which may be gone; what somebody else put there under its name is not ours.
bool IsOurs(const Object& remediation, const ObjectKey& pod) {
  const auto owner = ControllerOf(remediation);
  return owner && owner->kind == "Pod" && owner->name == pod.name;
}

class Remediator final : public Reconciler {
 public:
  Result<Outcome> Reconcile(ReconcileContext& context, const ReconcileRequest& request) override {
    CachedClient& client = context.client();
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr pod, client.Find("pods", request.key));
    LARDER_ASSIGN_OR_RETURN(const int64_t limit, MaxRestarts(client, request.key.ns));
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr present, client.Find(kRemediations, request.key));
    const auto anomaly = pod ? FindAnomaly(*pod, limit) : std::nullopt;
    if (!anomaly) {
      if (!present || !IsOurs(*present, request.key)) return Outcome::Done();
      context.log().Info("no remediation is needed any more");
      LARDER_RETURN_IF_ERROR(client.Delete(kRemediations, request.key, {}, context.stop()));
      return Outcome::Done();
    }
    Json intent = MakeRemediation(*pod, *anomaly);
    if (present && IsInLine(*present, *pod, intent)) return Outcome::Done();
    LARDER_RETURN_IF_ERROR(SetControllerReference(intent, *pod));
    LARDER_RETURN_IF_ERROR(
        client.Apply(kRemediations, intent, kFieldManager, /*force=*/true, context.stop()));
    context.log().Info("remediation for {}", anomaly->reason);
    context.Event(*pod, EventLevel::kWarning, "AnomalyFound", anomaly->reason);
    return Outcome::Done();
  }
};

// All pods of the policy's namespace.
MapFunction PodsOfThePolicy(CachedClient& client) {
  return [&client](const Object& config) {
    std::vector<ObjectKey> keys;
    if (config.name() != kPolicy) return keys;
    Query query;
    query.ns = std::string(config.ns());
    if (const auto pods = client.List("pods", query)) {
      for (const ObjectPtr& pod : *pods) keys.push_back(pod->key());
    }
    return keys;
  };
}

}  // namespace

int main(int argc, char** argv) {
  return RunManager(argc, argv, [](Manager& manager) {
    return ControllerBuilder(manager)
        .Named("anomaly-remediator")
        .For("pods")
        .Owns(kRemediations)
        .Watches("configmaps", PodsOfThePolicy(manager.client()))
        .WithOptions({.max_concurrent_reconciles = 5})
        .Complete(std::make_shared<Remediator>());
  });
}
