// Requests share an HTTP/2 connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "client/transport.h"
#include "tests/client/http2_server.h"

namespace larder {
namespace {

using ::larder::testing::Authority;
using ::larder::testing::Http2Server;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

void WaitFor(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(1ms);
  }
}

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

// As above, but the connection is never idle.
TEST(Http2, AConnectionThatIsStuckIsLeftThoughOthersStillWaitOnIt) {
  const Authority authority("test authority");
  Http2Server server(authority.SignServer(), 1, "{}");
  ClientConfig config = server.Config();
  config.ca_data = authority.Pem();
  const auto transport = *MakeTransport(config);
  Request request;
  request.path = "/api/v1/pods";
  ASSERT_TRUE(transport->Do(request, {}));
  server.GetStuck();
  std::atomic<int> timed_out{0};
  std::atomic<int> good{0};
  std::vector<std::jthread> threads;
  for (const auto timeout : {3s, 4s, 5s}) {
    threads.emplace_back([&, timeout] {
      Request one = request;
      one.timeout = timeout;
      if (!transport->Do(one, {})) ++timed_out;
      if (transport->Do(one, {})) ++good;
    });
  }
  threads.clear();
  EXPECT_EQ(timed_out, 3);
  EXPECT_EQ(good, 3);
  EXPECT_EQ(server.connections(), 2);
}

// Renewals of a short lease have no more time than that.
TEST(Http2, TwoShortRequestsWithoutAnAnswerGiveUpTheSharedConnection) {
  const Authority authority("test authority");
  Http2Server server(authority.SignServer(), 1, "{}");
  ClientConfig config = server.Config();
  config.ca_data = authority.Pem();
  const auto transport = *MakeTransport(config);
  Request request;
  request.path = "/api/v1/pods";
  ASSERT_TRUE(transport->Do(request, {}));
  server.GetStuck();
  Request quick = request;
  quick.timeout = 100ms;
  EXPECT_EQ(transport->Do(quick, {}).error().code, ErrorCode::kTimeout);
  // One that its caller stops says nothing.
  std::stop_source stop;
  std::jthread stopped([&] {
    EXPECT_EQ(transport->Do(request, stop.get_token()).error().code, ErrorCode::kCancelled);
  });
  WaitFor([&] { return server.requests() == 3; });
  stop.request_stop();
  stopped.join();
  EXPECT_EQ(transport->Do(quick, {}).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(server.connections(), 1);
  const auto again = transport->Do(request, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(server.connections(), 2);
}

TEST(Http2, AnAnswerBetweenShortRequestsWithoutOneKeepsTheConnection) {
  const Authority authority("test authority");
  Http2Server server(authority.SignServer(), 1, "{}");
  ClientConfig config = server.Config();
  config.ca_data = authority.Pem();
  const auto transport = *MakeTransport(config);
  Request request;
  request.path = "/api/v1/pods";
  Request quick = request;
  quick.timeout = 100ms;
  ASSERT_TRUE(transport->Do(request, {}));
  for (int i = 0; i < 3; ++i) {
    server.HoldHttp2(true);
    EXPECT_EQ(transport->Do(quick, {}).error().code, ErrorCode::kTimeout);
    server.HoldHttp2(false);
    const auto answered = transport->Do(request, {});
    ASSERT_TRUE(answered) << answered.error().message;
  }
  EXPECT_EQ(server.connections(), 1);
}

// Also where the next connection has no HTTP/2, and what was not sent goes another way.
TEST(Http2, AWriteIsNotSentAgainWhereTheConnectionBroke) {
  const Authority authority("test authority");
  for (const bool http2_stays : {true, false}) {
    Http2Server server(authority.SignServer(), 1, "{}");
    ClientConfig config = server.Config();
    config.ca_data = authority.Pem();
    const auto transport = *MakeTransport(config);
    Request request;
    request.path = "/api/v1/pods/a";
    ASSERT_TRUE(transport->Do(request, {}));
    server.GetStuck();
    request.method = "DELETE";
    std::jthread writer([&] {
      const auto broken = transport->Do(request, {});
      ASSERT_FALSE(broken);
      EXPECT_EQ(broken.error().code, ErrorCode::kUnavailable);
      EXPECT_THAT(broken.error().message, HasSubstr("it may have been done"));
    });
    WaitFor([&] { return server.requests() == 2; });
    if (!http2_stays) server.OnlyHttp1FromNowOn();
    server.ResetHttp2();
    writer.join();
    EXPECT_EQ(server.requests(), 2);
    const auto again = transport->Do(request, {});
    EXPECT_TRUE(again) << again.error().message;
    EXPECT_EQ(server.requests(), 3);
  }
}

// libcurl before 8.5 asks the host, not the connection, whether it may carry several requests.
TEST(Http2, NoRequestGoesDownTheConnectionOfAWatch) {
  const Authority authority("test authority");
  Http2Server server(authority.SignServer(), 1, "{}");
  ClientConfig config = server.Config();
  config.ca_data = authority.Pem();
  config.stream_buffer_bytes = 16 << 10;
  const auto transport = *MakeTransport(config);
  Request request;
  request.path = "/api/v1/pods";
  request.timeout = 10s;
  ASSERT_TRUE(transport->Do(request, {}));
  Request watching;
  watching.path = "/watch";
  auto watch = transport->Open(watching, {});
  ASSERT_TRUE(watch) << watch.error().message;
  server.CloseHttp2();
  WaitFor([&] { return server.watch_blocked(); });
  for (int i = 0; i < 3; ++i) {
    const auto response = transport->Do(request, {});
    EXPECT_TRUE(response) << response.error().message;
  }
  server.EndWatch();
  std::string lines;
  for (;;) {
    const auto piece = (*watch)->Read({}, Clock::Steady::clock::now() + 20s);
    ASSERT_TRUE(piece) << piece.error().message;
    if (piece->empty()) break;
    lines += *piece;
  }
  EXPECT_EQ(server.intruding_bytes(), 0);
  ASSERT_EQ(lines.size(), static_cast<size_t>(server.watch_lines()) * 8);
  for (int i = 0; i < server.watch_lines(); ++i) {
    ASSERT_EQ(std::stoi(lines.substr(static_cast<size_t>(i) * 8, 7)), i);
  }
}

TEST(Http2, WhereSomeConnectionsHaveNoHttp2NoTwoRequestsAreOnOneOfThem) {
  const Authority authority("test authority");
  Http2Server server(authority.SignServer(), 1, "{}");
  server.SetMaxStreams(1);
  server.HoldHttp2(true);
  server.HoldHttp1(true);
  ClientConfig config = server.Config();
  config.ca_data = authority.Pem();
  const auto transport = *MakeTransport(config);
  std::atomic<int> done{0};
  std::atomic<int> good{0};
  std::vector<std::jthread> threads;
  const auto send = [&] {
    threads.emplace_back([&] {
      Request request;
      request.path = "/api/v1/pods";
      const auto response = transport->Do(request, {});
      if (response && response->body == "{}") ++good;
      ++done;
    });
  };
  send();  // HTTP/2, and no room for another
  WaitFor([&] { return server.requests() == 1; });
  server.OnlyHttp1FromNowOn();
  send();
  WaitFor([&] { return server.requests() == 2; });
  server.HoldHttp2(false);  // this answer says that the host has HTTP/2
  WaitFor([&] { return done == 1; });
  server.HoldHttp2(true);
  send();
  WaitFor([&] { return server.requests() == 3; });
  send();
  WaitFor([&] { return server.requests() == 4 || server.intruding_bytes() > 0; });
  server.HoldHttp2(false);
  server.HoldHttp1(false);
  threads.clear();
  EXPECT_EQ(good, 4);
  EXPECT_EQ(server.intruding_bytes(), 0);
}

}  // namespace
}  // namespace larder
