#include "tests/tools/sample_store.h"

#include <gtest/gtest.h>

#include <chrono>

#include "indexer/indexer.h"

namespace larder {
namespace {

constexpr const char* kCluster = "11111111-2222-3333-4444-555555555555";

CollectionSpec SpecOf(const std::string& resource) {
  CollectionSpec spec;
  spec.cluster_uid = kCluster;
  spec.resource = *LookupResource(resource);
  return spec;
}

CollectionSpec WidgetSpec() {
  CollectionSpec spec;
  spec.cluster_uid = kCluster;
  spec.resource = {"example.com", "v1", "widgets", "Widget", true};
  return spec;
}

void Put(Indexer& indexer, const std::string& json) {
  const auto object = Object::Parse(json);
  ASSERT_TRUE(object) << object.error().ToString();
  auto writer = indexer.BeginWrite();
  ASSERT_TRUE(writer->Upsert(*object, *indexer.Prepare(**object), Indexer::Writer::Expect::kAny));
  Cursor cursor;
  cursor.resource_version = std::string((*object)->resource_version());
  cursor.state = SyncState::kSynced;
  cursor.epoch = 1;
  cursor.updated_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  writer->SetCursor(cursor);
  ASSERT_TRUE(writer->Commit(Durability::kSync));
}

std::unique_ptr<Indexer> OpenPods(Store& store) {
  auto pods = Indexer::Open(
      &store, nullptr, SpecOf("pods"),
      {*IndexDefinition::ByField("node", "spec.nodeName"), IndexDefinition::ByLabel("app")});
  EXPECT_TRUE(pods) << pods.error().ToString();
  return *std::move(pods);
}

std::string PodJson(const std::string& name, const std::string& phase, const std::string& version) {
  const std::string app = name.substr(0, name.find('-'));
  const std::string owner =
      app == "web" ? R"("ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",)"
                     R"("name":"web-1","uid":"rs-1","controller":true}],)"
                   : "";
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
         R"(","namespace":"shop","uid":"u-)" + name + R"(","resourceVersion":")" + version +
         R"(","creationTimestamp":"2024-01-01T00:00:00Z",)" + owner + R"("labels":{"app":")" + app +
         R"("},"managedFields":[{"manager":"kubelet","operation":"Update","subresource":"status",)"
         R"("time":"2024-01-02T00:00:00Z","fieldsV1":{"f:status":{"f:phase":{}}}}]},)"
         R"("spec":{"nodeName":"n1","containers":[{"name":"c","image":"img:1"}]},)"
         R"("status":{"phase":")" +
         phase +
         R"(","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}],)"
         R"("containerStatuses":[{"name":"c","ready":true,"restartCount":2,)"
         R"("state":{"running":{}}}]}})";
}

void PutWidgets(Store& store) {
  PutObject(store, "customresourcedefinitions",
            R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
      "metadata":{"name":"widgets.example.com","uid":"crd","resourceVersion":"3",
      "creationTimestamp":"2024-01-01T00:00:00Z"},"spec":{"group":"example.com","scope":"Namespaced",
      "names":{"plural":"widgets","singular":"widget","kind":"Widget","shortNames":["wd"]},
      "versions":[{"name":"v1","served":true,"storage":true,"additionalPrinterColumns":[
      {"name":"Size","type":"integer","jsonPath":".spec.size"},
      {"name":"Colour","type":"string","jsonPath":".spec.colour","priority":1}]}]}})");
  auto widgets = Indexer::Open(&store, nullptr, WidgetSpec(), {});
  ASSERT_TRUE(widgets);
  Put(**widgets, R"({"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"small",
      "namespace":"shop","uid":"w","resourceVersion":"4"},"spec":{"size":3,"colour":"red"}})");
}

void PutQueue(Store& store) {
  Transaction transaction = store.Begin();
  const int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  transaction.PutQueueItem("pods", "shop/web-0", 1, {.added_ms = now - 90'000});
  transaction.PutQueueItem("pods", "shop/web-1", 2,
                           {.added_ms = now, .not_before_ms = now + 3'600'000, .failures = 3});
  transaction.PutQueueItem("pods", "shop/db-0", 3,
                           {.added_ms = now - 5'000,
                            .failures = 10,
                            .dead = true,
                            .last_error = "the database is on fire"});
  ASSERT_TRUE(store.Commit(std::move(transaction), Durability::kSync));
}

}  // namespace

void PutPod(Store& store, const std::string& name, const std::string& phase,
            const std::string& version) {
  Put(*OpenPods(store), PodJson(name, phase, version));
}

void PutObject(Store& store, const std::string& resource, const std::string& json) {
  const auto indexer = Indexer::Open(&store, nullptr, SpecOf(resource), {});
  ASSERT_TRUE(indexer) << indexer.error().ToString();
  Put(**indexer, json);
}

void DeletePod(Store& store, const std::string& name, const std::string& version) {
  const auto pods = OpenPods(store);
  auto writer = pods->BeginWrite();
  ASSERT_TRUE(writer->Delete({"shop", name}, "", ""));
  writer->SetCursor({version, SyncState::kSynced, 1, 1});
  ASSERT_TRUE(writer->Commit(Durability::kSync));
}

void FillSampleStore(const std::string& path) {
  const auto store = Store::Open({.path = path});
  ASSERT_TRUE(store) << store.error().ToString();
  for (const char* name : {"db-0", "web-0", "web-1"}) PutPod(**store, name, "Running", "7");
  PutObject(**store, "deployments",
            R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web",
      "namespace":"shop","uid":"dep","resourceVersion":"5","creationTimestamp":"2024-01-01T00:00:00Z"},
      "spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}}},
      "status":{"readyReplicas":2,"updatedReplicas":2,"availableReplicas":2}})");
  PutObject(**store, "replicasets",
            R"({"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1",
      "namespace":"shop","uid":"rs-1","resourceVersion":"6","creationTimestamp":"2024-01-01T00:00:00Z",
      "ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"dep",
      "controller":true}]},"spec":{"replicas":2},"status":{"replicas":2,"readyReplicas":2}})");
  PutObject(**store, "nodes",
            R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"n",
      "resourceVersion":"2","creationTimestamp":"2024-01-01T00:00:00Z",
      "labels":{"node-role.kubernetes.io/worker":""}},"status":{"conditions":[{"type":"Ready",
      "status":"True"}],"nodeInfo":{"kubeletVersion":"v1.32.0"}}})");
  PutObject(**store, "namespaces",
            R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","uid":"ns",
      "resourceVersion":"1"},"status":{"phase":"Active"}})");
  PutObject(**store, "events",
            R"({"apiVersion":"v1","kind":"Event","metadata":{"name":"e1","namespace":"shop",
      "uid":"e","resourceVersion":"8"},"involvedObject":{"kind":"Pod","name":"web-0",
      "namespace":"shop","uid":"u-web-0"},"type":"Warning","reason":"BackOff","message":"it fell over",
      "source":{"component":"kubelet"},"lastTimestamp":"2024-02-01T00:00:00Z"})");
  PutWidgets(**store);
  PutQueue(**store);
}

}  // namespace larder
