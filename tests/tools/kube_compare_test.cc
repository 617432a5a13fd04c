// kubectl against the real kube-apiserver and against `larder serve` on a store that was filled
// from it: the same rows, the same objects. Run by `./dev kube test`.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "schema/object.h"
#include "tests/tools/background.h"
#include "tests/tools/process.h"

namespace larder {
namespace {

constexpr const char* kManifests = R"(
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: In, values: [b, a]}]}
  template:
    metadata: {labels: {app: web, tier: a}}
    spec: {containers: [{name: c, image: "img:1"}, {name: d, image: "img:2"}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "img:1"}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: "img:1"}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {nodeSelector: {disk: ssd}, containers: [{name: c, image: "img:1"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: shop}
spec: {completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: NodePort, selector: {app: web}, ports: [{name: a, port: 80, nodePort: 30080}, {name: s, port: 443}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop, annotations: {note: "a: b # c"}}
data: {a: "1", text: "several\nlines\n", odd: "  x", "yes": "no"}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node-role.kubernetes.io/worker: ""}}
spec: {unschedulable: true}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: fast}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv1}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce, ReadOnlyMany]
  hostPath: {path: /tmp/x}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front, namespace: shop}
spec:
  tls: [{hosts: [a.example.com]}]
  rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.com/disk
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: x, namespace: shop}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: leader, namespace: shop}
spec: {holderIdentity: me}
---
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
involvedObject: {kind: Pod, name: web-0, namespace: shop}
type: Warning
reason: BackOff
message: it fell over
count: 3
source: {component: kubelet, host: n1}
firstTimestamp: "2024-02-01T00:00:00Z"
lastTimestamp: "2024-02-01T01:00:00Z"
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, description: A widget., properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Colour, type: string, jsonPath: .spec.colour, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
)";

constexpr const char* kPods = R"(
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec: {nodeName: n1, automountServiceAccountToken: false, containers: [{name: c, image: "img:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: shop, labels: {app: db}}
spec: {automountServiceAccountToken: false, readinessGates: [{conditionType: x.io/y}], containers: [{name: c, image: i}], initContainers: [{name: i, image: i}, {name: s, image: i, restartPolicy: Always}]}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: small, namespace: shop}
spec: {size: 3, colour: red}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: unknown, namespace: shop}
spec: {}
)";

class KubeCompareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const folder = std::getenv("LARDER_KUBE_DIR");
    ASSERT_NE(folder, nullptr) << "run by ./dev kube test";
    real_ = std::string(folder) + "/kubeconfig";
    Write("manifests.yaml", kManifests);
    Write("pods.yaml", kPods);
    ASSERT_TRUE(Apply("manifests.yaml"));
    // Without a controller manager nobody makes the service account that pods need.
    (void)Kubectl(real_, {"create", "serviceaccount", "default", "-n", "shop"});
    ASSERT_TRUE(Apply("pods.yaml"));
    const Outcome status = Kubectl(
        real_, {"patch", "pod", "web-0", "-n", "shop", "--subresource", "status", "-p",
                R"({"status":{"phase":"Running","podIP":"10.0.0.7","podIPs":[{"ip":"10.0.0.7"}],
                    "containerStatuses":[{"name":"c","image":"i","imageID":"i","ready":true,
                    "restartCount":2,"state":{"running":{}},"lastState":{"terminated":
                    {"exitCode":1,"finishedAt":"2024-01-01T00:00:00Z"}}}]}})"});
    ASSERT_EQ(status.exit_code, 0) << status.err;
    const Outcome filled = RunLarder({"run",
                                      "pods",
                                      "deploy",
                                      "rs",
                                      "sts",
                                      "ds",
                                      "jobs",
                                      "cronjobs",
                                      "svc",
                                      "cm",
                                      "ns",
                                      "nodes",
                                      "pvc",
                                      "pv",
                                      "ing",
                                      "netpol",
                                      "pdb",
                                      "hpa",
                                      "sc",
                                      "rolebindings",
                                      "clusterroles",
                                      "leases",
                                      "events",
                                      "crd",
                                      "widgets",
                                      "sa",
                                      "--store",
                                      scratch_ / "store",
                                      "--kubeconfig",
                                      real_,
                                      "--until-synced"});
    ASSERT_EQ(filled.exit_code, 0) << filled.err;
    ours_ = scratch_ / "larder.kubeconfig";
    server_ = std::make_unique<Background>(std::vector<std::string>{
        "serve", "--store", scratch_ / "store", "--write-kubeconfig", ours_});
  }

  void Write(const std::string& name, const char* text) { std::ofstream(scratch_ / name) << text; }
  // A new kind is served some moments after it was accepted.
  bool Apply(const std::string& name) {
    Outcome applied;
    for (int i = 0; i < 10; ++i) {
      applied = Kubectl(real_, {"apply", "-f", scratch_ / name});
      if (applied.exit_code == 0) return true;
    }
    ADD_FAILURE() << applied.err;
    return false;
  }
  Outcome Kubectl(const std::string& kubeconfig, const std::vector<std::string>& words) const {
    RunOptions options;
    options.program = "kubectl";
    options.environment = {"KUBECONFIG=" + kubeconfig, "HOME=" + scratch_.path()};
    return RunLarder(words, options);
  }
  void Compare(const std::vector<std::string>& words) {
    const auto [theirs, ours] =
        Neighbours([&] { return Kubectl(real_, words); }, [&] { return Kubectl(ours_, words); });
    EXPECT_EQ(theirs.exit_code, ours.exit_code) << theirs.err << ours.err;
    EXPECT_EQ(theirs.out, ours.out) << testing::PrintToString(words);
  }
  // Both in turn until two neighbours print the same: ages pass between two calls, and on a busy
  // machine a second does.
  template <typename Theirs, typename Ours>
  static std::pair<Outcome, Outcome> Neighbours(const Theirs& theirs, const Ours& ours) {
    std::pair<Outcome, Outcome> last{theirs(), ours()};
    for (int i = 0; i < 20 && last.first.out != last.second.out; ++i) {
      if (i % 2 == 0) {
        last.first = theirs();
      } else {
        last.second = ours();
      }
    }
    return last;
  }

  ScratchDirectory scratch_;
  std::string real_, ours_;
  std::unique_ptr<Background> server_;
};

TEST_F(KubeCompareTest, SameRowsAndSameObjects) {
  for (const char* resource :
       {"pods", "deploy", "rs",           "sts",          "ds",     "jobs", "cronjobs", "svc",
        "cm",   "ns",     "nodes",        "pvc",          "pv",     "ing",  "netpol",   "pdb",
        "hpa",  "sc",     "rolebindings", "clusterroles", "events", "crd",  "wd",       "sa"}) {
    // Of the hundreds of events that other tests left, one has always just become a second older.
    const std::string where = std::string(resource) == "events" ? "--namespace=shop" : "-A";
    Compare({"get", resource, where});
    Compare({"get", resource, where, "-o", "wide"});
    Compare({"get", resource, "-A", "-o", "yaml"});
    Compare({"get", resource, "-A", "-o", "json"});
  }
  // Not in all namespaces: the API server renews a lease of its own every few seconds.
  Compare({"get", "leases", "-n", "shop"});
  Compare({"get", "leases", "-n", "shop", "-o", "yaml"});
  Compare({"get", "pods", "-n", "shop", "-l", "app=web"});
  Compare({"get", "pods", "-n", "shop", "-l", "app in (web,db),!x", "--show-labels"});
  Compare({"get", "pods", "-A", "--field-selector", "spec.nodeName=n1"});
  Compare({"get", "pod", "web-0", "-n", "shop", "-o", "jsonpath={.spec.containers[*].image}"});
  Compare({"get", "pod", "nobody", "-n", "shop"});
  Compare({"get", "deploy,svc", "-n", "shop"});
  Compare({"get", "pods", "-A", "--chunk-size", "1"});
  Compare({"get", "pods", "-A", "--sort-by", ".metadata.name"});
  Compare({"describe", "pod", "web-0", "-n", "shop"});
  Compare({"describe", "deploy", "web", "-n", "shop"});
  Compare({"describe", "node", "n1"});
  Compare({"describe", "widget", "small", "-n", "shop"});
}

// What `larder get` prints itself, beside what kubectl prints from the real server.
TEST_F(KubeCompareTest, GetPrintsWhatKubectlPrints) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"get", "pods", "-A", "-o", "wide"},
                                             {"get", "deploy,rs,sts,ds", "-n", "shop"},
                                             {"get", "nodes", "-o", "wide"},
                                             {"get", "cm", "settings", "-n", "shop", "-o", "yaml"},
                                             {"get", "svc", "-n", "shop", "-o", "wide"},
                                             {"get", "wd", "-n", "shop"},
                                             {"get", "pods", "-A", "-o", "json"}}) {
    std::vector<std::string> mine = words;
    mine.insert(mine.end(), {"--store", scratch_ / "store"});
    const auto [theirs, ours] =
        Neighbours([&] { return Kubectl(real_, words); }, [&] { return RunLarder(mine); });
    EXPECT_EQ(theirs.out, ours.out) << testing::PrintToString(words) << ours.err;
  }
}

}  // namespace
}  // namespace larder
