// Requests share an HTTP/2 connection.
#include <gtest/gtest.h>

#include <thread>

#include "client/transport.h"
#include "tests/client/http2_server.h"

namespace larder {
namespace {

using ::larder::testing::Authority;
using ::larder::testing::Http2Server;
using namespace std::chrono_literals;

TEST(Http2, ManyRequestsShareOneConnection) {
  constexpr int kTogether = 20;
  const std::string body(200'000, 'x');
  const Authority authority("test authority");
  // It answers nobody before all twenty are there.
  Http2Server server(authority.SignServer(), kTogether, body);
  ClientConfig config = server.Config();
  config.ca_data = authority.Pem();
  const auto transport = *MakeTransport(config);
  std::atomic<int> good{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < kTogether; ++i) {
    threads.emplace_back([&] {
      Request request;
      request.path = "/api/v1/pods";
      request.timeout = 20s;
      const auto response = transport->Do(request, {});
      if (response && response->status == 200 && response->body == body) ++good;
    });
  }
  threads.clear();
  EXPECT_EQ(good, kTogether);
  EXPECT_EQ(server.requests(), kTogether);
  EXPECT_EQ(server.connections(), 1);
}

TEST(Http2, BodiesAreSentAndGivenUpRequestsLeaveTheConnectionUsable) {
  const Authority authority("test authority");
  Http2Server server(authority.SignServer(), 2, "{}");
  ClientConfig config = server.Config();
  config.ca_data = authority.Pem();
  const auto transport = *MakeTransport(config);
  Request request;
  request.path = "/api/v1/pods";
  request.method = "POST";
  request.content_type = "application/json";
  request.body = std::string(100'000, 'b');
  request.timeout = 200ms;
  const auto alone = transport->Do(request, {});  // its answer waits for a second one
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, ErrorCode::kTimeout);
  request.timeout = 20s;
  const auto second = transport->Do(request, {});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->body, "{}");
  EXPECT_EQ(server.connections(), 1);
}

TEST(Http2, AConnectionThatIsStuckIsNotUsedForEver) {
  const Authority authority("test authority");
  Http2Server server(authority.SignServer(), 1, "{}");
  ClientConfig config = server.Config();
  config.ca_data = authority.Pem();
  const auto transport = *MakeTransport(config);
  Request request;
  request.path = "/api/v1/pods";
  request.timeout = 3s;
  ASSERT_TRUE(transport->Do(request, {}));
  server.GetStuck();
  const auto stuck = transport->Do(request, {});
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(server.connections(), 1);
  for (int i = 0; i < 5; ++i) {
    const auto again = transport->Do(request, {});
    ASSERT_TRUE(again) << again.error().message;
  }
  EXPECT_EQ(server.connections(), 2);
}

}  // namespace
}  // namespace larder
