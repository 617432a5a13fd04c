// The configuration's fields: read, checked with errors that help, turned into options.
#include "informer/informer_config.h"

#include <gtest/gtest.h>

#include <map>

namespace larder {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::string ErrorOf(const std::string& json) {
  const auto config = InformerConfig::FromJson(json);
  return config ? "none" : config.error().message;
}

TEST(InformerConfigTest, ReadsEveryField) {
  const auto config = InformerConfig::FromJson(R"({
    "resyncPeriod": "10m", "namespace": "a,b", "labelSelector": "app=web",
    "fieldSelector": "spec.nodeName=n1",
    "cacheConfig": {"sizeLimit": 10000, "ttl": "1h30m", "compression": false}})");
  ASSERT_TRUE(config) << config.error().ToString();
  const FactoryOptions factory = config->ForFactory();
  EXPECT_EQ(factory.resync_period, minutes(10));
  EXPECT_EQ(factory.namespaces, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(factory.label_selector, "app=web");
  EXPECT_EQ(factory.field_selector, "spec.nodeName=n1");
  const HotTierOptions hot = config->ForHotTier();
  EXPECT_EQ(hot.max_objects, 10'000u);
  EXPECT_EQ(hot.ttl, hours(1) + minutes(30));
  EXPECT_FALSE(config->ForStore({.path = "p"}).compression);
  EXPECT_EQ(config->ForStore({.path = "p"}).path, "p");
}

TEST(InformerConfigTest, DefaultsAreAllNamespacesNoResyncNoLimits) {
  const auto config = InformerConfig::FromJson("{}");
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->ForFactory().namespaces.empty());
  EXPECT_EQ(config->ForHotTier().max_objects, 0u);
  EXPECT_TRUE(config->ForStore().compression);
  EXPECT_EQ(config->ForInformer({}).resync_period, milliseconds(0));
}

TEST(InformerConfigTest, NumbersOfADurationAreNanoseconds) {
  const auto config = InformerConfig::FromJson(R"({"resyncPeriod": 30000000000})");
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->resync_period, seconds(30));
}

TEST(InformerConfigTest, ReadsTheEnvironment) {
  const std::map<std::string, std::string> variables = {{"INFORMER_RESYNC_PERIOD", "600s"},
                                                        {"INFORMER_NAMESPACE", ""},
                                                        {"INFORMER_LABEL_SELECTOR", "a=b"},
                                                        {"CACHE_SIZE_LIMIT", "10000"},
                                                        {"CACHE_TTL", "1h"},
                                                        {"ENABLE_COMPRESSION", "true"}};
  const auto config =
      InformerConfig::FromEnvironment([&](const std::string& name) -> std::optional<std::string> {
        const auto it = variables.find(name);
        return it == variables.end() ? std::nullopt : std::optional(it->second);
      });
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->resync_period, minutes(10));
  EXPECT_EQ(config->cache.size_limit, 10'000);
  EXPECT_EQ(config->cache.ttl, hours(1));
  const auto bad =
      InformerConfig::FromEnvironment([](const std::string& name) -> std::optional<std::string> {
        return name == "CACHE_SIZE_LIMIT" ? std::optional<std::string>("many") : std::nullopt;
      });
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message,
            "informer configuration: CACHE_SIZE_LIMIT is \"many\"; allowed: a whole number, 0 or "
            "more");
}

TEST(InformerConfigTest, ErrorsNameFieldValueAndWhatIsAllowed) {
  const std::map<std::string, std::vector<std::string>> cases = {
      {R"({"resyncPeriod": "ten"})", {"resyncPeriod", "\"ten\"", "1h30m"}},
      {R"({"resyncPeriod": "10ms"})", {"resyncPeriod", "\"10ms\"", "from 1s"}},
      {R"({"resyncPeriod": "-10m"})", {"resyncPeriod", "\"-10m\""}},
      {R"({"cacheConfig": {"sizeLimit": -1}})", {"cacheConfig.sizeLimit", "\"-1\"", "0"}},
      {R"({"cacheConfig": {"sizeLimit": 1.5}})", {"cacheConfig.sizeLimit", "\"1.5\"", "whole"}},
      {R"({"cacheConfig": {"ttl": "9000000h"}})", {"cacheConfig.ttl"}},
      {R"({"cacheConfig": {"compression": "maybe"}})", {"\"maybe\"", "true or false"}},
      {R"({"cacheConfig": {"size": 1}})", {"cacheConfig.size", "cacheConfig.sizeLimit"}},
      {R"({"cacheConfig": 1})", {"cacheConfig", "a JSON object"}},
      {R"({"namespace": "a,,b"})", {"namespace", "small letters"}},
      {R"({"namespace": "Prod"})", {"namespace", "\"Prod\""}},
      {R"({"labelSelector": "a in"})", {"labelSelector", "\"a in\""}},
      {R"({"fieldSelector": "a"})", {"fieldSelector", "\"a\""}},
      {R"({"labels": "a=b"})", {"labels", "labelSelector"}},
      {"[]", {"the document", "one JSON object"}},
  };
  for (const auto& [json, parts] : cases) {
    const std::string message = ErrorOf(json);
    EXPECT_NE(message, "none") << json;
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << json << ": " << message;
    }
  }
}

TEST(InformerConfigTest, DurationsAreGos) {
  EXPECT_EQ(*ParsePeriod("1h30m"), minutes(90));
  EXPECT_EQ(*ParsePeriod("1.5s"), milliseconds(1500));
  EXPECT_EQ(*ParsePeriod("250ms"), milliseconds(250));
  EXPECT_EQ(*ParsePeriod("0"), seconds(0));
  for (const char* bad : {"", "1", "h", "1x", "-1s", "1s-2s", "1e3s", "nan", "1h30"}) {
    EXPECT_FALSE(ParsePeriod(bad)) << bad;
  }
}

}  // namespace
}  // namespace larder
