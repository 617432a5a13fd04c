// Configuration: names, precedence, and messages that say what is allowed.
#include "controller/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "controller/settings.h"

namespace larder {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  Result<ManagerConfig> Load(std::vector<const char*> flags = {}) {
    flags.insert(flags.begin(), "/usr/bin/my-controller");
    return ManagerConfig::Load(
        static_cast<int>(flags.size()), flags.data(), [this](const char* name) {
          const auto found = environment_.find(name);
          return found == environment_.end() ? nullptr : found->second.c_str();
        });
  }
  std::string WriteFile(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/larder-config-" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".yaml";
    std::ofstream(path) << text;
    return path;
  }

  std::map<std::string, std::string> environment_;
};

TEST_F(ConfigTest, HasClientGoDefaults) {
  const auto config = Load();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->lease_duration, seconds(15));
  EXPECT_EQ(config->renew_deadline, seconds(10));
  EXPECT_EQ(config->retry_period, seconds(2));
  EXPECT_EQ(config->base_delay, milliseconds(5));
  EXPECT_EQ(config->max_delay, seconds(1000));
  EXPECT_FALSE(config->max_retries);
  EXPECT_FALSE(config->leader_election);
  EXPECT_EQ(config->program, "my-controller");
}

TEST_F(ConfigTest, ReadsEveryVariableOfTheProductionExample) {
  environment_ = {{"INFORMER_RESYNC_PERIOD", "600s"},
                  {"INFORMER_NAMESPACE", "prod"},
                  {"INFORMER_LABEL_SELECTOR", "app.kubernetes.io/managed-by=my-controller"},
                  {"INFORMER_FIELD_SELECTOR", "spec.nodeName=n1"},
                  {"WORKQUEUE_MAX_RETRIES", "10"},
                  {"WORKQUEUE_BASE_DELAY", "1s"},
                  {"WORKQUEUE_MAX_DELAY", "300s"},
                  {"WORKQUEUE_QPS_LIMIT", "20"},
                  {"WORKQUEUE_BURST", "50"},
                  {"CACHE_SIZE_LIMIT", "10000"},
                  {"CACHE_TTL", "1h"},
                  {"ENABLE_COMPRESSION", "false"},
                  {"LEADER_ELECTION_ENABLED", "true"},
                  {"LEASE_DURATION", "30s"},
                  {"RENEW_DEADLINE", "20s"},
                  {"RETRY_PERIOD", "4s"}};
  const auto config = Load();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->resync_period, minutes(10));
  EXPECT_EQ(config->ns, "prod");
  EXPECT_EQ(config->label_selector, "app.kubernetes.io/managed-by=my-controller");
  EXPECT_EQ(config->field_selector, "spec.nodeName=n1");
  EXPECT_EQ(config->max_retries, 10u);
  EXPECT_EQ(config->base_delay, seconds(1));
  EXPECT_EQ(config->max_delay, seconds(300));
  EXPECT_EQ(config->qps_limit, 20);
  EXPECT_EQ(config->burst, 50u);
  EXPECT_EQ(config->cache_objects, 10'000u);
  EXPECT_EQ(config->cache_bytes, 0u);
  EXPECT_EQ(config->cache_ttl, hours(1));
  EXPECT_FALSE(config->compression);
  EXPECT_TRUE(config->leader_election);
  EXPECT_EQ(config->lease_duration, seconds(30));
  EXPECT_EQ(config->renew_deadline, seconds(20));
  EXPECT_EQ(config->retry_period, seconds(4));
}

TEST_F(ConfigTest, FlagsWinOverEnvironmentOverFileOverDefaults) {
  const std::string file = WriteFile(
      "workqueueBaseDelay: 1s\nworkqueueBurst: 7\ncacheTtl: 2m\nleaderElectionEnabled: true\n");
  environment_ = {{"LARDER_CONFIG", file}, {"WORKQUEUE_BASE_DELAY", "2s"}, {"CACHE_TTL", "3m"}};
  const auto config = Load({"--workqueue-base-delay", "3s"});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->base_delay, seconds(3));
  EXPECT_EQ(config->cache_ttl, minutes(3));
  EXPECT_EQ(config->burst, 7u);
  EXPECT_TRUE(config->leader_election);
  EXPECT_EQ(config->qps_limit, 10);
}

TEST_F(ConfigTest, TheFileOfTheFlagWinsOverThatOfTheEnvironment) {
  environment_ = {{"LARDER_CONFIG", "/does/not/exist"}};
  const auto config = Load({("--config=" + WriteFile("store: here\n")).c_str()});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->store, "here");
}

TEST_F(ConfigTest, SwitchesStandAloneOrWithAValue) {
  EXPECT_TRUE(Load({"--leader-election-enabled"})->leader_election);
  EXPECT_FALSE(Load({"--enable-compression=false"})->compression);
  const auto rest = Load({"--leader-election-enabled", "--", "--mine", "x"});
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest->arguments, (std::vector<std::string>{"--mine", "x"}));
}

TEST_F(ConfigTest, ABadValueNamesVariableValueAndWhatIsAllowed) {
  environment_ = {{"LEASE_DURATION", "15 seconds"}};
  const auto config = Load();
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(config.error().message,
            "LEASE_DURATION: \"15 seconds\" is not a duration above 0, like 500ms, 10m or 1h30m");
}

TEST_F(ConfigTest, EverySettingRefusesNonsenseByItsName) {
  for (const internal::Setting& setting : internal::Settings()) {
    if (setting.allowed == "any text") continue;
    environment_ = {{setting.variable, "=?"}};
    const auto config = Load();
    ASSERT_FALSE(config) << setting.variable;
    EXPECT_THAT(config.error().message, HasSubstr(setting.variable));
    EXPECT_THAT(config.error().message, HasSubstr("\"=?\""));
    EXPECT_THAT(config.error().message, HasSubstr(setting.allowed));
  }
}

TEST_F(ConfigTest, RefusesUnknownFlagsKeysAndMissingValues) {
  EXPECT_THAT(Load({"--lease-durations=1s"}).error().message, HasSubstr("--lease-durations"));
  EXPECT_THAT(Load({"--lease-duration"}).error().message, HasSubstr("needs a value"));
  const std::string unknown = WriteFile("leaseDurations: 1s\n");
  EXPECT_THAT(Load({"--config", unknown.c_str()}).error().message, HasSubstr("leaseDurations"));
  const std::string list = WriteFile("store: [a, b]\n");
  EXPECT_THAT(Load({"--config", list.c_str()}).error().message, HasSubstr("store"));
  const std::string broken = WriteFile("a: [\n");
  EXPECT_THAT(Load({"--config", broken.c_str()}).error().message, HasSubstr(broken));
  EXPECT_FALSE(Load({"--config", "/does/not/exist"}));
}

TEST_F(ConfigTest, RefusesTimesThatDoNotGoTogether) {
  EXPECT_THAT(Load({"--lease-duration=10s"}).error().message,
              HasSubstr("RENEW_DEADLINE (10s) must be shorter than LEASE_DURATION (10s)"));
  EXPECT_THAT(Load({"--retry-period=9s"}).error().message, HasSubstr("RETRY_PERIOD"));
  EXPECT_THAT(Load({"--workqueue-base-delay=2000s"}).error().message,
              HasSubstr("WORKQUEUE_MAX_DELAY"));
  EXPECT_THAT(Load({"--tls-cert-file=x"}).error().message, HasSubstr("LARDER_TLS_KEY_FILE"));
}

TEST_F(ConfigTest, TheKeyMayComeFromAVariable) {
  environment_ = {{"LARDER_ENCRYPTION_KEY_VARIABLE", "MY_KEY"}};
  EXPECT_EQ(Load()->encryption_key_variable, "MY_KEY");
  EXPECT_EQ(Load({"--encryption-key-variable=OTHER"})->encryption_key_variable, "OTHER");
  EXPECT_THAT(Load({"--encryption-key-file=x"}).error().message, HasSubstr("set one only"));
}

TEST_F(ConfigTest, RefusesAMemoryLimitWhoseUnitWasForgotten) {
  EXPECT_THAT(Load({"--memory-limit=64"}).error().message, HasSubstr("at least 1Mi"));
  EXPECT_EQ(Load({"--memory-limit=64Mi"})->memory_limit, uint64_t{64} << 20);
}

TEST_F(ConfigTest, TakesSeveralNamespacesAndRefusesWhatIsNone) {
  EXPECT_EQ(Load({"--informer-namespace=a,b-1"})->ns, "a,b-1");
  for (const char* wrong : {"a,,b", "A", "a b", "-a", "a/b"}) {
    const auto config = Load({"--informer-namespace", wrong});
    ASSERT_FALSE(config) << wrong;
    EXPECT_THAT(config.error().message, HasSubstr("--informer-namespace: \"" + std::string(wrong)));
  }
}

TEST_F(ConfigTest, HelpListsEverySettingWithItsNames) {
  const auto config = Load({"--help"});
  ASSERT_TRUE(config);
  ASSERT_TRUE(config->help_text);
  for (const internal::Setting& setting : internal::Settings()) {
    EXPECT_THAT(*config->help_text, HasSubstr(setting.Flag()));
    EXPECT_THAT(*config->help_text, HasSubstr(setting.variable));
  }
}

}  // namespace
}  // namespace larder
