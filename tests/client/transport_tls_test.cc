// Who the transport trusts, and whom it proves itself to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/transport.h"
#include "tests/client/connect_proxy.h"
#include "tests/client/test_server.h"
#include "tests/client/test_util.h"

namespace larder {
namespace {

using ::larder::testing::Authority;
using ::larder::testing::ConnectProxy;
using ::larder::testing::LogCapture;
using ::larder::testing::ScopedEnv;
using ::larder::testing::TempDir;
using ::larder::testing::TestServer;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class TlsTest : public ::testing::Test {
 protected:
  void Serve(TestServer& server) {
    server.http().Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      ++requests_;
      host_ = request.get_header_value("Host");
      response.set_content("{}", "application/json");
    });
    server.Start();
  }
  Result<Response> Try(const ClientConfig& config) {
    auto transport = MakeTransport(config);
    if (!transport) return tl::unexpected(transport.error());
    Request request;
    request.path = "/x";
    request.timeout = 10s;
    return (*transport)->Do(request, {});
  }
  ClientConfig Trusting(const TestServer& server, const Authority& authority) {
    ClientConfig config = server.Config();
    config.ca_data = authority.Pem();
    config.token = "canary-5f0e9b";
    return config;
  }
  void ExpectRefused(const Result<Response>& response) {
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::kProtocol) << response.error().message;
    EXPECT_THAT(response.error().message, HasSubstr("certificate was refused"));
    EXPECT_EQ(requests_, 0);
  }

  const Authority authority_{"test authority"};
  const Authority stranger_{"stranger"};
  std::atomic<int> requests_{0};
  std::string host_;
};

TEST_F(TlsTest, AcceptsTheNamedAuthorityInlineAndFromAFile) {
  TestServer server(authority_.SignServer());
  Serve(server);
  const auto inline_pem = Try(Trusting(server, authority_));
  ASSERT_TRUE(inline_pem) << inline_pem.error().message;
  const TempDir dir;
  ClientConfig config = server.Config();
  config.ca_file = dir.Write("ca.crt", authority_.Pem());
  const auto file = Try(config);
  ASSERT_TRUE(file) << file.error().message;
}

TEST_F(TlsTest, RefusesAnUnknownAuthority) {
  TestServer server(authority_.SignServer());
  Serve(server);
  ExpectRefused(Try(Trusting(server, stranger_)));
}

TEST_F(TlsTest, RefusesAPrivateAuthorityWithTheSystemsList) {
  TestServer server(authority_.SignServer());
  Serve(server);
  ExpectRefused(Try(server.Config()));
}

TEST_F(TlsTest, RefusesACertificateOfAnotherHost) {
  TestServer server(authority_.Sign(
      {.common_name = "127.0.0.1", .alternative_names = {"DNS:elsewhere.example"}}));
  Serve(server);
  ExpectRefused(Try(Trusting(server, authority_)));
}

TEST_F(TlsTest, RefusesAnExpiredCertificate) {
  TestServer server(authority_.Sign({.common_name = "s",
                                     .alternative_names = {"IP:127.0.0.1"},
                                     .valid_from_seconds = -7200,
                                     .valid_until_seconds = -3600}));
  Serve(server);
  ExpectRefused(Try(Trusting(server, authority_)));
}

TEST_F(TlsTest, RefusesACertificateFromTheFuture) {
  TestServer server(authority_.Sign({.common_name = "s",
                                     .alternative_names = {"IP:127.0.0.1"},
                                     .valid_from_seconds = 3600,
                                     .valid_until_seconds = 7200}));
  Serve(server);
  ExpectRefused(Try(Trusting(server, authority_)));
}

TEST_F(TlsTest, VerifiesTheOtherNameThatWasGiven) {
  TestServer server(
      authority_.Sign({.common_name = "s", .alternative_names = {"DNS:elsewhere.example"}}));
  Serve(server);
  ClientConfig config = Trusting(server, authority_);
  config.tls_server_name = "elsewhere.example";
  const auto response = Try(config);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(host_, "127.0.0.1:" + std::to_string(server.port()));
  requests_ = 0;
  config.tls_server_name = "third.example";
  ExpectRefused(Try(config));
}

TEST_F(TlsTest, SkippingVerificationWorksAndWarns) {
  TestServer server(authority_.SignServer());
  Serve(server);
  const LogCapture log;
  ClientConfig config = server.Config();
  config.insecure_skip_tls_verify = true;
  const auto response = Try(config);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_THAT(log.text(), HasSubstr("insecure-skip-tls-verify"));
}

TEST_F(TlsTest, AMissingAuthorityFileIsAnErrorNotTheSystemsList) {
  TestServer server(authority_.SignServer());
  Serve(server);
  ClientConfig config = server.Config();
  config.ca_file = "/no/such/ca.crt";
  const auto response = Try(config);
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().message, HasSubstr("/no/such/ca.crt"));
  EXPECT_EQ(requests_, 0);
}

TEST_F(TlsTest, ProvesItselfWithAClientCertificate) {
  TestServer server(authority_.SignServer(), &authority_);
  Serve(server);
  const auto client = authority_.Sign({.common_name = "jane", .alternative_names = {}});
  ClientConfig config = Trusting(server, authority_);
  config.client_certificate_data = client.CertificatePem();
  config.client_key_data = client.KeyPem();
  const auto inline_pem = Try(config);
  ASSERT_TRUE(inline_pem) << inline_pem.error().message;

  const TempDir dir;
  ClientConfig from_files = Trusting(server, authority_);
  from_files.client_certificate_file = dir.Write("c.crt", client.CertificatePem());
  from_files.client_key_file = dir.Write("c.key", client.KeyPem());
  const auto file = Try(from_files);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(requests_, 2);

  const auto nobody = Try(Trusting(server, authority_));
  EXPECT_FALSE(nobody);
  EXPECT_EQ(requests_, 2);
}

TEST_F(TlsTest, AKeyThatDoesNotFitIsTheConfigurationsFault) {
  TestServer server(authority_.SignServer());
  Serve(server);
  const auto one = authority_.Sign({.common_name = "one", .alternative_names = {}});
  const auto two = authority_.Sign({.common_name = "two", .alternative_names = {}});
  ClientConfig config = Trusting(server, authority_);
  config.client_certificate_data = one.CertificatePem();
  config.client_key_data = two.KeyPem();
  const auto response = Try(config);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnauthorized) << response.error().message;
}

TEST_F(TlsTest, AKeyWithAPassphraseIsTheConfigurationsFault) {
  TestServer server(authority_.SignServer());
  Serve(server);
  const auto client = authority_.Sign({.common_name = "client", .alternative_names = {}});
  ClientConfig config = Trusting(server, authority_);
  config.client_certificate_data = client.CertificatePem();
  config.client_key_data = client.KeyPemWithPassphrase();
  ASSERT_THAT(config.client_key_data, HasSubstr("ENCRYPTED"));
  const auto response = Try(config);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnauthorized) << response.error().message;
  EXPECT_THAT(response.error().message, HasSubstr("a passphrase is not supported"));
  EXPECT_EQ(requests_, 0);
}

TEST_F(TlsTest, AnAuthorityThatIsNoPemIsTheConfigurationsFault) {
  TestServer server(authority_.SignServer());
  Serve(server);
  ClientConfig config = server.Config();
  config.ca_data = "not a certificate";
  const auto response = Try(config);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnauthorized) << response.error().message;
  EXPECT_EQ(requests_, 0);
}

TEST_F(TlsTest, TunnelsThroughAProxyThatLearnsNothing) {
  TestServer server(
      authority_.Sign({.common_name = "s", .alternative_names = {"DNS:cluster.example"}}));
  Serve(server);
  const ConnectProxy proxy;
  ClientConfig config = Trusting(server, authority_);
  config.server = server.Url("cluster.example");  // a name that only the proxy knows
  config.proxy_url = proxy.Url();
  const auto response = Try(config);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->headers.count("x-proxy"), 0u);
  ASSERT_EQ(proxy.heads().size(), 2u);  // the first found out that there is no HTTP/2
  for (const std::string& head : proxy.heads()) {
    EXPECT_THAT(head, HasSubstr("CONNECT cluster.example:"));
    EXPECT_THAT(head, Not(HasSubstr(config.token)));
  }
  // And whom it tunnels to is still verified.
  config.ca_data = stranger_.Pem();
  requests_ = 0;
  ExpectRefused(Try(config));
}

// The name that is verified is not the host that is asked.
TEST_F(TlsTest, NoProxyIsAboutTheHostThatIsAskedNotTheNameThatIsVerified) {
  TestServer server(
      authority_.Sign({.common_name = "s", .alternative_names = {"DNS:elsewhere.example"}}));
  Serve(server);
  const ConnectProxy proxy;
  ClientConfig config = Trusting(server, authority_);
  config.server = server.Url("0.0.0.0");  // reachable, and not known as a loopback address
  config.tls_server_name = "elsewhere.example";
  {
    const ScopedEnv env({{"https_proxy", proxy.Url()}, {"no_proxy", "0.0.0.0/8"}});
    const auto response = Try(config);
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_TRUE(proxy.heads().empty());
  }
  const ScopedEnv env({{"https_proxy", proxy.Url()}, {"no_proxy", "elsewhere.example"}});
  const auto response = Try(config);
  ASSERT_TRUE(response) << response.error().message;
  ASSERT_FALSE(proxy.heads().empty());
  EXPECT_THAT(proxy.heads()[0], HasSubstr("CONNECT 0.0.0.0:"));
}

TEST_F(TlsTest, OldProtocolVersionsAreRefused) {
  TestServer server(authority_.SignServer());
  auto& tls = dynamic_cast<httplib::SSLServer&>(server.http());
  SSL_CTX_set_min_proto_version(tls.ssl_context(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(tls.ssl_context(), TLS1_1_VERSION);
  SSL_CTX_set_security_level(tls.ssl_context(), 0);
  Serve(server);
  const auto response = Try(Trusting(server, authority_));
  ASSERT_FALSE(response);
  EXPECT_EQ(requests_, 0);
}

}  // namespace
}  // namespace larder
