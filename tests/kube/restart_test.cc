// What happens to a server under a running reflector: restarts, lost state, deleted namespaces and
// definitions, compaction.
#include <gmock/gmock.h>

#include "tests/kube/kube_fixture.h"

namespace larder {
namespace {

class KubeRestart : public KubeTest {
 protected:
  // A server that comes back is found again in seconds, not in a minute.
  void SetUp() override {
    KubeTest::SetUp();
    options_.silent_timeout = std::chrono::milliseconds(5000);
    options_.watch_timeout_min = options_.watch_timeout_max = std::chrono::seconds(60);
  }
};

TEST_F(KubeRestart, TheApiServerIsRestartedUnderARunningReflector) {
  MakeMany("a", 20);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  for (int round = 0; round < 2; ++round) {
    Kube({"stop", "apiserver"});
    EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return status.error.has_value(); }));
    EXPECT_EQ(target.Objects().size(), 20U + static_cast<size_t>(round));
    Kube({"start", "apiserver"});
    Make("b-" + std::to_string(round));
    EXPECT_TRUE(Equal(target));
    EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return !status.error; }));
  }
  // A relist of a restarted server fetches what differs, not everything.
  EXPECT_LE(Status().fetched, 2U);
}

TEST_F(KubeRestart, EtcdRestoredFromAnOlderSnapshotIsNoticed) {
  MakeMany("old", 10);
  Kube({"save", "before"});
  MirrorTarget running(cluster_uid_);
  MirrorTarget stopped(cluster_uid_);
  Run(&stopped);
  ASSERT_TRUE(Equal(stopped));
  Stop();
  // More versions than the restored server uses up when it starts.
  MakeMany("lost", 10);
  for (int i = 0; i < 500; ++i) Change("old-0", std::to_string(i));
  for (int i = 0; i < 3; ++i) Delete("old-" + std::to_string(i + 1));
  Run(&stopped);
  ASSERT_TRUE(Equal(stopped));
  Run(&running);
  ASSERT_TRUE(Equal(running));
  ASSERT_EQ(running.Objects().size(), 17U);

  Kube({"rewind", "before"});
  EXPECT_TRUE(
      Reaches([](const ReflectorStatus& status) { return status.restarts.contains("rewound"); }));
  EXPECT_TRUE(Equal(running));
  EXPECT_EQ(running.Objects().size(), 10U);
  Make("after");
  EXPECT_TRUE(Equal(running));
  // And one that was stopped meanwhile.
  Run(&stopped);
  EXPECT_TRUE(Equal(stopped));
  EXPECT_EQ(Status().restarts.at("rewound"), 1U);
}

TEST_F(KubeRestart, EtcdIsRestoredAndGetsPastTheVersionWhileNobodyWatches) {
  MakeMany("old", 10);
  Kube({"save", "before"});
  MirrorTarget stopped(cluster_uid_);
  Run(&stopped);
  ASSERT_TRUE(Equal(stopped));
  Delete("old-1");
  Make("lost");
  ASSERT_TRUE(Equal(stopped));
  Stop();
  Kube({"rewind", "before"});
  const auto behind = [&] {
    const auto pods = client_->List(resource_, {.ns = ns_});
    return pods &&
           CompareResourceVersions(pods->resource_version, stopped.Cursor()).value_or(1) <= 0;
  };
  for (int i = 0; i < 1000 && behind(); ++i) Change("old-0", std::to_string(i));
  ASSERT_FALSE(behind());
  Run(&stopped);
  // At the next bookmark, or at the next change.
  Change("old-0", "and again");
  EXPECT_TRUE(
      Reaches([](const ReflectorStatus& status) { return status.restarts.contains("rewound"); }));
  EXPECT_TRUE(Equal(stopped));
  EXPECT_EQ(stopped.Objects().size(), 10U);
}

TEST_F(KubeRestart, TheNamespaceIsDeleted) {
  MakeMany("a", 10);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  const Resource namespaces = *LookupResource("namespaces");
  ASSERT_TRUE(client_->Delete(namespaces, {"", ns_}));
  // No controller manager runs here: this is its part of the work.
  ASSERT_TRUE(client_->DeleteCollection(resource_, {.ns = ns_}));
  const auto terminating = client_->Get(namespaces, {"", ns_});
  ASSERT_TRUE(terminating);
  Json finalized = (*terminating)->ToMutable();
  finalized["spec"]["finalizers"] = Json::array();
  ASSERT_TRUE(client_->Update(namespaces, finalized, {.subresource = "finalize"}));
  EXPECT_TRUE(Eventually([&] { return !client_->Get(namespaces, {"", ns_}); }));
  EXPECT_TRUE(target.WaitFor([](const auto& objects) { return objects.empty(); }));
  EXPECT_EQ(target.Deletes(), 10U);
  EXPECT_FALSE(Status().last_error) << Status().last_error->ToString();
  // And made again: the watch goes on.
  ASSERT_TRUE(client_->Create(namespaces, {{"metadata", {{"name", ns_}}}}));
  Make("again");
  EXPECT_TRUE(Equal(target));
  EXPECT_EQ(Status().lists, 1U);
}

class KubeDefinition : public KubeRestart {
 protected:
  void Define() {
    const Json schema = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
    const Json definition = {
        {"metadata", {{"name", "widgets." + ns_ + ".example.com"}}},
        {"spec",
         {{"group", ns_ + ".example.com"},
          {"scope", "Namespaced"},
          {"names", {{"plural", "widgets"}, {"singular", "widget"}, {"kind", "Widget"}}},
          {"versions", Json::array({{{"name", "v1"},
                                     {"served", true},
                                     {"storage", true},
                                     {"schema", {{"openAPIV3Schema", schema}}}}})}}}};
    ASSERT_TRUE(Eventually([&] { return client_->Create(kDefinitions, definition).has_value(); }));
    resource_ = {ns_ + ".example.com", "v1", "widgets", "Widget", true};
    ASSERT_TRUE(Eventually([&] { return client_->List(resource_, {.ns = ns_}).has_value(); }));
  }
  void MakeWidget(const std::string& name) {
    ASSERT_TRUE(Eventually([&] {
      return client_->Create(resource_, {{"metadata", {{"name", name}, {"namespace", ns_}}}})
          .has_value();
    }));
  }
  void Undefine() {
    ASSERT_TRUE(client_->Delete(kDefinitions, {"", "widgets." + ns_ + ".example.com"}));
    ASSERT_TRUE(Eventually([&] { return !client_->List(resource_, {.ns = ns_}); }));
  }
  void TearDown() override {
    if (client_) (void)client_->Delete(kDefinitions, {"", "widgets." + ns_ + ".example.com"});
    KubeRestart::TearDown();
  }

  const Resource kDefinitions = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                 "CustomResourceDefinition", false};
};

TEST_F(KubeDefinition, IsDeletedAndRecreatedUnderARunningReflector) {
  Define();
  for (const char* name : {"a", "b", "c"}) MakeWidget(name);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  const auto before = target.Objects();
  Undefine();
  EXPECT_TRUE(Reaches([](const ReflectorStatus& status) {
    return status.error && status.error->code == ErrorCode::kNotFound;
  }));
  Define();
  MakeWidget("a");
  EXPECT_TRUE(Equal(target));
  EXPECT_TRUE(target.WaitFor([&](const auto& objects) {
    return objects.size() == 1 && objects.at(ns_ + "/a") != before.at(ns_ + "/a");
  }));
  EXPECT_EQ(target.Deletes(), 3U);
  MakeWidget("d");
  EXPECT_TRUE(Equal(target));
}

TEST_F(KubeDefinition, AMetadataRelistWorksForCustomResources) {
  Define();
  for (const char* name : {"a", "b", "c"}) MakeWidget(name);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  Stop();
  MakeWidget("d");
  ExpireHistory();
  Run(&target);
  EXPECT_TRUE(Equal(target));
  EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return status.relists == 1; }));
  EXPECT_EQ(Status().fetched, 1U);
  EXPECT_EQ(Status().unchanged, 3U);
}

// Compacts etcd after the first page of a list.
class CompactingTarget final : public MirrorTarget {
 public:
  explicit CompactingTarget(std::function<void()> compact) : compact_(std::move(compact)) {}
  Result<void> ListItem(ObjectPtr object) override {
    if (compact_) std::exchange(compact_, nullptr)();
    return MirrorTarget::ListItem(std::move(object));
  }

 private:
  std::function<void()> compact_;
};

TEST_F(KubeRestart, AListIsWholeWhenItsVersionIsCompactedInMidList) {
  MakeMany("a", 30);
  options_.first_sync = FirstSync::kPagedList;
  options_.page_size = 10;
  CompactingTarget target([&] {
    Delete("a-0");
    Make("b");
    Kube({"compact"});
  });
  Run(&target);
  EXPECT_TRUE(Equal(target));
  EXPECT_EQ(Status().lists, 1U);
}

TEST_F(KubeRestart, ACompactedVersionAfterARestartIsRelisted) {
  MakeMany("a", 20);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  Stop();
  Change("a-0", "changed");
  Delete("a-1");
  Kube({"compact"});
  ExpireHistory();
  Run(&target);
  EXPECT_TRUE(Equal(target));
  EXPECT_EQ(Status().restarts["Gone"], 1U);
  EXPECT_EQ(Status().fetched, 1U);
}

}  // namespace
}  // namespace larder
