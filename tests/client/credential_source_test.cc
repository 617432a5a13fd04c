#include "client/credential_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <functional>
#include <thread>

#include "client/timestamp.h"
#include "tests/client/test_util.h"

namespace larder {
namespace {

using ::larder::testing::LogCapture;
using ::larder::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

// Does something whenever a line is logged.
class AtEachLogLine final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit AtEachLogLine(std::function<void()> act) : act_(std::move(act)) {}

 private:
  void sink_it_(const spdlog::details::log_msg&) override { act_(); }
  void flush_() override {}
  const std::function<void()> act_;
};

class CredentialSourceTest : public ::testing::Test {
 protected:
  // A plugin that counts its runs and prints `status`, where %s is the number of the run.
  ExecPlugin Plugin(const std::string& status) {
    ExecPlugin plugin;
    plugin.api_version = "client.authentication.k8s.io/v1";
    plugin.command = dir_.WriteScript(
        "plugin", "echo run >> " + dir_.path() + "/runs\n" + "n=$(wc -l < " + dir_.path() +
                      "/runs)\n" + R"(printf '{"apiVersion":"client.authentication.k8s.io/v1",)" +
                      R"("kind":"ExecCredential","status":)" + status + "}' $n\n");
    return plugin;
  }
  // A file that is read again, beside a plugin whose tokens are t1, t2, ...
  ClientConfig AuthorityAndPlugin() {
    ClientConfig config;
    config.ca_file = dir_.Write("ca", "pem");
    config.exec = Plugin(R"({"token":"t%s"})");
    return config;
  }
  int Runs() {
    const std::string runs = dir_.Read("runs");
    return static_cast<int>(std::count(runs.begin(), runs.end(), '\n'));
  }

  TempDir dir_;
  FakeClock clock_;
};

TEST_F(CredentialSourceTest, ReadsTheTokenFileAgainWithinAMinute) {
  ClientConfig config;
  config.token = "fallback";
  config.token_file = dir_.Write("token", "one\n");
  CredentialSource source(config, &clock_);
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer one");
  dir_.Write("token", "two\n");
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer one");
  clock_.Advance(60s);
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer two");
}

TEST_F(CredentialSourceTest, GoesOnWithTheLastTokenWhileTheFileIsGone) {
  ClientConfig config;
  config.token_file = dir_.Write("token", "s3cr3t\n");
  CredentialSource source(config, &clock_);
  ASSERT_TRUE(source.Get({}));
  std::filesystem::remove(config.token_file);
  clock_.Advance(60s);
  const LogCapture log;
  const auto kept = source.Get({});
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ((*kept)->authorization, "Bearer s3cr3t");
  EXPECT_THAT(log.text(), HasSubstr(config.token_file));
  EXPECT_THAT(log.text(), Not(HasSubstr("s3cr3t")));
}

TEST_F(CredentialSourceTest, WithoutTheFileTheInlineTokenIsUsed) {
  ClientConfig config;
  config.token = "inline";
  config.token_file = dir_.path() + "/missing";
  CredentialSource source(config, &clock_);
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer inline");
}

TEST_F(CredentialSourceTest, AMissingFileIsUnauthorizedNotNotFound) {
  ClientConfig config;
  config.token_file = dir_.path() + "/missing";
  CredentialSource source(config, &clock_);
  const auto got = source.Get({});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kUnauthorized);
  EXPECT_THAT(got.error().message, HasSubstr("/missing"));
}

TEST_F(CredentialSourceTest, ATokenWithALineBreakInsideIsRefused) {
  ClientConfig config;
  config.token = "a\r\nX: b";
  CredentialSource source(config, &clock_);
  EXPECT_FALSE(source.Get({}));
}

TEST_F(CredentialSourceTest, CertificatesAreReadAgain) {
  ClientConfig config;
  config.client_certificate_file = dir_.Write("crt", "c1");
  config.client_key_file = dir_.Write("key", "k1");
  CredentialSource source(config, &clock_);
  EXPECT_EQ((*source.Get({}))->certificate_pem, "c1");
  dir_.Write("crt", "c2");
  dir_.Write("key", "k2");
  clock_.Advance(60s);
  EXPECT_EQ((*source.Get({}))->certificate_pem, "c2");
  EXPECT_EQ((*source.Get({}))->key_pem, "k2");
}

TEST_F(CredentialSourceTest, CertificatesAreReadAgainWhenTheyWereRefused) {
  ClientConfig config;
  config.client_certificate_file = dir_.Write("crt", "c1");
  config.client_key_file = dir_.Write("key", "k1");
  CredentialSource source(config, &clock_);
  const auto first = *source.Get({});
  dir_.Write("crt", "c2");
  EXPECT_TRUE(source.Drop(*first));
  EXPECT_EQ((*source.Get({}))->certificate_pem, "c2");
}

TEST_F(CredentialSourceTest, WhatIsNotFromAFileIsNotTriedTwice) {
  ClientConfig config;
  config.token = "t";
  config.ca_file = dir_.Write("ca", "pem");
  CredentialSource source(config, &clock_);
  EXPECT_FALSE(source.Drop(**source.Get({})));
}

TEST_F(CredentialSourceTest, ThePluginRunsOnceUntilItsCredentialExpires) {
  ClientConfig config;
  config.ca_file = dir_.Write("ca", "pem");
  config.exec = Plugin(R"({"token":"t%s","expirationTimestamp":")" +
                       FormatTime(clock_.WallNow() + 10min) + "\"}");
  CredentialSource source(config, &clock_);
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer t1");
  clock_.Advance(9min);  // other files were read again meanwhile
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer t1");
  EXPECT_EQ(Runs(), 1);
  clock_.Advance(55s);
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer t2");
  EXPECT_EQ(Runs(), 2);
}

TEST_F(CredentialSourceTest, ThePluginRunsAgainWhenItsCredentialWasRefused) {
  ClientConfig config;
  config.exec = Plugin(R"({"token":"t%s"})");
  CredentialSource source(config, &clock_);
  const auto first = *source.Get({});
  clock_.Advance(24h);
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer t1");
  EXPECT_TRUE(source.Drop(*first));
  const auto second = *source.Get({});
  EXPECT_EQ(second->authorization, "Bearer t2");
  // A late complaint about the first one does not cost the second.
  EXPECT_TRUE(source.Drop(*first));
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer t2");
}

// Reading the other files again does not make it another one.
TEST_F(CredentialSourceTest, APluginsCredentialIsRefusedAlsoWhenFilesWereReadAgainSince) {
  const ClientConfig config = AuthorityAndPlugin();
  CredentialSource source(config, &clock_);
  const auto first = *source.Get({});
  clock_.Advance(1min);
  ASSERT_NE(*source.Get({}), first);
  EXPECT_TRUE(source.Drop(*first));
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer t2");
}

TEST_F(CredentialSourceTest, WhatIsRefusedWhileFilesAreReadAgainStaysRefused) {
  const ClientConfig config = AuthorityAndPlugin();
  CredentialSource source(config, &clock_);
  const auto first = *source.Get({});
  std::filesystem::remove(config.ca_file);  // which is said in the log, in the middle of it
  clock_.Advance(1min);
  const LogCapture log;
  spdlog::default_logger()->sinks().push_back(
      std::make_shared<AtEachLogLine>([&] { EXPECT_TRUE(source.Drop(*first)); }));
  EXPECT_EQ((*source.Get({}))->authorization, "Bearer t2");
  EXPECT_EQ(Runs(), 2);
}

// A missing file is no missing object.
TEST_F(CredentialSourceTest, ThePluginIsToldTheAuthorityThatWasReadBefore) {
  ClientConfig config;
  config.ca_file = dir_.Write("ca", "pem");
  config.exec = Plugin(R"({"token":"t%s","expirationTimestamp":")" +
                       FormatTime(clock_.WallNow() + 10min) + "\"}");
  config.exec->provide_cluster_info = true;
  CredentialSource source(config, &clock_);
  ASSERT_TRUE(source.Get({}));
  std::filesystem::remove(config.ca_file);
  clock_.Advance(10min);
  const auto second = source.Get({});
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_EQ((*second)->authorization, "Bearer t2");
}

TEST_F(CredentialSourceTest, ThePluginsCertificateIsUsed) {
  ClientConfig config;
  config.exec = Plugin(R"({"clientCertificateData":"c%s","clientKeyData":"k"})");
  CredentialSource source(config, &clock_);
  const auto got = *source.Get({});
  EXPECT_EQ(got->authorization, "");
  EXPECT_EQ(got->certificate_pem, "c1");
  EXPECT_EQ(got->key_pem, "k");
}

TEST_F(CredentialSourceTest, ManyCallersShareOneRun) {
  ClientConfig config;
  config.exec = Plugin(R"({"token":"t%s"})");
  CredentialSource source(config, RealClock());
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto got = source.Get({});
      if (got && (*got)->authorization == "Bearer t1") ++good;
    });
  }
  threads.clear();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(Runs(), 1);
}

TEST_F(CredentialSourceTest, AStopEndsTheWaitForAnothersRun) {
  ClientConfig config;
  config.exec = Plugin(R"({"token":"t%s"})");
  config.exec->command = dir_.WriteScript("slow", "sleep 30\n");
  CredentialSource source(config, RealClock());
  std::stop_source first;
  std::stop_source second;
  std::atomic<int> cancelled{0};
  const auto get = [&](const std::stop_token& stop) {
    const auto got = source.Get(stop);
    if (!got && got.error().code == ErrorCode::kCancelled) ++cancelled;
  };
  std::jthread runner([&] { get(first.get_token()); });
  std::jthread waiter([&] { get(second.get_token()); });
  std::this_thread::sleep_for(50ms);
  second.request_stop();
  waiter.join();
  first.request_stop();
  runner.join();
  EXPECT_EQ(cancelled, 2);
}

}  // namespace
}  // namespace larder
