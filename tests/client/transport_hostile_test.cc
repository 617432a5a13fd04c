// What a server may do to us: each case ends in the right error, with bounded memory, and stops
// when asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/transport.h"
#include "tests/base/resident_memory.h"
#include "tests/client/gzip.h"
#include "tests/client/test_server.h"
#include "tests/client/test_util.h"

namespace larder {
namespace {

using ::larder::testing::Gzip;
using ::larder::testing::kSanitizerSlack;
using ::larder::testing::ResidentBytes;
using ::larder::testing::TestServer;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class HostileTest : public ::testing::Test {
 protected:
  using Provider = std::function<bool(httplib::DataSink&)>;
  // Serves `path` with a body that `provider` writes, called again until it returns false.
  void Stream(const std::string& path, Provider provider, const std::string& encoding = "") {
    server_.http().Get(path, [=](const httplib::Request&, httplib::Response& response) {
      if (!encoding.empty()) response.set_header("Content-Encoding", encoding);
      response.set_chunked_content_provider(
          // A type that the server does not pack by itself.
          "application/octet-stream",
          [provider](size_t, httplib::DataSink& sink) { return provider(sink); });
    });
  }
  // Sleeps in small steps so that the server can be stopped.
  bool Idle(std::chrono::milliseconds duration) {
    const auto until = std::chrono::steady_clock::now() + duration;
    while (std::chrono::steady_clock::now() < until) {
      if (server_.stopping()) return false;
      std::this_thread::sleep_for(5ms);
    }
    return !server_.stopping();
  }
  void Start() {
    server_.http().Get("/ok", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("{}", "application/json");
    });
    server_.Start();
    transport_ = *MakeTransport(server_.Config());
  }
  Request Get(const std::string& path, std::chrono::milliseconds timeout = 5s) {
    Request request;
    request.path = path;
    request.timeout = timeout;
    return request;
  }
  Clock::Steady In(Clock::Steady::duration duration) { return RealClock()->Now() + duration; }

  // What the handlers use outlives the server, whose threads may still write when a test ends.
  std::atomic<bool> go_on_{false};
  std::atomic<size_t> sent_{0};
  TestServer server_;
  std::unique_ptr<HttpTransport> transport_;
};

TEST_F(HostileTest, StalledAnswerTimesOut) {
  server_.http().Get("/stall", [this](const httplib::Request&, httplib::Response&) { Idle(20s); });
  Start();
  const auto begun = RealClock()->Now();
  const auto done = transport_->Do(Get("/stall", 300ms), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kTimeout);
  const auto opened = transport_->Open(Get("/stall", 300ms), {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kTimeout);
  EXPECT_LT(RealClock()->Now() - begun, 3s);
}

TEST_F(HostileTest, AStreamThatFallsSilentTimesOutAndStaysUsable) {
  Stream("/silent", [this, sent = 0](httplib::DataSink& sink) mutable {
    if (sent == 1) {
      while (!go_on_ && Idle(5ms)) {
      }
    }
    sink.write("line\n", 5);
    if (++sent == 2) sink.done();
    return true;
  });
  Start();
  const auto stream = transport_->Open(Get("/silent"), {});
  ASSERT_TRUE(stream) << stream.error().message;
  ASSERT_EQ(*(*stream)->Read({}, In(5s)), "line\n");
  const auto silent = (*stream)->Read({}, In(200ms));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kTimeout);
  go_on_ = true;
  ASSERT_EQ(*(*stream)->Read({}, In(5s)), "line\n");
  EXPECT_EQ(*(*stream)->Read({}, In(5s)), "");
}

TEST_F(HostileTest, AByteAtATimeEndsAtTheDeadline) {
  Stream("/slow", [this](httplib::DataSink& sink) { return Idle(50ms) && sink.write("x", 1); });
  Start();
  const auto begun = RealClock()->Now();
  const auto done = transport_->Do(Get("/slow", 500ms), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kTimeout);
  EXPECT_LT(RealClock()->Now() - begun, 2s);
}

TEST_F(HostileTest, AnEndlessAnswerIsCutOffAtTheLimit) {
  const std::string block(64 << 10, 'x');
  Stream("/endless", [this, block](httplib::DataSink& sink) {
    return !server_.stopping() && sink.write(block.data(), block.size());
  });
  Start();
  Request request = Get("/endless", 20s);
  request.max_response_bytes = 4 << 20;
  const auto done = transport_->Do(request, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kProtocol);
  EXPECT_THAT(done.error().message, HasSubstr("larger than"));
}

TEST_F(HostileTest, AGzipBombIsCutOffAtTheLimit) {
  // 1 GiB of zeros in members of 64 MiB, 1 MiB in all on the wire.
  const std::string member = Gzip(std::string(64 << 20, '\0'));
  Stream(
      "/bomb",
      [member, sent = 0](httplib::DataSink& sink) mutable {
        sink.write(member.data(), member.size());
        if (++sent == 16) sink.done();
        return true;
      },
      "gzip");
  Start();
  Request request = Get("/bomb", 20s);
  request.max_response_bytes = 8 << 20;
  const size_t before = ResidentBytes();
  const auto done = transport_->Do(request, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kProtocol) << done.error().message;
  // A stream gives it piece by piece, each of bounded size.
  const auto stream = transport_->Open(Get("/bomb"), {});
  ASSERT_TRUE(stream) << stream.error().message;
  for (int i = 0; i < 200; ++i) {
    const auto piece = (*stream)->Read({}, In(5s));
    ASSERT_TRUE(piece) << piece.error().message;
    ASSERT_LE(piece->size(), size_t{1} << 20);
  }
  EXPECT_LT(ResidentBytes(), before + kSanitizerSlack + (size_t{40} << 20));
}

TEST_F(HostileTest, BrokenGzipIsAProtocolError) {
  std::string broken = Gzip("hello hello hello hello");
  broken[12] = static_cast<char>(~broken[12]);
  broken[14] = static_cast<char>(~broken[14]);
  Stream(
      "/broken",
      [broken](httplib::DataSink& sink) {
        sink.write(broken.data(), broken.size());
        sink.done();
        return true;
      },
      "gzip");
  Start();
  const auto done = transport_->Do(Get("/broken"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kProtocol);
}

TEST_F(HostileTest, GzipThatEndsTooEarlyIsNotACleanEnd) {
  const std::string whole = Gzip(std::string(1000, 'a') + "b");
  Stream(
      "/cut",
      [whole](httplib::DataSink& sink) {
        sink.write(whole.data(), whole.size() - 8);
        sink.done();
        return true;
      },
      "gzip");
  Start();
  const auto done = transport_->Do(Get("/cut"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable) << done.error().message;
}

TEST_F(HostileTest, SeveralGzipMembersAreOneBody) {
  const std::string body = Gzip("one\n") + Gzip("two\n") + Gzip("three\n");
  Stream(
      "/members",
      [body, at = size_t{0}](httplib::DataSink& sink) mutable {
        sink.write(&body[at], 1);  // in the worst split
        if (++at == body.size()) sink.done();
        return true;
      },
      "gzip");
  Start();
  const auto done = transport_->Do(Get("/members"), {});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->body, "one\ntwo\nthree\n");
}

TEST_F(HostileTest, AnUnknownEncodingIsRefused) {
  Stream(
      "/br",
      [](httplib::DataSink& sink) {
        sink.write("x", 1);
        sink.done();
        return true;
      },
      "br\033[2J\u009b31m");
  Start();
  const auto done = transport_->Do(Get("/br"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kProtocol);
  EXPECT_THAT(done.error().message, HasSubstr("'br^[[2J^[[31m'"));  // shown to a terminal
}

TEST_F(HostileTest, AConnectionLostInMidBodyIsUnavailable) {
  Stream("/lost", [](httplib::DataSink& sink) {
    sink.write("half", 4);
    return false;  // closes without the last chunk
  });
  Start();
  const auto stream = transport_->Open(Get("/lost"), {});
  ASSERT_TRUE(stream) << stream.error().message;
  std::string got;
  Result<std::string_view> piece = std::string_view();
  while ((piece = (*stream)->Read({}, In(5s))) && !piece->empty()) got += *piece;
  EXPECT_EQ(got, "half");
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code, ErrorCode::kUnavailable);
}

TEST_F(HostileTest, HugeHeadersAreRefused) {
  server_.http().Get("/headers", [](const httplib::Request&, httplib::Response& response) {
    for (int i = 0; i < 100; ++i) {
      response.set_header("X-" + std::to_string(i), std::string(8000, 'h'));
    }
  });
  Start();
  const auto done = transport_->Do(Get("/headers"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kProtocol) << done.error().message;
}

TEST_F(HostileTest, AnAbsurdRetryAfterIsCapped) {
  server_.http().Get("/busy", [](const httplib::Request&, httplib::Response& response) {
    response.status = 429;
    response.set_header("Retry-After", "99999999999999999999");
  });
  Start();
  const auto done = transport_->Do(Get("/busy"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kTooManyRequests);
  EXPECT_EQ(done.error().retry_after, 10min);
}

// Some servers and proxies answer an error with the request that they got.
TEST_F(HostileTest, ATokenThatIsEchoedIsNotShown) {
  const auto echo = [](const httplib::Request& request) {
    const std::string header = request.get_header_value("Authorization");
    return header + (header.starts_with("Basic") ? " is admin:pass:word" : "");
  };
  // So long that what is shown would end within the secret.
  server_.http().Get("/text", [&](const httplib::Request& request, httplib::Response& response) {
    response.status = 502;
    response.set_content(std::string(175, '.') + echo(request), "text/plain");
  });
  server_.http().Get("/status", [&](const httplib::Request& request, httplib::Response& response) {
    response.status = 403;
    const std::string said = std::string(2030, '.') + echo(request);
    response.set_content(
        R"({"kind":"Status","message":")" + said + R"(","reason":")" + said + "\"}",
        "application/json");
  });
  Start();
  ClientConfig token = server_.Config();
  token.token = "canary-5f0e9b-canary-5f0e9b";
  ClientConfig password = server_.Config();
  password.username = "admin";
  password.password = "pass:word";
  for (const ClientConfig& config : {token, password}) {
    const auto transport = *MakeTransport(config);
    for (const char* path : {"/text", "/status"}) {
      const auto done = transport->Do(Get(path), {});
      ASSERT_FALSE(done);
      const std::string shown = done.error().message + done.error().status_json;
      for (const char* secret : {"canary", "pass:", "YWRtaW46"}) {  // "admin:" in base64
        EXPECT_THAT(shown, Not(HasSubstr(secret)));
      }
      EXPECT_THAT(shown, HasSubstr("***"));
    }
  }
}

TEST_F(HostileTest, AnErrorWithAnEndlessBodyIsStillThatError) {
  const std::string block(64 << 10, 'x');
  server_.http().Get("/error", [this, block](const httplib::Request&, httplib::Response& response) {
    response.status = 503;
    response.set_chunked_content_provider(
        "text/plain", [this, block](size_t, httplib::DataSink& sink) {
          return !server_.stopping() && sink.write(block.data(), block.size());
        });
  });
  Start();
  const auto done = transport_->Open(Get("/error"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  EXPECT_LT(done.error().message.size(), 1000u);
}

TEST_F(HostileTest, StopEndsEveryBlockedCall) {
  server_.http().Get("/stall", [this](const httplib::Request&, httplib::Response&) { Idle(20s); });
  Stream("/silent", [this, sent = false](httplib::DataSink& sink) mutable {
    if (!std::exchange(sent, true)) return sink.write("x", 1);
    return Idle(20s);
  });
  Start();
  std::stop_source source;
  std::vector<ErrorCode> codes(3, ErrorCode::kInternal);
  const auto stream = transport_->Open(Get("/silent"), {});
  ASSERT_TRUE(stream) << stream.error().message;
  ASSERT_EQ(*(*stream)->Read({}, In(5s)), "x");
  std::vector<std::jthread> threads;
  threads.emplace_back(
      [&] { codes[0] = transport_->Do(Get("/stall", 30s), source.get_token()).error().code; });
  threads.emplace_back(
      [&] { codes[1] = transport_->Open(Get("/stall", 30s), source.get_token()).error().code; });
  threads.emplace_back(
      [&] { codes[2] = (*stream)->Read(source.get_token(), In(30s)).error().code; });
  std::this_thread::sleep_for(100ms);
  const auto begun = RealClock()->Now();
  source.request_stop();
  threads.clear();
  EXPECT_LT(RealClock()->Now() - begun, 1s);
  for (const ErrorCode code : codes) EXPECT_EQ(code, ErrorCode::kCancelled);
}

TEST_F(HostileTest, ClosingTheTransportEndsItsStreams) {
  Stream("/silent", [this, sent = false](httplib::DataSink& sink) mutable {
    if (!std::exchange(sent, true)) return sink.write("x", 1);
    return Idle(20s);
  });
  Start();
  auto stream = transport_->Open(Get("/silent"), {});
  ASSERT_TRUE(stream) << stream.error().message;
  ASSERT_EQ(*(*stream)->Read({}, In(5s)), "x");
  ErrorCode code = ErrorCode::kInternal;
  std::jthread reader([&] { code = (*stream)->Read({}, In(30s)).error().code; });
  std::this_thread::sleep_for(50ms);
  const auto begun = RealClock()->Now();
  transport_.reset();
  reader.join();
  EXPECT_LT(RealClock()->Now() - begun, 1s);
  EXPECT_EQ(code, ErrorCode::kCancelled);
  (*stream).reset();  // after its transport
}

// The server offers 200 MB to a reader that does not read.
TEST_F(HostileTest, AReaderThatDoesNotReadHoldsTheServerBack) {
  constexpr size_t kOffered = 200'000'000;
  std::string block(50'000, '\0');
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 7);
  Stream("/big", [this, block](httplib::DataSink& sink) {
    if (!sink.write(block.data(), block.size())) return false;
    if ((sent_ += block.size()) == kOffered) sink.done();
    return true;
  });
  Start();
  const size_t before = ResidentBytes();
  const auto stream = transport_->Open(Get("/big"), {});
  ASSERT_TRUE(stream) << stream.error().message;
  // Until the server is held back: nothing moved for a while.
  size_t last = 0;
  for (int still = 0; still < 30; still = sent_ == last ? still + 1 : 0) {
    last = sent_;
    std::this_thread::sleep_for(10ms);
  }
  // Our buffer, libcurl's, and what the kernel holds for a loopback connection.
  EXPECT_LT(sent_, size_t{30'000'000});
  EXPECT_LT(ResidentBytes(), before + kSanitizerSlack + (size_t{16} << 20));
  // Others are not held back meanwhile: requests and streams.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(transport_->Do(Get("/ok"), {}));
    ASSERT_TRUE(transport_->Open(Get("/ok"), {}));
  }
  // And then it arrives whole.
  size_t got = 0;
  for (;;) {
    const auto piece = (*stream)->Read({}, In(10s));
    ASSERT_TRUE(piece) << piece.error().message;
    if (piece->empty()) break;
    for (size_t i = 0; i < piece->size(); i += 997) {
      ASSERT_EQ((*piece)[i], block[(got + i) % block.size()]);
    }
    got += piece->size();
  }
  EXPECT_EQ(got, kOffered);
  EXPECT_LT(ResidentBytes(), before + kSanitizerSlack + (size_t{24} << 20));
}

TEST_F(HostileTest, ManyStreamsOpenedAndDroppedFromManyThreads) {
  const std::string block(10'000, 'x');
  Stream("/endless", [this, block](httplib::DataSink& sink) {
    return !server_.stopping() && sink.write(block.data(), block.size());
  });
  Start();
  std::atomic<int> failures{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        auto stream = transport_->Open(Get("/endless"), {});
        if (!stream) {
          ++failures;
          continue;
        }
        for (int reads = 0; reads < (i + t) % 3; ++reads) {
          if (!(*stream)->Read({}, In(5s))) ++failures;
        }
        // Dropped here in mid-transfer; every fourth one on another thread.
        if (i % 4 == 0) std::jthread([s = *std::move(stream)] {});
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace larder
