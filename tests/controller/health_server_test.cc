// /metrics, /healthz and /readyz as a kubelet and Prometheus ask for them.
#include "controller/health_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <vector>

#include "tests/client/test_certificates.h"

namespace larder {
namespace {

using ::testing::HasSubstr;

class HealthServerTest : public ::testing::Test {
 protected:
  void Start() {
    const auto started = server_.Start({.address = "127.0.0.1:0"});
    ASSERT_TRUE(started) << started.error().ToString();
  }
  httplib::Result Get(const std::string& path) {
    return httplib::Client("127.0.0.1", server_.port()).Get(path);
  }

  prometheus::Registry registry_;
  HealthServer server_{&registry_};
};

TEST_F(HealthServerTest, ReadyWhenEveryCheckPasses) {
  bool synced = false;
  server_.AddReadyCheck("store", [] { return Result<void>(); });
  server_.AddReadyCheck("informers", [&]() -> Result<void> {
    if (synced) return {};
    return MakeError(ErrorCode::kNotReady, "pods is not in sync");
  });
  Start();
  auto answer = Get("/readyz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 500);
  EXPECT_THAT(answer->body, HasSubstr("[+]store ok"));
  EXPECT_THAT(answer->body, HasSubstr("[-]informers failed: NotReady: pods is not in sync"));
  EXPECT_EQ(Get("/readyz/store")->status, 200);
  EXPECT_EQ(Get("/readyz/informers")->status, 500);
  EXPECT_EQ(Get("/readyz/nothing")->status, 404);
  EXPECT_EQ(Get("/readyz?exclude=informers")->status, 200);
  synced = true;
  answer = Get("/readyz");
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "ok");
  EXPECT_THAT(Get("/readyz?verbose")->body, HasSubstr("[+]informers ok"));
}

TEST_F(HealthServerTest, HealthHasChecksOfItsOwn) {
  server_.AddReadyCheck("never", [] { return MakeError(ErrorCode::kNotReady, "no"); });
  server_.AddHealthCheck("throws", []() -> Result<void> { throw std::runtime_error("broken"); });
  Start();
  EXPECT_THAT(Get("/healthz")->body, HasSubstr("broken"));
  server_.AddHealthCheck("throws", [] { return Result<void>(); });
  EXPECT_EQ(Get("/healthz")->status, 200);
}

TEST_F(HealthServerTest, MetricsAreBroughtUpToDateBeforeTheyAreShown) {
  auto& counter = prometheus::BuildCounter().Name("asked_total").Register(registry_).Add({});
  server_.OnScrape([&] { counter.Increment(); });
  Start();
  EXPECT_THAT(Get("/metrics")->body, HasSubstr("asked_total 1"));
  const auto second = Get("/metrics");
  EXPECT_THAT(second->body, HasSubstr("asked_total 2"));
  EXPECT_THAT(second->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
}

TEST_F(HealthServerTest, ProbesAreAnsweredAtOnceBesideConnectionsThatAreIdle) {
  Start();
  // Scrapers that keep their connections, and some that never ask.
  std::vector<std::unique_ptr<httplib::Client>> scrapers;
  std::vector<int> silent;
  for (int i = 0; i < 6; ++i) {
    auto& scraper =
        scrapers.emplace_back(std::make_unique<httplib::Client>("127.0.0.1", server_.port()));
    scraper->set_keep_alive(true);
    ASSERT_TRUE(scraper->Get("/metrics"));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    silent.push_back(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(silent.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = Get("/healthz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  // A kubelet waits for a second.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  for (const int socket : silent) ::close(socket);
}

TEST_F(HealthServerTest, APortInUseIsAnErrorThatNamesIt) {
  Start();
  HealthServer second(nullptr);
  const std::string address = "127.0.0.1:" + std::to_string(server_.port());
  const auto started = second.Start({.address = address});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr(address));
}

TEST_F(HealthServerTest, ServesWithTlsAndRefusesABadCertificate) {
  const testing::Authority authority("health");
  const testing::Identity identity = authority.SignServer();
  const std::string folder = ::testing::TempDir();
  const std::string certificate = folder + "/larder-health.crt";
  const std::string key = folder + "/larder-health.key";
  std::ofstream(certificate) << identity.CertificatePem();
  std::ofstream(key) << identity.KeyPem();
  EXPECT_FALSE(server_.Start(
      {.address = "127.0.0.1:0", .tls_cert_file = "/does/not/exist", .tls_key_file = key}));
  const auto started =
      server_.Start({.address = "127.0.0.1:0", .tls_cert_file = certificate, .tls_key_file = key});
  ASSERT_TRUE(started) << started.error().ToString();
  httplib::SSLClient client("127.0.0.1", server_.port());
  client.enable_server_certificate_verification(false);
  const auto answer = client.Get("/healthz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_FALSE(Get("/healthz"));  // plain HTTP
}

}  // namespace
}  // namespace larder
