#include "client/exec_credential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/process.h"
#include "client/subprocess.h"
#include "client/timestamp.h"
#include "schema/object.h"
#include "tests/client/test_util.h"

namespace larder {
namespace {

using ::larder::testing::LogCapture;
using ::larder::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kV1[] = "client.authentication.k8s.io/v1";

std::string Credential(const std::string& status) {
  return R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":)" +
         status + "}";
}

TEST(ExecCredential, ReadsTokenCertificateAndExpiry) {
  const auto got = ParseExecCredential(
      Credential(R"({"token":"t","clientCertificateData":"c","clientKeyData":"k",
                     "expirationTimestamp":"2026-01-02T03:04:05Z"})"),
      kV1);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->token, "t");
  EXPECT_EQ(got->certificate_pem, "c");
  EXPECT_EQ(got->key_pem, "k");
  ASSERT_TRUE(got->expires);
  EXPECT_EQ(FormatTime(*got->expires), "2026-01-02T03:04:05Z");
}

TEST(ExecCredential, RefusesWithoutShowingTheOutput) {
  const std::string cases[] = {
      "",
      "s3cr3t",
      "[]",
      R"({"kind":"Secret","token":"s3cr3t"})",
      R"({"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"s3cr3t"}})",
      R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"})",
      Credential("null"),
      Credential("{}"),
      Credential(R"({"token":["s3cr3t"]})"),
      Credential(R"({"clientCertificateData":"s3cr3t"})"),
      Credential(R"({"token":"s3cr3t","clientKeyData":"s3cr3t"})"),
      Credential(R"({"token":"s3cr3t","expirationTimestamp":"s3cr3t"})"),
      Credential(R"({"token":"s3cr3t","expirationTimestamp":5})"),
      std::string(100'000, '['),
  };
  for (const std::string& text : cases) {
    const auto got = ParseExecCredential(text, kV1);
    ASSERT_FALSE(got) << text.substr(0, 200);
    EXPECT_EQ(got.error().code, ErrorCode::kUnauthorized);
    EXPECT_THAT(got.error().message, Not(HasSubstr("s3cr3t")));
  }
}

TEST(ExecPlugin, GetsItsArgumentsAsTheyAreAndTheClusterInItsEnvironment) {
  const TempDir dir;
  ClientConfig config = ForUrl("https://host:6443");
  ExecPlugin plugin;
  plugin.api_version = kV1;
  plugin.command = dir.WriteScript("plugin", R"(
printf '%s\n' "$@" > )" + dir.path() + R"(/args
printf '%s' "$KUBERNETES_EXEC_INFO" > )" + dir.path() +
                                                 R"(/info
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$FROM_ENV"
)");
  plugin.args = {"a b", "$(touch " + dir.path() + "/hacked)", "; exit 1"};
  plugin.env = {{"FROM_ENV", "t0ken"}};
  plugin.provide_cluster_info = true;
  plugin.cluster_extension_json = R"({"x":1})";
  const auto got = RunExecPlugin(config, plugin, "CA", {});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->token, "t0ken");
  EXPECT_EQ(dir.Read("args"),
            plugin.args[0] + "\n" + plugin.args[1] + "\n" + plugin.args[2] + "\n");
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/hacked"));
  const Json info = Json::parse(dir.Read("info"));
  EXPECT_EQ(info["apiVersion"], kV1);
  EXPECT_EQ(info["kind"], "ExecCredential");
  EXPECT_EQ(info["spec"]["interactive"], false);
  EXPECT_EQ(info["spec"]["cluster"]["server"], "https://host:6443");
  EXPECT_EQ(info["spec"]["cluster"]["certificate-authority-data"], "Q0E=");
  EXPECT_EQ(info["spec"]["cluster"]["config"]["x"], 1);
}

TEST(ExecPlugin, AMissingProgramShowsTheInstallHint) {
  ExecPlugin plugin;
  plugin.api_version = kV1;
  plugin.command = "larder-no-such-plugin";
  plugin.install_hint = "install it from there";
  const auto got = RunExecPlugin(ForUrl("https://h"), plugin, "", {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kUnauthorized);
  EXPECT_THAT(got.error().message, HasSubstr("larder-no-such-plugin"));
  EXPECT_THAT(got.error().message, HasSubstr("install it from there"));
}

TEST(ExecPlugin, FailureSaysTheStatusButNotTheOutput) {
  const TempDir dir;
  const LogCapture log;
  ExecPlugin plugin;
  plugin.api_version = kV1;
  plugin.command = dir.WriteScript("plugin", "echo s3cr3t; echo s3cr3t >&2; exit 3\n");
  const auto got = RunExecPlugin(ForUrl("https://h"), plugin, "", {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kUnauthorized);
  EXPECT_THAT(got.error().message, HasSubstr("status 3"));
  EXPECT_THAT(got.error().message, Not(HasSubstr("s3cr3t")));
  EXPECT_THAT(log.text(), Not(HasSubstr("s3cr3t")));
}

TEST(RunProgram, KillsTheWholeGroupWhenTheTimeIsOver) {
  const TempDir dir;
  ProgramSpec spec;
  // The child keeps the pipe open; only ending the group ends it.
  spec.argv = {dir.WriteScript("slow", "sleep 30 & echo $! > " + dir.path() + "/pid; wait\n")};
  spec.timeout = std::chrono::milliseconds(300);
  const auto begun = std::chrono::steady_clock::now();
  const auto got = RunProgram(spec, {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  const pid_t child = std::stoi(dir.Read("pid"));
  // Killed, and gone as soon as init has reaped it.
  for (int i = 0; i < 500 && ::kill(child, 0) == 0; ++i) {
    const std::string stat = "/proc/" + std::to_string(child) + "/stat";
    std::ifstream file(stat);
    std::string content((std::istreambuf_iterator<char>(file)), {});
    if (content.find(") Z") != std::string::npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_NE(::kill(child, 0), 0);
}

// A process that ignores SIGCHLD has nobody to wait for: the kernel reaps its children.
TEST(RunProgram, SeesTheEndOfAChildThatSomebodyElseReaped) {
  const TempDir dir;
  ProgramSpec spec;
  spec.argv = {dir.WriteScript("quick", "echo done\n")};
  spec.timeout = std::chrono::seconds(5);
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const auto got = RunProgram(spec, {});
  std::signal(SIGCHLD, before);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, "done\n");
}

TEST(RunProgram, BoundsTheOutput) {
  const TempDir dir;
  ProgramSpec spec;
  spec.argv = {dir.WriteScript("loud", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done\n")};
  spec.max_output_bytes = 10'000;
  const auto got = RunProgram(spec, {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(got.error().message, HasSubstr("10000 bytes"));
}

TEST(RunProgram, StopsWhenAsked) {
  const TempDir dir;
  ProgramSpec spec;
  spec.argv = {dir.WriteScript("slow", "sleep 30\n")};
  std::stop_source source;
  Result<std::string> got = std::string();
  std::jthread runner([&] { got = RunProgram(spec, source.get_token()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto begun = std::chrono::steady_clock::now();
  source.request_stop();
  runner.join();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
}

TEST(RunProgram, AGrandchildThatKeepsThePipeOpenDoesNotKeepUs) {
  const TempDir dir;
  ProgramSpec spec;
  spec.argv = {dir.WriteScript("daemon", "sleep 5 &\necho done\n")};
  const auto begun = std::chrono::steady_clock::now();
  const auto got = RunProgram(spec, {});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, "done\n");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(3));
}

TEST(RunProgram, InheritsNoOpenFiles) {
  const TempDir dir;
  const int leaked = ::dup(STDIN_FILENO);  // without O_CLOEXEC
  ProgramSpec spec;
  spec.argv = {dir.WriteScript("fds", "ls /proc/$$/fd\n")};
  const auto got = RunProgram(spec, {});
  ::close(leaked);
  ASSERT_TRUE(got) << got.error().message;
  // The shell itself opens its script as one more, at 10 or above.
  EXPECT_THAT(*got, Not(HasSubstr("\n" + std::to_string(leaked) + "\n")));
}

TEST(RunProgram, InheritsNoVariableThatHoldsAKey) {
  const TempDir dir;
  ::setenv("LARDER_TEST_HIDDEN", "hunter2", 1);
  ProgramSpec spec;
  spec.argv = {dir.WriteScript("env", "echo \"[$LARDER_TEST_HIDDEN]\"\n")};
  const auto before = RunProgram(spec, {});
  HideFromPrograms("LARDER_TEST_HIDDEN");
  const auto after = RunProgram(spec, {});
  ::unsetenv("LARDER_TEST_HIDDEN");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(*before, "[hunter2]\n") << "or the test would prove nothing";
  EXPECT_EQ(*after, "[]\n");
}

TEST(Timestamp, ReadsWhatKubernetesWrites) {
  EXPECT_EQ(FormatTime(*ParseTimestamp("2026-03-04T05:06:07Z")), "2026-03-04T05:06:07Z");
  EXPECT_EQ(FormatMicroTime(*ParseTimestamp("2026-03-04T05:06:07.123456Z")),
            "2026-03-04T05:06:07.123456Z");
  EXPECT_EQ(FormatMicroTime(*ParseTimestamp("2026-03-04T05:06:07.1Z")),
            "2026-03-04T05:06:07.100000Z");
  EXPECT_EQ(FormatTime(*ParseTimestamp("2026-03-04T05:06:07+02:00")), "2026-03-04T03:06:07Z");
  EXPECT_EQ(FormatTime(*ParseTimestamp("2026-03-04T23:30:00-01:30")), "2026-03-05T01:00:00Z");
  for (const char* text :
       {"", "2026", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00",
        "2026-01-01T00:00:00Zx", "0000-01-01T00:00:00Z", "2026-01-01T00:00:00.Z",
        "9999-01-01T00:00:00Z", "+026-01-01T00:00:00Z"}) {
    EXPECT_FALSE(ParseTimestamp(text)) << text;
  }
}

}  // namespace
}  // namespace larder
