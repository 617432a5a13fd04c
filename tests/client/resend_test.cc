// What is sent a second time, what is not, and who is asked before a request goes out.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/transfer.h"
#include "client/transport.h"
#include "tests/client/test_server.h"
#include "tests/client/test_util.h"

namespace larder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// Answers the first request of its first connection and breaks off in place of the second answer.
// Later connections get all answers.
class BreakingServer {
 public:
  BreakingServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, generic, &size) != 0) {
      throw std::runtime_error("the breaking server did not start");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { Accept(stop); });
  }
  ~BreakingServer() {
    thread_.request_stop();
    thread_.join();
    ::close(listener_);
  }

  ClientConfig Config() const { return ForUrl("http://127.0.0.1:" + std::to_string(port_)); }
  // "GET /x", of all connections.
  std::vector<std::string> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static bool Readable(int socket, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waiting_for{socket, POLLIN, 0};
      if (::poll(&waiting_for, 1, /*timeout_ms=*/5) > 0) return true;
    }
    return false;
  }

  void Accept(const std::stop_token& stop) {
    for (int number = 0; Readable(listener_, stop); ++number) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      for (int answered = 0; ReadRequest(socket, stop); ++answered) {
        if (number == 0 && answered == 1) break;
        constexpr std::string_view kAnswer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        ::send(socket, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
      }
      ::close(socket);
    }
  }

  // With its body, so that the connection ends cleanly.
  bool ReadRequest(int socket, const std::stop_token& stop) {
    std::string text;
    size_t whole = std::string::npos;
    while (text.size() < whole) {
      char block[4096];
      const ssize_t n = Readable(socket, stop) ? ::recv(socket, block, sizeof block, 0) : 0;
      if (n <= 0) return false;
      text.append(block, static_cast<size_t>(n));
      const size_t head = text.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const size_t length = text.find("Content-Length: ");
      whole = head + 4 + (length < head ? std::stoul(text.substr(length + 16)) : 0);
    }
    std::lock_guard lock(mutex_);
    requests_.push_back(text.substr(0, text.find(" HTTP/")));
    return true;
  }

  const int listener_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

Request Of(const std::string& method) {
  Request request;
  request.method = method;
  request.path = "/x";
  request.timeout = 10s;
  if (method != "GET") request.body = "{}";
  return request;
}

TEST(Resend, AGetIsSentAgainWhereTheConnectionBroke) {
  BreakingServer server;
  const auto transport = *MakeTransport(server.Config());
  ASSERT_TRUE(transport->Do(Of("GET"), {}));
  const auto response = transport->Do(Of("GET"), {});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_THAT(server.requests(), ElementsAre("GET /x", "GET /x", "GET /x"));
}

TEST(Resend, AWriteIsNotSentAgainWhereTheConnectionBroke) {
  for (const std::string method : {"POST", "PUT", "PATCH", "DELETE"}) {
    BreakingServer server;
    const auto transport = *MakeTransport(server.Config());
    ASSERT_TRUE(transport->Do(Of("GET"), {}));
    const auto response = transport->Do(Of(method), {});
    ASSERT_FALSE(response) << method;
    EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(response.error().message, HasSubstr(method + " http://127.0.0.1:"));
    EXPECT_THAT(response.error().message, HasSubstr("it may have been done"));
    EXPECT_THAT(server.requests(), ElementsAre("GET /x", method + " /x"));
    // The caller may, and has a new connection for it.
    EXPECT_TRUE(transport->Do(Of(method), {})) << method;
  }
}

TEST(Resend, After401ItIsAskedAgainWhetherTheRequestMayGoOut) {
  const testing::TempDir dir;
  testing::TestServer server;
  std::atomic<int> requests{0};
  server.http().Post("/x", [&](const httplib::Request&, httplib::Response& response) {
    ++requests;
    response.status = 401;
  });
  server.Start();
  ClientConfig config = server.Config();
  config.token_file = dir.Write("token", "t");
  Request request = Of("POST");
  request.may_send = [&]() -> Result<void> {
    if (requests == 0) return {};
    return MakeError(ErrorCode::kCancelled, "not any more");
  };
  const auto response = (*MakeTransport(config))->Do(request, {});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(requests, 1);
}

TEST(Resend, ARequestThatMayNotGoOutAnyMoreIsNotSentAgain) {
  BreakingServer server;
  const auto transport = *MakeTransport(server.Config());
  ASSERT_TRUE(transport->Do(Of("GET"), {}));
  std::atomic<int> asked{0};
  Request request = Of("GET");
  request.may_send = [&]() -> Result<void> {
    if (++asked == 1) return {};
    return MakeError(ErrorCode::kCancelled, "not any more");
  };
  const auto response = transport->Do(request, {});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(response.error().message, "not any more");
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST(Resend, NobodyIsAskedOnceTheCallHasEnded) {
  int asked = 0;
  Transfer transfer(RealClock(), {},
                    {[&]() -> Result<void> {
                       ++asked;
                       return {};
                     },
                     /*again=*/true});
  EXPECT_TRUE(transfer.OnSend(/*fits=*/true));
  transfer.Abandon();
  EXPECT_FALSE(transfer.OnSend(/*fits=*/true));
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace larder
