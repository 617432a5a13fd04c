#include "apiserver/workload.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <string_view>

namespace larder::apiserver {
namespace {

constexpr uint64_t kPodsPerOwner = 10;
constexpr int64_t kEpoch = 1'767'225'600;  // 2026-01-01
constexpr std::array<std::string_view, 12> kTeams = {"ads",    "billing", "cart",    "checkout",
                                                     "feed",   "fraud",   "media",   "orders",
                                                     "search", "ship",    "support", "users"};
constexpr std::array<std::string_view, 8> kComponents = {"api",    "cache",  "cron",   "gateway",
                                                         "ingest", "reader", "worker", "writer"};
constexpr std::array<std::string_view, 6> kEnvNames = {"CACHE_URL", "FEATURE_FLAGS", "HTTP_PROXY",
                                                       "LOG_LEVEL", "REGION",        "TRACE_RATE"};

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::string Hex(uint64_t seed, size_t digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out(digits, '0');
  uint64_t bits = 0;
  for (size_t i = 0; i < digits; ++i) {
    if (i % 16 == 0) bits = Mix(seed, i);
    out[i] = kDigits[bits & 15];
    bits >>= 4;
  }
  return out;
}

// The letters that generated names are made of.
std::string Letters(uint64_t seed, size_t count) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (size_t i = 0; i < count; ++i) out += kLetters[Mix(seed, i) % kLetters.size()];
  return out;
}

std::string UidFrom(uint64_t seed) {
  std::string out = Hex(seed, 32);
  out[12] = '4';
  out[16] = "89ab"[static_cast<size_t>(seed & 3)];
  for (const size_t at : {8U, 13U, 18U, 23U}) out.insert(at, 1, '-');
  return out;
}

std::string Time(int64_t seconds) {
  std::tm parts{};
  const auto time = static_cast<time_t>(seconds);
  gmtime_r(&time, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// What the pods of one owner share.
struct Owner {
  uint64_t hash = 0;
  bool stateful = false;
  bool sidecar = false;
  size_t env = 0;
  std::string_view team;
  std::string_view component;
  std::string app;          // ads-api-100
  std::string ns;           // ads-007
  std::string replica_set;  // ads-api-100-qb2c7h4l9q, or the StatefulSet's name
  std::string template_hash;
  std::string version;
};

// One pod while its text is made.
class PodWriter {
 public:
  PodWriter(const Owner& owner, std::string name, std::string uid, std::string node, uint64_t hash,
            const PodVersion& pod)
      : owner_(owner),
        name_(std::move(name)),
        uid_(std::move(uid)),
        node_(std::move(node)),
        hash_(hash),
        revision_(pod.revision),
        created_(pod.created != 0 ? pod.created : kEpoch + static_cast<int64_t>(hash % 2'000'000)),
        changed_(created_ + 12 + 37 * static_cast<int64_t>(pod.revision)),
        written_(pod.written != 0 ? pod.written : changed_) {
    pod_ip_ = Ip(100, hash);
    host_ip_ = Ip(10, Mix(7, hash));
    out_.text.reserve(10 * 1024);
  }

  PreparedBody Write() && {
    Metadata();
    Spec();
    Status();
    return std::move(out_);
  }

 private:
  template <typename... Parts>
  void Add(const Parts&... parts) {
    (out_.text.append(parts), ...);
  }

  static std::string Ip(int first, uint64_t hash) {
    char text[32];
    std::snprintf(text, sizeof(text), "%d.%d.%d.%d", first, static_cast<int>(hash >> 8 & 127) + 64,
                  static_cast<int>(hash >> 16 & 255), static_cast<int>(hash >> 24 & 255));
    return text;
  }
  std::string Image() const {
    return std::string("registry.internal.example.com/")
        .append(owner_.team)
        .append("/")
        .append(owner_.component);
  }
  // A revision in four is a pod that is not ready.
  bool Ready() const { return revision_ % 4 != 1; }

  void Metadata() {
    Add(R"({"metadata":{"name":")", name_, R"(","generateName":")", owner_.replica_set,
        R"(-","namespace":")", owner_.ns, R"(","uid":")", uid_, R"(","resourceVersion":")");
    out_.version_at = out_.text.size();
    Add(R"(","generation":1,"creationTimestamp":")", Time(created_), R"(","labels":{)");
    Add(R"("app.kubernetes.io/component":")", owner_.component, R"(","app.kubernetes.io/name":")",
        owner_.app, R"(","app.kubernetes.io/part-of":")", owner_.team,
        R"(","app.kubernetes.io/version":")", owner_.version, R"(","environment":)");
    Add(owner_.hash % 5 == 0 ? R"("staging")" : R"("production")", R"(,"pod-template-hash":")",
        owner_.template_hash, R"(","team":")", owner_.team, R"("},"annotations":{)");
    Add(R"("checksum/config":")", Hex(owner_.hash, 64),
        R"(","kubectl.kubernetes.io/restartedAt":")",
        Time(kEpoch + static_cast<int64_t>(owner_.hash % 1'000'000)),
        R"(","prometheus.io/path":"/metrics","prometheus.io/port":"9090","prometheus.io/scrape":"true"},)");
    Add(R"("ownerReferences":[{"apiVersion":"apps/v1","kind":")",
        owner_.stateful ? "StatefulSet" : "ReplicaSet", R"(","name":")", owner_.replica_set,
        R"(","uid":")", UidFrom(owner_.hash),
        R"(","controller":true,"blockOwnerDeletion":true}],"managedFields":[)");
    ControllerFields();
    Add(",");
    KubeletFields();
    Add("]}");
    out_.metadata_end = out_.text.size();
  }

  void ControllerFields() {
    Add(R"({"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":")",
        Time(created_),
        R"(","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},)",
        R"("f:checksum/config":{},"f:kubectl.kubernetes.io/restartedAt":{},"f:prometheus.io/path":{},)",
        R"("f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},)",
        R"("f:app.kubernetes.io/component":{},"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/part-of":{},)",
        R"("f:app.kubernetes.io/version":{},"f:environment":{},"f:pod-template-hash":{},"f:team":{}},)",
        R"("f:ownerReferences":{".":{},"k:{\"uid\":\")", UidFrom(owner_.hash),
        R"(\"}":{}}},"f:spec":{"f:containers":{)");
    ContainerFields("app", true);
    if (owner_.sidecar) {
      Add(",");
      ContainerFields("envoy", false);
    }
    Add(R"(},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:nodeName":{},"f:restartPolicy":{},)",
        R"("f:schedulerName":{},"f:securityContext":{},"f:serviceAccount":{},"f:serviceAccountName":{},)",
        R"("f:terminationGracePeriodSeconds":{},"f:tolerations":{},"f:volumes":{".":{},)",
        R"("k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:defaultMode":{},"f:name":{}},"f:name":{}},)",
        R"("k:{\"name\":\"tmp\"}":{".":{},"f:emptyDir":{},"f:name":{}}}}}})");
  }

  void ContainerFields(std::string_view name, bool main) {
    constexpr std::string_view kProbe =
        R"({".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},)"
        R"("f:initialDelaySeconds":{},"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}})";
    Add(R"("k:{\"name\":\")", name, R"(\"}":{".":{},"f:env":{".":{})");
    for (size_t i = 0; i < (main ? owner_.env : 1); ++i) {
      Add(R"(,"k:{\"name\":\")", kEnvNames[i], R"(\"}":{".":{},"f:name":{},"f:value":{}})");
    }
    Add(R"(},"f:image":{},"f:imagePullPolicy":{},)");
    if (main) Add(R"("f:livenessProbe":)", kProbe, ",");
    Add(R"("f:name":{},"f:ports":{".":{},"k:{\"containerPort\":)", main ? "8080" : "15000",
        R"(,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},)",
        R"("f:readinessProbe":)", kProbe,
        R"(,"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},)",
        R"("f:terminationMessagePath":{},"f:terminationMessagePolicy":{},"f:volumeMounts":{".":{},)",
        R"("k:{\"mountPath\":\"/tmp\"}":{".":{},"f:mountPath":{},"f:name":{}}}})");
  }

  void KubeletFields() {
    Add(R"({"manager":"kubelet","operation":"Update","apiVersion":"v1","time":")", Time(written_),
        R"(","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{".":{})");
    for (const std::string_view type :
         {"ContainersReady", "Initialized", "PodReadyToStartContainers", "PodScheduled", "Ready"}) {
      Add(R"(,"k:{\"type\":\")", type,
          R"(\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}})");
    }
    Add(R"(},"f:containerStatuses":{},"f:hostIP":{},"f:hostIPs":{},"f:phase":{},"f:podIP":{},)",
        R"("f:podIPs":{".":{},"k:{\"ip\":\")", pod_ip_,
        R"(\"}":{".":{},"f:ip":{}}},"f:startTime":{}}},"subresource":"status"})");
  }

  void Container(std::string_view name, const std::string& image, bool main) {
    Add(R"({"name":")", name, R"(","image":")", image, R"(",)");
    if (main) Add(R"("args":["--config=/etc/app/config.yaml","--listen=:8080"],)");
    Add(R"("ports":[{"name":")", main ? "http" : "admin", R"(","containerPort":)",
        main ? "8080" : "15000", R"(,"protocol":"TCP"}],"env":[)");
    for (size_t i = 0; i < (main ? owner_.env : 1); ++i) {
      if (i > 0) Add(",");
      Add(R"({"name":")", kEnvNames[i], R"(","value":")", owner_.app, "-",
          std::to_string(owner_.hash >> 8 & 0xfff), R"("})");
    }
    Add(R"(],"resources":{"limits":{"memory":")", main ? "1Gi" : "128Mi",
        R"("},"requests":{"cpu":"250m","memory":"64Mi"}},"volumeMounts":[{"name":"tmp","mountPath":"/tmp"}],)");
    const std::string_view port = main ? "8080" : "15000";
    if (main) {
      Add(R"("livenessProbe":{"httpGet":{"path":"/healthz","port":)", port,
          R"(,"scheme":"HTTP"},"initialDelaySeconds":5,"timeoutSeconds":2,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},)");
    }
    Add(R"("readinessProbe":{"httpGet":{"path":"/readyz","port":)", port,
        R"(,"scheme":"HTTP"},"initialDelaySeconds":5,"timeoutSeconds":2,"periodSeconds":5,"successThreshold":1,"failureThreshold":3},)",
        R"("terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"})");
  }

  void Spec() {
    Add(R"(,"spec":{"volumes":[{"name":"config","configMap":{"name":")", owner_.app,
        R"(-config","defaultMode":420}},{"name":"tmp","emptyDir":{}}],"containers":[)");
    Container("app", Image() + ":" + owner_.version, true);
    if (owner_.sidecar) {
      Add(",");
      Container("envoy", "registry.internal.example.com/platform/envoy:v1.29.4", false);
    }
    Add(R"(],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":")",
        owner_.app, R"(","serviceAccount":")", owner_.app, R"(","nodeName":")", node_,
        R"(","securityContext":{},"schedulerName":"default-scheduler","tolerations":[)",
        R"({"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},)",
        R"({"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],)",
        R"("priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"})");
  }

  void Condition(std::string_view type, bool holds, int64_t since, bool last) {
    Add(R"({"type":")", type, R"(","status":")", holds ? "True" : "False",
        R"(","lastProbeTime":null,"lastTransitionTime":")", Time(since), R"("})", last ? "" : ",");
  }

  void ContainerStatus(std::string_view name, const std::string& image, uint64_t hash) {
    Add(R"({"name":")", name, R"(","state":{"running":{"startedAt":")", Time(changed_ - 8),
        R"("}},"lastState":{},"ready":)", Ready() ? "true" : "false", R"(,"restartCount":)",
        std::to_string(revision_ / 4), R"(,"image":")", image, R"(","imageID":")",
        image.substr(0, image.rfind(':')), "@sha256:", Hex(owner_.hash + name.size(), 64),
        R"(","containerID":"containerd://)", Hex(hash, 64), R"(","started":true})");
  }

  void Status() {
    Add(R"(,"status":{"phase":"Running","conditions":[)");
    Condition("PodReadyToStartContainers", true, created_ + 3, false);
    Condition("Initialized", true, created_ + 1, false);
    Condition("Ready", Ready(), changed_, false);
    Condition("ContainersReady", Ready(), changed_, false);
    Condition("PodScheduled", true, created_, true);
    Add(R"(],"hostIP":")", host_ip_, R"(","hostIPs":[{"ip":")", host_ip_, R"("}],"podIP":")",
        pod_ip_, R"(","podIPs":[{"ip":")", pod_ip_, R"("}],"startTime":")", Time(created_),
        R"(","containerStatuses":[)");
    ContainerStatus("app", Image() + ":" + owner_.version, Mix(hash_, revision_ / 4));
    if (owner_.sidecar) {
      Add(",");
      ContainerStatus("envoy", "registry.internal.example.com/platform/envoy:v1.29.4",
                      Mix(hash_, 99));
    }
    Add(R"(],"qosClass":"Burstable"}})");
  }

  const Owner& owner_;
  const std::string name_;
  const std::string uid_;
  const std::string node_;
  const uint64_t hash_;
  const uint32_t revision_;
  const int64_t created_;
  const int64_t changed_;
  const int64_t written_;
  std::string pod_ip_;
  std::string host_ip_;
  PreparedBody out_;
};

Owner OwnerOf(const PodSource& source, uint64_t index) {
  const uint64_t number = index / kPodsPerOwner;
  Owner out;
  out.hash = Mix(source.shape().seed, number);
  out.stateful = source.Stable(index);
  out.sidecar = out.hash % 3 != 0;
  out.env = 2 + out.hash / 3 % 5;
  const uint64_t ns = number % std::max<uint64_t>(1, source.shape().namespaces);
  out.team = kTeams[ns % kTeams.size()];
  out.component = kComponents[out.hash / 16 % kComponents.size()];
  out.app = std::string(out.team)
                .append("-")
                .append(out.component)
                .append("-")
                .append(std::to_string(number));
  out.ns = source.NamespaceName(ns);
  out.template_hash = Letters(out.hash, 10);
  out.replica_set = out.stateful ? out.app : out.app + "-" + out.template_hash;
  out.version = "v1." + std::to_string(out.hash % 40) + "." + std::to_string(out.hash / 64 % 10) +
                "-" + Hex(out.hash + 1, 8);
  return out;
}

std::string PodName(const Owner& owner, uint64_t seed, uint64_t index) {
  if (owner.stateful) return owner.replica_set + "-" + std::to_string(index % kPodsPerOwner);
  return owner.replica_set + "-" + Letters(Mix(seed + 1, index), 5);
}

}  // namespace

PreparedBody PodSource::Make(const PodVersion& pod) const {
  const Owner owner = OwnerOf(*this, pod.index);
  const uint64_t hash = Mix(Mix(shape_.seed + 2, pod.index), pod.incarnation);
  return PodWriter(owner, PodName(owner, shape_.seed, pod.index), Uid(pod.index, pod.incarnation),
                   NodeName(hash % std::max<uint64_t>(1, shape_.nodes)), hash, pod)
      .Write();
}

ObjectKey PodSource::Key(uint64_t index) const {
  const Owner owner = OwnerOf(*this, index);
  return {owner.ns, PodName(owner, shape_.seed, index)};
}

std::string PodSource::Uid(uint64_t index, uint32_t incarnation) const {
  return UidFrom(Mix(Mix(shape_.seed + 3, index), incarnation));
}

bool PodSource::Stable(uint64_t index) const { return index / kPodsPerOwner % 16 == 15; }

std::string PodSource::NamespaceName(uint64_t number) const {
  char text[64];
  std::snprintf(text, sizeof(text), "%s-%03d", std::string(kTeams[number % kTeams.size()]).c_str(),
                static_cast<int>(number));
  return text;
}

std::string PodSource::NodeName(uint64_t number) const {
  return "node-" + std::to_string(number) + ".cluster.internal";
}

std::string MakePod(uint64_t seed, uint64_t index, uint32_t revision) {
  PreparedBody body = PodSource({.seed = seed}).Make({index, 0, revision});
  body.text.replace(0, 1, R"({"kind":"Pod","apiVersion":"v1",)");
  return std::move(body.text);
}

}  // namespace larder::apiserver
