#include "tests/storage/support.h"

#include <fmt/format.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

namespace larder::testing {

namespace fs = std::filesystem;

TempDir::TempDir() {
  root_ = (fs::temp_directory_path() / "larder-test-XXXXXX").string();
  if (!::mkdtemp(root_.data())) std::abort();
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

CollectionSpec SpecOf(std::string_view resource, std::string ns) {
  CollectionSpec spec;
  spec.cluster_uid = "0f0e0d0c-0b0a-0908-0706-050403020100";
  spec.resource = Must(LookupResource(resource));
  spec.ns = std::move(ns);
  return spec;
}

ObjectKey PodKey(uint64_t index) {
  return {fmt::format("team-{:02}", index % 7), fmt::format("web-{:03}-{:05x}", index / 10, index)};
}

std::string PodJson(uint64_t index, uint64_t version, std::string_view phase) {
  std::mt19937_64 random(index * 1'000'003 + 17);
  const auto hex = [&](int digits) {
    std::string out;
    while (static_cast<int>(out.size()) < digits) out += fmt::format("{:016x}", random());
    return out.substr(0, static_cast<size_t>(digits));
  };
  const auto uuid = [&] {
    return hex(8) + "-" + hex(4) + "-4" + hex(3) + "-a" + hex(3) + "-" + hex(12);
  };
  const ObjectKey key = PodKey(index);
  const std::string app = fmt::format("web-{:03}", index / 10);
  std::string fields, env, conditions;
  for (const char* name : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    fields += fmt::format(
        R"("f:{}":{{".":{{}},"f:failureThreshold":{{}},"f:httpGet":{{".":{{}},"f:path":{{}},"f:port":{{}},"f:scheme":{{}}}},"f:initialDelaySeconds":{{}},"f:periodSeconds":{{}},"f:successThreshold":{{}},"f:timeoutSeconds":{{}}}},)",
        name);
  }
  for (int i = 0; i < 12; ++i) {
    fields +=
        fmt::format(R"("k:{{\"name\":\"VAR_{}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}},)", i);
    env += fmt::format(R"({}{{"name":"VAR_{}","value":"{}-{}"}})", i ? "," : "", i, app, i);
  }
  for (const char* type : {"Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    conditions += fmt::format(
        R"({}{{"type":"{}","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-08T11:03:{:02}Z"}})",
        conditions.empty() ? "" : ",", type, index % 60);
  }
  std::string managed;
  for (const char* manager : {"kube-controller-manager", "kubelet", "kubectl-client-side-apply"}) {
    managed += fmt::format(
        R"({}{{"manager":"{}","operation":"Update","apiVersion":"v1","time":"2026-11-15T23:59:04Z","fieldsType":"FieldsV1","fieldsV1":{{{}"f:z":{{}}}}}})",
        managed.empty() ? "" : ",", manager, fields);
  }
  return fmt::format(
      R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{}","generateName":"{}-","namespace":"{}","uid":"{}","resourceVersion":"{}","generation":1,"creationTimestamp":"2026-11-15T23:59:04Z","labels":{{"app":"{}","tier":"{}","pod-template-hash":"{}"}},"annotations":{{"checksum/config":"{}","prometheus.io/scrape":"true"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{}","uid":"{}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{}]}},"spec":{{"containers":[{{"name":"app","image":"registry.example.com/{}:v1","env":[{}]}},{{"name":"proxy","image":"registry.example.com/proxy:v2","env":[{}]}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"node-{}","securityContext":{{}},"schedulerName":"default-scheduler"}},"status":{{"phase":"{}","conditions":[{}],"podIP":"10.{}.{}.{}","containerStatuses":[{{"name":"app","ready":true,"restartCount":0,"containerID":"containerd://{}","imageID":"sha256:{}"}}],"qosClass":"Burstable"}}}})",
      key.name, app, key.ns, uuid(), version, app, index % 3 == 0 ? "front" : "back",
      fmt::format("{:08x}", index / 10), hex(64), app, uuid(), managed, app, env, env, index % 20,
      phase, conditions, index % 250, index / 250 % 250, index % 199, hex(64), hex(64));
}

ObjectPtr Pod(uint64_t index, uint64_t version, std::string_view phase) {
  return Must(Object::Parse(PodJson(index, version, phase)));
}

ObjectPtr SmallObject(std::string_view ns, std::string_view name, uint64_t version,
                      std::string_view extra, std::string_view uid) {
  const std::string where = ns.empty() ? "" : fmt::format(R"("namespace":"{}",)", ns);
  return Must(Object::Parse(fmt::format(
      R"({{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{}",{}"uid":"{}","resourceVersion":"{}"}},{}}})",
      name, where, uid, version, extra)));
}

uint64_t Seed() {
  const char* given = std::getenv("LARDER_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "LARDER_SEED=" << seed << "\n";
  return seed;
}

void PutAll(Store& store, CollectionId collection, const std::vector<ObjectPtr>& objects) {
  Transaction transaction = store.Begin();
  for (const ObjectPtr& object : objects) {
    transaction.PutObject(collection, Must(store.Encode(collection, *object)));
  }
  Must(store.Commit(std::move(transaction), Durability::kRelaxed));
}

std::string LargestTable(const std::string& store_path) {
  fs::directory_entry largest;
  for (const auto& entry : fs::directory_iterator(store_path)) {
    if (entry.path().extension() != ".sst") continue;
    if (largest.path().empty() || entry.file_size() > largest.file_size()) largest = entry;
  }
  return largest.path().filename().string();
}

size_t DamageTables(const std::string& store_path, std::string_view family, size_t offset) {
  std::vector<std::string> names;
  EXPECT_TRUE(rocksdb::DB::ListColumnFamilies({}, store_path, &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  EXPECT_TRUE(rocksdb::DB::OpenForReadOnly({}, store_path, families, &handles, &raw).ok());
  std::vector<rocksdb::LiveFileMetaData> live;
  raw->GetLiveFilesMetaData(&live);
  for (auto* each : handles) EXPECT_TRUE(raw->DestroyColumnFamilyHandle(each).ok());
  delete raw;
  size_t damaged = 0;
  for (const auto& file : live) {
    if (file.column_family_name != family) continue;
    std::fstream bytes(store_path + file.name, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(offset));
    const int old = bytes.get();
    bytes.seekp(static_cast<std::streamoff>(offset));
    bytes.put(static_cast<char>(old ^ 0x55));
    ++damaged;
  }
  return damaged;
}

}  // namespace larder::testing
