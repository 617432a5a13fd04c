// What deploy/monitoring asks Prometheus for is what a manager says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "testing/yaml_to_json.h"
#include "tests/controller/fixture.h"

namespace larder {
namespace {

std::string ReadFile(const std::string& name) {
  std::ifstream file(std::string(LARDER_SOURCE_DIR) + "/deploy/monitoring/" + name);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Every "expr" in a document, however deep.
void FindExpressions(const Json& node, std::vector<std::string>& found) {
  if (node.is_object() && node.contains("expr")) found.push_back(node.at("expr"));
  if (!node.is_structured()) return;
  for (const Json& child : node) FindExpressions(child, found);
}

// What is left of an expression without selectors, groupings and functions.
std::set<std::string> MetricsIn(const std::string& expression) {
  static const std::regex kNoMetrics(R"(\{[^}]*\}|\bby \([^)]*\)|\[\w+\]|\b\w+ *\()");
  static const std::regex kName(R"([a-z]\w*_\w+)");
  const std::string rest = std::regex_replace(expression, kNoMetrics, " ");
  return {std::sregex_token_iterator(rest.begin(), rest.end(), kName), {}};
}

// Every name in an expression, with its selectors: "up{job=\"x\"}".
std::vector<std::string> SelectorsIn(const std::string& expression) {
  static const std::regex kNoMetrics(R"(\bby \([^)]*\)|\[\w+\]|\b\w+ *\()");
  static const std::regex kSelector(R"(\b([a-z]\w*_\w+|up\b)(\{[^}]*\})?)");
  const std::string rest = std::regex_replace(expression, kNoMetrics, " ");
  return {std::sregex_token_iterator(rest.begin(), rest.end(), kSelector), {}};
}

std::vector<std::string> RuleExpressions() {
  std::vector<std::string> expressions;
  const auto rules = testing::YamlToJson(ReadFile("prometheus_rule.yaml"));
  EXPECT_TRUE(rules) << rules.error().ToString();
  if (!rules) return expressions;
  for (const Json& document : *rules) FindExpressions(document, expressions);
  return expressions;
}

std::vector<std::string> PanelExpressions() {
  std::vector<std::string> expressions;
  FindExpressions(Json::parse(ReadFile("dashboard.json")), expressions);
  return expressions;
}

// Every operator of a cluster has metrics of controller-runtime's names.
TEST(Monitoring, NamesThatAreNotOursAloneAreAskedForWithTheJob) {
  const auto expect_job = [](const std::vector<std::string>& expressions, const char* job) {
    size_t shared = 0;
    for (const std::string& expression : expressions) {
      for (const std::string& selector : SelectorsIn(expression)) {
        if (selector.starts_with("larder_")) continue;
        ++shared;
        EXPECT_THAT(selector, ::testing::HasSubstr(job)) << expression;
      }
    }
    EXPECT_GE(shared, 10U);
  };
  expect_job(RuleExpressions(), "{job=\"anomaly-remediator\"");
  expect_job(PanelExpressions(), "{job=~\"$job\"");
}

class MonitoringTest : public ControllerTest {};

TEST_F(MonitoringTest, EveryAlertAndPanelAsksForAMetricThatIsThere) {
  std::set<std::string> names;
  for (const auto& expressions : {RuleExpressions(), PanelExpressions()}) {
    for (const std::string& expression : expressions) names.merge(MetricsIn(expression));
  }
  EXPECT_GE(names.size(), 15U);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"cache_sync_lag", "larder_handler_lag_seconds",
                                              "larder_reflector_restarts_total"}));

  // A reason to restart, and a handler: what never happened has no series yet.
  cluster().AddFault({.type = apiserver::FaultType::kError, .resource = "pods", .code = 503});
  ManagerOptions options = environment_->Options();
  options.config.leader_election = true;
  options.config.leader_election_name = "lock";
  options.config.leader_election_namespace = "default";
  const auto manager = RunPods(options);
  CreatePod("a");
  ASSERT_TRUE(Eventually([&] { return runs_.Of("default/a") == 1; }));
  InformerOptions asked;
  asked.resource = *LookupResource("pods");
  const auto pods = (*manager)->informers()->ForResource(asked);
  ASSERT_TRUE(pods) << pods.error().ToString();
  class Idle final : public EventHandler {
    void OnAdd(const ObjectPtr&, bool) override {}
    void OnUpdate(const ObjectPtr&, const ObjectPtr&) override {}
    void OnDelete(const ObjectPtr&, bool) override {}
  };
  ASSERT_TRUE((*pods)->AddEventHandler(std::make_shared<Idle>(), {}));
  // Metrics are moved into the registry twice a second.
  std::set<std::string> missing = names;
  EXPECT_TRUE(Eventually([&] {
    const std::string page = "\n" + Metrics(**manager);
    std::erase_if(missing, [&](const std::string& name) {
      return page.find("\n" + name + "{") != std::string::npos ||
             page.find("\n" + name + " ") != std::string::npos;
    });
    return missing.empty();
  })) << ::testing::PrintToString(missing);
}

}  // namespace
}  // namespace larder
