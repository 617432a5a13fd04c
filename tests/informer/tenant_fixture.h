// A factory on a simulated cluster with pods of two teams in three namespaces, for tests of what is
// seen of them.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "informer/tenant.h"
#include "tests/informer/fixture.h"

namespace larder {

inline constexpr auto kTenantPatience = std::chrono::seconds(30);

inline std::set<std::string> KeysOf(const std::vector<ObjectPtr>& objects) {
  std::set<std::string> keys;
  for (const ObjectPtr& object : objects) keys.insert(object->key().ToString());
  return keys;
}

using Keys = std::set<std::string>;

class TenantTest : public InformerTest {
 protected:
  void SetUp() override {
    InformerTest::SetUp();
    OpenParts();
    factory_ = std::make_unique<SharedInformerFactory>(Context());
    for (const char* ns : {"y", "z"}) ASSERT_TRUE(simulator_->CreateNamespace(ns));
    Put("x", "mine", "red", "n1");
    Put("x", "other", "blue", "n1");
    Put("y", "mine", "red", "n2");
    Put("z", "far", "red", "n1");
  }
  void TearDown() override {
    tenant_.reset();
    factory_.reset();
    InformerTest::TearDown();
  }
  void Put(const std::string& ns, const std::string& name, const std::string& team,
           const std::string& node) {
    const auto made = simulator_->Create(
        "pods", R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
                    R"(","namespace":")" + ns + R"(","labels":{"team":")" + team +
                    R"("}},"spec":{"nodeName":")" + node + R"("}})");
    ASSERT_TRUE(made) << made.error().ToString();
  }
  void Relabel(const std::string& ns, const std::string& name, const std::string& team) {
    ASSERT_TRUE(simulator_->Patch("pods", ns, name,
                                  R"({"metadata":{"labels":{"team":")" + team + R"("}}})"));
  }
  static InformerOptions Pods() {
    InformerOptions options;
    options.resource = *LookupResource("pods");
    options.indexes = {*IndexDefinition::ByField("node", "spec.nodeName")};
    return options;
  }
  Tenant& Make(TenantOptions options) {
    auto tenant = Tenant::Create(factory_.get(), std::move(options));
    EXPECT_TRUE(tenant) << tenant.error().ToString();
    tenant_ = *std::move(tenant);
    return *tenant_;
  }
  void StartAll() {
    factory_->Start();
    const auto synced = factory_->WaitForCacheSync(RealClock()->Now() + kTenantPatience, {});
    ASSERT_TRUE(synced) << synced.error().ToString();
  }
  // Waits until the wide informer, if there is one, has everything the simulator did to pods.
  void Settle() {
    uint64_t newest = 0;
    for (const auto& entry : simulator_->History()) {
      if (entry.resource == "pods") newest = entry.version;
    }
    SharedInformer* const wide = *factory_->FindWider(Pods());
    if (wide == nullptr) return;
    ASSERT_TRUE(wide->WaitUntil(std::to_string(newest), RealClock()->Now() + kTenantPatience, {}));
  }

  std::unique_ptr<SharedInformerFactory> factory_;
  std::unique_ptr<Tenant> tenant_;
};

}  // namespace larder
