#include "client/kubeconfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/config.h"
#include "tests/client/test_util.h"

namespace larder {
namespace {

using ::larder::testing::ScopedEnv;
using ::larder::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr char kSimple[] = R"(
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c1
  cluster: {server: "https://one:6443", certificate-authority: ca.crt}
contexts:
- name: one
  context: {cluster: c1, user: u1, namespace: apps}
- name: two
  context: {cluster: c1}
users:
- name: u1
  user: {token: abc}
)";

TEST(Kubeconfig, FollowsTheCurrentContext) {
  const auto config = ConfigFromKubeconfigs({{"/home/a/.kube/config", kSimple}}, "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://one:6443");
  EXPECT_EQ(config->token, "abc");
  EXPECT_EQ(config->default_namespace, "apps");
  EXPECT_EQ(config->context, "one");
  EXPECT_EQ(config->qps, 50);
  EXPECT_EQ(config->burst, 100);
}

TEST(Kubeconfig, AnotherContextCanBeAskedFor) {
  const auto config = ConfigFromKubeconfigs({{"/k", kSimple}}, "two");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->token, "");
  EXPECT_EQ(config->default_namespace, "default");
}

TEST(Kubeconfig, RelativePathsBelongToTheFileThatHasThem) {
  const std::string users = R"(
users:
- name: u2
  user:
    client-certificate: certs/u2.crt
    client-key: /abs/u2.key
    tokenFile: ../token
contexts:
- name: mixed
  context: {cluster: c1, user: u2}
)";
  const auto config =
      ConfigFromKubeconfigs({{"/first/config", kSimple}, {"/second/dir/config", users}}, "mixed");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ca_file, "/first/ca.crt");
  EXPECT_EQ(config->client_certificate_file, "/second/dir/certs/u2.crt");
  EXPECT_EQ(config->client_key_file, "/abs/u2.key");
  EXPECT_EQ(config->token_file, "/second/dir/../token");
}

struct MergeCase {
  const char* name;
  std::vector<std::string> files;
  const char* context;
  const char* server;
  const char* token;
};

class KubeconfigMerge : public ::testing::TestWithParam<MergeCase> {};

TEST_P(KubeconfigMerge, FirstFileWins) {
  std::vector<KubeconfigFile> files;
  for (const std::string& text : GetParam().files) {
    files.push_back({"/f" + std::to_string(files.size()), text});
  }
  const auto config = ConfigFromKubeconfigs(files, GetParam().context);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, GetParam().server);
  EXPECT_EQ(config->token, GetParam().token);
}

constexpr char kClusterA[] = "clusters: [{name: c, cluster: {server: 'https://a'}}]\n";
constexpr char kClusterB[] = "clusters: [{name: c, cluster: {server: 'https://b'}}]\n";
constexpr char kUserA[] = "users: [{name: u, user: {token: ta}}]\n";
constexpr char kUserB[] = "users: [{name: u, user: {token: tb, username: ''}}]\n";
constexpr char kContext[] = "contexts: [{name: x, context: {cluster: c, user: u}}]\n";
constexpr char kCurrentX[] = "current-context: x\n";

std::string Join(std::initializer_list<const char*> parts) {
  std::string all;
  for (const char* part : parts) all += part;
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Table, KubeconfigMerge,
    ::testing::Values(
        MergeCase{
            "OneFile", {Join({kClusterA, kUserA, kContext, kCurrentX})}, "", "https://a", "ta"},
        MergeCase{"PartsInThreeFiles",
                  {kClusterA, kUserA, Join({kContext, kCurrentX})},
                  "",
                  "https://a",
                  "ta"},
        MergeCase{"SameClusterTwice",
                  {Join({kClusterB, kContext}), Join({kClusterA, kUserA, kCurrentX})},
                  "",
                  "https://b",
                  "ta"},
        MergeCase{"SameUserTwice",
                  {kUserB, Join({kClusterA, kUserA, kContext, kCurrentX})},
                  "",
                  "https://a",
                  "tb"},
        MergeCase{"FirstCurrentContextCounts",
                  {kCurrentX, Join({kClusterA, kUserA, kContext, "current-context: nowhere\n"})},
                  "",
                  "https://a",
                  "ta"},
        MergeCase{"EmptyCurrentContextDoesNotCount",
                  {"current-context: ''\n", Join({kClusterA, kUserA, kContext, kCurrentX})},
                  "",
                  "https://a",
                  "ta"},
        MergeCase{"EmptyFile",
                  {"", Join({kClusterA, kUserA, kContext, kCurrentX})},
                  "",
                  "https://a",
                  "ta"},
        MergeCase{"AskedContextBeatsCurrent",
                  {"current-context: nowhere\n", Join({kClusterA, kUserA, kContext})},
                  "x",
                  "https://a",
                  "ta"},
        MergeCase{"Json",
                  {R"({"clusters":[{"name":"c","cluster":{"server":"https://j"}}],
                       "contexts":[{"name":"x","context":{"cluster":"c","user":""}}]})"},
                  "x",
                  "https://j",
                  ""}),
    [](const auto& param) { return param.param.name; });

TEST(Kubeconfig, AnEntryOfALaterFileAddsNothingToTheFirst) {
  const std::string first = "users: [{name: u, user: {token: t}}]\n";
  const std::string second =
      Join({"users: [{name: u, user: {as: someone}}]\n", kClusterA, kContext, kCurrentX});
  const auto config = ConfigFromKubeconfigs({{"/1", first}, {"/2", second}}, "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->token, "t");
  EXPECT_TRUE(config->impersonate.Empty());
}

TEST(Kubeconfig, ReadsEveryField) {
  const std::string text = R"(
current-context: x
clusters:
- name: c
  cluster:
    server: https://host:8443/prefix
    certificate-authority-data: Q0E=
    certificate-authority: ignored.crt
    tls-server-name: other.example
    proxy-url: socks5://127.0.0.1:1080
    disable-compression: true
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: a, level: 3, on: true, text: "7"}
users:
- name: u
  user:
    client-certificate-data: Q1JU
    client-key-data: S0VZ
    as: jane
    as-uid: "1"
    as-groups: [g1, g2]
    as-user-extra: {reason: [r1, r2]}
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./bin/login
      args: [--a, "b c"]
      env: [{name: K, value: V}]
      installHint: get it there
      interactiveMode: IfAvailable
      provideClusterInfo: true
contexts:
- name: x
  context: {cluster: c, user: u}
)";
  const auto config = ConfigFromKubeconfigs({{"/k/config", text}}, "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://host:8443/prefix");
  EXPECT_EQ(config->ca_data, "CA");
  EXPECT_EQ(config->ca_file, "");
  EXPECT_EQ(config->tls_server_name, "other.example");
  EXPECT_EQ(config->proxy_url, "socks5://127.0.0.1:1080");
  EXPECT_TRUE(config->disable_compression);
  EXPECT_EQ(config->client_certificate_data, "CRT");
  EXPECT_EQ(config->client_key_data, "KEY");
  EXPECT_EQ(config->impersonate.user, "jane");
  EXPECT_EQ(config->impersonate.uid, "1");
  EXPECT_THAT(config->impersonate.groups, ElementsAre("g1", "g2"));
  EXPECT_THAT(config->impersonate.extra, ElementsAre(Pair("reason", ElementsAre("r1", "r2"))));
  ASSERT_TRUE(config->exec);
  EXPECT_EQ(config->exec->command, "/k/./bin/login");
  EXPECT_THAT(config->exec->args, ElementsAre("--a", "b c"));
  EXPECT_THAT(config->exec->env, ElementsAre(Pair("K", "V")));
  EXPECT_EQ(config->exec->install_hint, "get it there");
  EXPECT_TRUE(config->exec->provide_cluster_info);
  EXPECT_EQ(config->exec->cluster_extension_json,
            R"({"audience":"a","level":3,"on":true,"text":"7"})");
}

TEST(Kubeconfig, SkippingVerificationIsRead) {
  const auto config =
      ConfigFromKubeconfigs({{"/k", Join({"clusters: [{name: c, cluster: {server: 'https://a', "
                                          "insecure-skip-tls-verify: true}}]\n",
                                          kUserA, kContext, kCurrentX})}},
                            "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->insecure_skip_tls_verify);
}

struct ErrorCase {
  const char* name;
  std::string text;
  const char* context;
  ErrorCode code;
  const char* says;
};

class KubeconfigErrors : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(KubeconfigErrors, NameTheFileAndTheField) {
  const auto config = ConfigFromKubeconfigs({{"/some/file", GetParam().text}}, GetParam().context);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, GetParam().code) << config.error().message;
  EXPECT_THAT(config.error().message, HasSubstr("/some/file"));
  EXPECT_THAT(config.error().message, HasSubstr(GetParam().says));
  EXPECT_THAT(config.error().message, Not(HasSubstr("s3cr3t")));
}

std::string WithUser(const std::string& user) {
  return Join({kClusterA, kContext, kCurrentX}) + "users: [{name: u, user: " + user + "}]\n";
}
std::string WithCluster(const std::string& cluster) {
  return Join({kUserA, kContext, kCurrentX}) + "clusters: [{name: c, cluster: " + cluster + "}]\n";
}
std::string WithExec(const std::string& exec) { return WithUser("{exec: " + exec + "}"); }

INSTANTIATE_TEST_SUITE_P(
    Table, KubeconfigErrors,
    ::testing::Values(
        ErrorCase{"NotYaml", "users: [{name: u, user: {token: 's3cr3t}}]", "",
                  ErrorCode::kInvalidArgument, "line"},
        ErrorCase{"NotAMapping", "- s3cr3t", "", ErrorCode::kInvalidArgument, "mapping"},
        ErrorCase{"Empty", "", "", ErrorCode::kNotFound, "no cluster"},
        ErrorCase{"ListIsNoList", "clusters: 3", "", ErrorCode::kInvalidArgument, "clusters"},
        ErrorCase{"NoName", "clusters: [{cluster: {}}]", "", ErrorCode::kInvalidArgument, "name"},
        ErrorCase{"SameNameTwice", "users: [{name: u, user: {token: s3cr3t}}, {name: u, user: {}}]",
                  "", ErrorCode::kInvalidArgument, "twice"},
        ErrorCase{"NoCurrentContext", Join({kClusterA, kContext}), "", ErrorCode::kInvalidArgument,
                  "current-context"},
        ErrorCase{"UnknownContext", Join({kClusterA, kContext}), "y", ErrorCode::kInvalidArgument,
                  "'y'"},
        ErrorCase{"UnknownCluster", Join({kUserA, kContext, kCurrentX}), "",
                  ErrorCode::kInvalidArgument, "contexts[x].context.cluster"},
        ErrorCase{"UnknownUser", Join({kClusterA, kContext, kCurrentX}), "",
                  ErrorCode::kInvalidArgument, "contexts[x].context.user"},
        ErrorCase{"NoServer", WithCluster("{}"), "", ErrorCode::kInvalidArgument,
                  "clusters[c].cluster.server"},
        ErrorCase{"PlainHttp", WithCluster("{server: 'http://example.com'}"), "",
                  ErrorCode::kInvalidArgument, "loopback"},
        ErrorCase{"BadCaData",
                  WithCluster("{server: 'https://a', certificate-authority-data: '%'}"), "",
                  ErrorCode::kInvalidArgument, "certificate-authority-data"},
        ErrorCase{"BadBool", WithCluster("{server: 'https://a', insecure-skip-tls-verify: maybe}"),
                  "", ErrorCode::kInvalidArgument, "insecure-skip-tls-verify"},
        ErrorCase{"InsecureWithCa",
                  WithCluster("{server: 'https://a', insecure-skip-tls-verify: true, "
                              "certificate-authority: ca}"),
                  "", ErrorCode::kInvalidArgument, "exclude"},
        ErrorCase{"BadProxy", WithCluster("{server: 'https://a', proxy-url: 'ftp://p'}"), "",
                  ErrorCode::kInvalidArgument, "proxy-url"},
        ErrorCase{"TokenIsAList", WithUser("{token: [s3cr3t]}"), "", ErrorCode::kInvalidArgument,
                  "users[u].user.token"},
        ErrorCase{"CertificateWithoutKey", WithUser("{client-certificate: a}"), "",
                  ErrorCode::kInvalidArgument, "together"},
        ErrorCase{"AuthProvider", WithUser("{auth-provider: {name: gcp}}"), "",
                  ErrorCode::kInvalidArgument, "auth-provider"},
        ErrorCase{"TokenAndExec",
                  WithUser("{token: s3cr3t, exec: {apiVersion: "
                           "client.authentication.k8s.io/v1, command: x}}"),
                  "", ErrorCode::kInvalidArgument, "exclude"},
        ErrorCase{"GroupsWithoutUser", WithUser("{as-groups: [g]}"), "",
                  ErrorCode::kInvalidArgument, "user"},
        ErrorCase{"ExecWithoutCommand", WithExec("{apiVersion: client.authentication.k8s.io/v1}"),
                  "", ErrorCode::kInvalidArgument, "users[u].user.exec.command"},
        ErrorCase{"ExecOldVersion",
                  WithExec("{apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"), "",
                  ErrorCode::kInvalidArgument, "exec.apiVersion"},
        ErrorCase{"ExecNeedsATerminal",
                  WithExec("{apiVersion: client.authentication.k8s.io/v1, command: x, "
                           "interactiveMode: Always}"),
                  "", ErrorCode::kInvalidArgument, "interactiveMode"}),
    [](const auto& param) { return param.param.name; });

TEST(Kubeconfig, DeepNestingIsRefusedNotFollowed) {
  const std::string deep(100'000, '[');
  const auto config = ConfigFromKubeconfigs({{"/k", deep}}, "");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
}

TEST(LoadKubeconfig, MergesTheFilesOfTheVariableAndSkipsMissingOnes) {
  const TempDir dir;
  const std::string a = dir.Write("a", Join({kClusterA, kCurrentX}));
  const std::string b = dir.Write("b", Join({kClusterB, kUserA, kContext}));
  const ScopedEnv env({{"KUBECONFIG", a + ":" + dir.path() + "/missing::" + b}});
  const auto config = LoadKubeconfig();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://a");
  EXPECT_EQ(config->token, "ta");
}

TEST(LoadKubeconfig, ANamedFileBeatsTheVariableAndMustExist) {
  const TempDir dir;
  const std::string a = dir.Write("a", Join({kClusterA, kUserA, kContext, kCurrentX}));
  const std::string b = dir.Write("b", Join({kClusterB, kUserA, kContext, kCurrentX}));
  const ScopedEnv env({{"KUBECONFIG", a}});
  EXPECT_EQ(LoadKubeconfig(b)->server, "https://b");
  const auto missing = LoadKubeconfig(dir.path() + "/missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(LoadKubeconfig, ReadsTheHomeFolder) {
  const TempDir dir;
  dir.Write(".kube/config", Join({kClusterA, kUserA, kContext, kCurrentX}));
  const ScopedEnv env({{"KUBECONFIG", std::nullopt}, {"HOME", dir.path()}});
  const auto config = LoadKubeconfig();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://a");
}

TEST(DefaultConfig, FallsBackToTheServiceAccountAndThenSaysWhatIsMissing) {
  const TempDir dir;
  const ScopedEnv env({{"KUBECONFIG", dir.path() + "/none"},
                       {"KUBERNETES_SERVICE_HOST", std::nullopt},
                       {"KUBERNETES_SERVICE_PORT", std::nullopt}});
  const auto config = DefaultConfig();
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(config.error().message, HasSubstr("/none"));
  EXPECT_THAT(config.error().message, HasSubstr("KUBERNETES_SERVICE_HOST"));
}

TEST(DefaultConfig, ABrokenKubeconfigIsAnErrorNotAFallback) {
  const TempDir dir;
  const ScopedEnv env({{"KUBECONFIG", dir.Write("broken", "{{{")}});
  const auto config = DefaultConfig();
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
}

TEST(InClusterConfig, ReadsTheServiceAccount) {
  const TempDir dir;
  dir.Write("token", "t");
  dir.Write("ca.crt", "ca");
  dir.Write("namespace", "apps\n");
  const ScopedEnv env(
      {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}});
  const auto config = InClusterConfigFrom(dir.path());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://10.0.0.1:443");
  EXPECT_EQ(config->token_file, dir.path() + "/token");
  EXPECT_EQ(config->ca_file, dir.path() + "/ca.crt");
  EXPECT_EQ(config->default_namespace, "apps");
}

TEST(InClusterConfig, PutsBracketsAroundIpv6) {
  const TempDir dir;
  dir.Write("token", "t");
  dir.Write("ca.crt", "ca");
  const ScopedEnv env({{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}});
  EXPECT_EQ(InClusterConfigFrom(dir.path())->server, "https://[fd00::1]:443");
}

TEST(InClusterConfig, NamesTheMissingFile) {
  const TempDir dir;
  dir.Write("token", "t");
  const ScopedEnv env({{"KUBERNETES_SERVICE_HOST", "h"}, {"KUBERNETES_SERVICE_PORT", "443"}});
  const auto config = InClusterConfigFrom(dir.path());
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("ca.crt"));
}

}  // namespace
}  // namespace larder
