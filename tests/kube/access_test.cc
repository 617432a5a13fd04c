// Who may connect to whom: certificates, tokens that expire, rights that are missing.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/kube/kube_fixture.h"

namespace larder {
namespace {

using ::testing::HasSubstr;
using testing::Not;

using KubeAccess = KubeTest;

TEST_F(KubeAccess, KubeconfigWithATokenOrACertificate) {
  for (const char* file : {"/kubeconfig", "/kubeconfig-certificate"}) {
    const auto config = LoadKubeconfig(Environment("LARDER_KUBE_DIR") + file);
    ASSERT_TRUE(config) << config.error().ToString();
    const auto transport = Connect(*config);
    const auto uid = ClusterUid(*transport);
    ASSERT_TRUE(uid) << file << uid.error().ToString();
    EXPECT_EQ(*uid, cluster_uid_);
  }
}

TEST_F(KubeAccess, TheCertificateMustNameTheHost) {
  ClientConfig config = Admin();
  config.tls_server_name = "another.example";
  const auto transport = Connect(config);
  MirrorTarget target;
  Run(&target, transport.get());
  ASSERT_TRUE(Reaches([](const ReflectorStatus& status) { return status.error.has_value(); }));
  const std::string message = Status().last_error->message;  // `error` ends with the next attempt
  EXPECT_THAT(message, HasSubstr("another.example"));
  EXPECT_THAT(message, Not(HasSubstr(config.token)));
  EXPECT_FALSE(Status().synced);
  Stop();
  // Another name of the same server is in its certificate.
  config.tls_server_name = "kubernetes.default.svc";
  const auto named = Connect(config);
  Make("a");
  Run(&target, named.get());
  EXPECT_TRUE(Equal(target));
}

TEST_F(KubeAccess, TheCertificateMustBeSignedByTheAuthority) {
  ClientConfig config = Admin();
  // A certificate, but nobody that signs others.
  config.ca_file = Environment("LARDER_KUBE_DIR") + "/pki/guest.crt";
  const auto transport = Connect(config);
  const auto uid = ClusterUid(*transport);
  ASSERT_FALSE(uid);
  EXPECT_THAT(uid.error().message, HasSubstr("certificate"));
}

TEST_F(KubeAccess, MissingRightsAreReportedForTheirCollectionAndEndWhenGranted) {
  ClientConfig config = Admin();
  config.token = Environment("LARDER_KUBE_GUEST_TOKEN");
  const auto transport = Connect(config);
  Make("a");
  MirrorTarget target;
  Run(&target, transport.get());
  ASSERT_TRUE(Reaches([](const ReflectorStatus& status) { return status.error.has_value(); }));
  EXPECT_EQ(Status().last_error->code, ErrorCode::kForbidden);
  EXPECT_THAT(Status().last_error->message, HasSubstr("configmaps"));
  EXPECT_FALSE(Status().synced);
  const auto grant = [&](const char* kind, Json object) {
    object["metadata"] = {{"name", "guest"}, {"namespace", ns_}};
    const std::string plural = kind == std::string("Role") ? "roles" : "rolebindings";
    ASSERT_TRUE(client_->Create({"rbac.authorization.k8s.io", "v1", plural, kind, true}, object));
  };
  grant("Role", {{"rules", Json::array({{{"apiGroups", {""}},
                                         {"resources", {"configmaps"}},
                                         {"verbs", {"get", "list", "watch"}}}})}});
  grant("RoleBinding",
        {{"subjects",
          Json::array(
              {{{"kind", "User"}, {"name", "guest"}, {"apiGroup", "rbac.authorization.k8s.io"}}})},
         {"roleRef",
          {{"kind", "Role"}, {"name", "guest"}, {"apiGroup", "rbac.authorization.k8s.io"}}}});
  EXPECT_TRUE(Equal(target));
  EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return !status.error; }));
}

TEST_F(KubeAccess, AnUnknownTokenIsUnauthorized) {
  ClientConfig config = Admin();
  config.token = "nobody";
  const auto transport = Connect(config);
  MirrorTarget target;
  Run(&target, transport.get());
  ASSERT_TRUE(Reaches([](const ReflectorStatus& status) { return status.error.has_value(); }));
  EXPECT_EQ(Status().last_error->code, ErrorCode::kUnauthorized);
}

// A token file as the kubelet keeps it: replaced while the process runs. The old token really
// expires here.
TEST_F(KubeAccess, AnExpiredTokenIsReadAgainFromItsFile) {
  const Resource accounts = {"", "v1", "serviceaccounts", "ServiceAccount", true};
  const auto account =
      client_->Create(accounts, {{"metadata", {{"name", "larder"}, {"namespace", ns_}}}});
  ASSERT_TRUE(account) << account.error().ToString();
  const Resource bindings = {"rbac.authorization.k8s.io", "v1", "clusterrolebindings",
                             "ClusterRoleBinding", false};
  ASSERT_TRUE(client_->Create(
      bindings,
      {{"metadata", {{"name", ns_}}},
       {"subjects",
        Json::array({{{"kind", "ServiceAccount"}, {"name", "larder"}, {"namespace", ns_}}})},
       {"roleRef",
        {{"kind", "ClusterRole"},
         {"name", "cluster-admin"},
         {"apiGroup", "rbac.authorization.k8s.io"}}}}));
  const auto token = [&](int seconds) {
    return Kube({"token", ns_, "larder", std::string((*account)->uid()), std::to_string(seconds)});
  };
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / (ns_ + "-token");
  const auto write = [&](const std::string& text) {
    std::ofstream(file.string() + ".new") << text;
    std::filesystem::rename(file.string() + ".new", file);
  };
  write(token(3));
  ClientConfig config = Admin();
  config.token.clear();
  config.token_file = file;
  const auto transport = Connect(config);
  options_.watch_timeout_min = options_.watch_timeout_max = std::chrono::seconds(2);
  Make("a");
  MirrorTarget target(cluster_uid_);
  Run(&target, transport.get());
  ASSERT_TRUE(Equal(target));
  // The server remembers a token for some seconds longer than it is valid.
  ASSERT_TRUE(Reaches([](const ReflectorStatus& status) { return status.error.has_value(); }));
  EXPECT_EQ(Status().last_error->code, ErrorCode::kUnauthorized);
  write(token(600));
  Make("b");
  EXPECT_TRUE(Equal(target));
  EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return !status.error; }));
  EXPECT_EQ(Status().lists, 1U);
  std::filesystem::remove(file);
  (void)client_->Delete(bindings, {"", ns_});
}

}  // namespace
}  // namespace larder
