// /metrics, /healthz and /readyz as a kubelet and Prometheus ask for them.
#include "controller/health_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
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

  // Without a word.
  int Connect() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return socket;
  }

  prometheus::Registry registry_;
  HealthServer server_{&registry_};
};

// Clients that each send a byte now and then, for ever.
class Drippers {
 public:
  explicit Drippers(std::vector<int> sockets)
      : sockets_(std::move(sockets)), thread_([this](const std::stop_token& stop) {
          do {
            for (const int socket : sockets_) ::send(socket, "G", 1, MSG_NOSIGNAL);
          } while (RealClock()->SleepFor(std::chrono::milliseconds(100), stop));
        }) {}
  ~Drippers() {
    thread_.request_stop();
    thread_.join();
    for (const int socket : sockets_) ::close(socket);
  }

 private:
  const std::vector<int> sockets_;
  std::jthread thread_;
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

TEST_F(HealthServerTest, ARangeDoesNotMultiplyAnAnswer) {
  prometheus::BuildGauge().Name("large").Help(std::string(10'000, 'x')).Register(registry_).Add({});
  Start();
  const std::string whole = Get("/metrics")->body;
  std::string many = "bytes=0-";
  while (many.size() < 4000) many += ",0-";
  for (const std::string& range : {std::string("bytes=1-,-,-"), std::string("bytes=0-3"), many}) {
    const auto answer =
        httplib::Client("127.0.0.1", server_.port()).Get("/metrics", {{"Range", range}});
    ASSERT_TRUE(answer) << range;
    EXPECT_EQ(answer->status, 200) << range;
    EXPECT_EQ(answer->body, whole) << range;
    EXPECT_THAT(answer->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  }
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
    silent.push_back(Connect());
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = Get("/healthz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  // A kubelet waits for a second.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  for (const int socket : silent) ::close(socket);
}

TEST_F(HealthServerTest, ProbesAreAnsweredBesideClientsThatAreSlowAndStopWaitsForNone) {
  Start();
  std::vector<int> sockets;
  for (int i = 0; i < 16; ++i) sockets.push_back(Connect());
  const Drippers drippers(sockets);
  for (int probe = 0; probe < 3; ++probe) {
    const auto begin = std::chrono::steady_clock::now();
    const auto answer = Get("/healthz");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  }
  const auto begin = std::chrono::steady_clock::now();
  server_.Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(HealthServerTest, ABodyIsRefusedBeforeItIsRead) {
  Start();
  const int socket = Connect();
  const std::string head = "POST /healthz HTTP/1.1\r\nContent-Length: 67108864\r\n\r\n";
  ASSERT_EQ(::send(socket, head.data(), head.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(head.size()));
  std::string answer(64, ' ');
  ASSERT_GT(::recv(socket, answer.data(), answer.size(), 0), 0);
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 405"));
  ::close(socket);
  EXPECT_EQ(httplib::Client("127.0.0.1", server_.port()).Head("/healthz")->status, 200);
}

TEST_F(HealthServerTest, ALineWithoutEndIsNotReadToTheEnd) {
  Start();
  const int socket = Connect();
  const std::string piece(1 << 20, 'a');
  size_t pieces = 0;
  while (pieces < 64 && ::send(socket, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) ++pieces;
  // Some of it is in the buffers of the kernel.
  EXPECT_LT(pieces, 32U);
  ::close(socket);
  EXPECT_EQ(Get("/healthz")->status, 200);
}

TEST_F(HealthServerTest, WithoutAHostItListensOnIpv6AndIpv4) {
  const auto started = server_.Start({.address = ":0"});
  ASSERT_TRUE(started) << started.error().ToString();
  EXPECT_EQ(Get("/healthz")->status, 200);
  const int probe = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool ipv6 =
      probe >= 0 && ::bind(probe, reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0;
  ::close(probe);
  if (!ipv6) GTEST_SKIP() << "no IPv6 here";
  const auto answer = httplib::Client("::1", server_.port()).Get("/healthz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
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

TEST_F(HealthServerTest, ACertificateThatIsReplacedIsServedAndABrokenOneIsNot) {
  const testing::Authority old_authority("old");
  const testing::Authority new_authority("new");
  const std::string folder = ::testing::TempDir();
  const std::string certificate = folder + "/larder-renewed.crt";
  const std::string key = folder + "/larder-renewed.key";
  // As a kubelet does it: the new file takes the old one's place.
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  };
  const auto put = [&](const testing::Authority& authority) {
    const testing::Identity identity = authority.SignServer();
    write(certificate, identity.CertificatePem());
    write(key, identity.KeyPem());
  };
  const auto trusted_by = [&](const testing::Authority& authority) {
    const std::string trust = folder + "/larder-trust.crt";
    write(trust, authority.Pem());
    httplib::SSLClient client("127.0.0.1", server_.port());
    client.set_ca_cert_path(trust.c_str());
    return client.Get("/healthz").error() == httplib::Error::Success;
  };
  put(old_authority);
  ASSERT_TRUE(
      server_.Start({.address = "127.0.0.1:0", .tls_cert_file = certificate, .tls_key_file = key}));
  EXPECT_TRUE(trusted_by(old_authority));
  write(certificate, "no certificate");
  EXPECT_TRUE(trusted_by(old_authority));
  put(new_authority);
  EXPECT_FALSE(trusted_by(old_authority));
  EXPECT_TRUE(trusted_by(new_authority));
}

}  // namespace
}  // namespace larder
