// What a peer may take of the server before anybody knows whether it may ask, and afterwards.
#include "apiserver/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apiserver/thread_pool.h"
#include "apiserver/tls.h"

namespace larder::apiserver {
namespace {

using ::testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Long enough for the server to get its turn on a busy machine.
constexpr auto kPatience = 20s;

// A peer that says what it wants, and nothing else.
class Peer {
 public:
  explicit Peer(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const timeval patience{std::chrono::seconds(kPatience).count(), 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  }
  ~Peer() { ::close(socket_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // False: the server does not take it.
  bool Send(const std::string& text) const {
    for (size_t at = 0; at < text.size();) {
      const ssize_t sent = ::send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
    }
    return true;
  }
  // What comes until `end` is there, or the server closes the connection.
  std::string Receive(std::string_view end) const {
    std::string text;
    char piece[4096];
    while (text.find(end) == std::string::npos) {
      const ssize_t got = ::recv(socket_, piece, sizeof(piece), 0);
      if (got <= 0) break;
      text.append(piece, static_cast<size_t>(got));
    }
    return text;
  }
  // True when the server closes it, whatever it says before.
  bool Ends() const {
    char piece[4096];
    ssize_t got = 0;
    while ((got = ::recv(socket_, piece, sizeof(piece), 0)) > 0) {
    }
    return got == 0 || errno == ECONNRESET;
  }

 private:
  const int socket_;
};

// A few kilobytes for megabytes.
std::string GzipOfZeros(size_t size) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string zeros(size, '\0'), packed(deflateBound(&stream, size), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(zeros.data());
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

class HttpServerTest : public testing::Test {
 protected:
  // "/open" is for everybody, and nothing else is: as a server answers that asks for a token.
  void Start(HttpServer::Options options) {
    server_ = std::make_unique<HttpServer>(
        options,
        [](const httplib::Request& request, httplib::Response& response, Connection& connection) {
          if (request.path == "/echo") return response.set_content(request.body, "text/plain");
          if (request.path == "/params") {
            return response.set_content(std::to_string(request.params.size()), "text/plain");
          }
          if (request.path != "/open") connection.LiftLimits();
          if (request.path != "/slow") return response.set_content(kText, "text/plain");
          response.set_chunked_content_provider("text/plain", [](size_t, httplib::DataSink& sink) {
            std::this_thread::sleep_for(1500ms);
            sink.write(kText, sizeof(kText) - 1);
            sink.done();
            return true;
          });
        });
    const auto started = server_->Start();
    ASSERT_TRUE(started) << started.error().ToString();
  }
  static HttpServer::Options Short() {
    HttpServer::Options options;
    options.limits.head_time = 1s;
    options.limits.body_time = 300ms;
    return options;
  }
  std::unique_ptr<httplib::Client> Client() const {
    auto client = std::make_unique<httplib::Client>("127.0.0.1", server_->port());
    client->set_read_timeout(kPatience);
    return client;
  }

  static constexpr char kText[] = "0123456789";
  std::unique_ptr<HttpServer> server_;
};

// With a server that serves one at a time.
class HttpServerCrowdTest : public HttpServerTest {
 protected:
  static size_t Descriptors() {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(open), end(open)));
  }
  void SetUp() override {
    HttpServer::Options options;
    options.max_connections = 1;
    server_ = std::make_unique<HttpServer>(
        options, [this](const httplib::Request&, httplib::Response& response, Connection&) {
          most_ = std::max(most_.load(), Descriptors());
          response.set_content(kText, "text/plain");
        });
    ASSERT_TRUE(server_->Start());
    // One is served, and one is accepted and not queued yet.
    bound_ = Descriptors() + kPeers + 1 + ThreadPool::kMaxWaiting + 1;
    for (size_t i = 0; i < kPeers; ++i) peers_.push_back(std::make_unique<Peer>(server_->port()));
    const auto end = Clock::now() + kPatience;
    while (Descriptors() < bound_ && Clock::now() < end) std::this_thread::yield();
    ASSERT_GE(Descriptors(), bound_);
  }

  static constexpr size_t kPeers = 200;
  std::vector<std::unique_ptr<Peer>> peers_;
  size_t bound_ = 0;
  std::atomic<size_t> most_ = 0;
};

TEST_F(HttpServerCrowdTest, ConnectionsThatWaitTakeNoDescriptorsWithoutEnd) {
  for (const auto& peer : peers_) {
    ASSERT_TRUE(peer->Send("GET /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  }
  for (const auto& peer : peers_) EXPECT_THAT(peer->Receive(kText), HasSubstr(kText));
  EXPECT_LE(most_, bound_);
}

TEST_F(HttpServerCrowdTest, StopsWhileConnectionsWait) {
  server_->Stop();
  for (const auto& peer : peers_) EXPECT_TRUE(peer->Ends());
}

TEST_F(HttpServerTest, WhoConnectsAndSaysNothingMakesRoom) {
  const auto authority = TlsAuthority::Create({"127.0.0.1"});
  ASSERT_TRUE(authority);
  for (SSL_CTX* tls : {static_cast<SSL_CTX*>(nullptr), (*authority)->server_context()}) {
    SCOPED_TRACE(tls ? "TLS" : "plain");
    HttpServer::Options options = Short();
    options.max_connections = 4;
    options.tls = tls;
    // A handshake takes its time on a busy machine.
    options.limits.head_time = 2s;
    Start(options);
    std::vector<std::unique_ptr<Peer>> silent;
    for (int i = 0; i < 4; ++i) silent.push_back(std::make_unique<Peer>(server_->port()));
    httplib::Client client((tls ? "https://127.0.0.1:" : "http://127.0.0.1:") +
                           std::to_string(server_->port()));
    client.enable_server_certificate_verification(false);
    client.set_connection_timeout(kPatience);
    client.set_read_timeout(kPatience);
    const auto answer = client.Get("/");
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->body, kText);
  }
}

TEST_F(HttpServerTest, AHeadThatComesByteByByteIsNotWaitedFor) {
  Start(Short());
  const Peer peer(server_->port());
  const auto start = Clock::now();
  while (peer.Send("G") && Clock::now() - start < kPatience) std::this_thread::sleep_for(20ms);
  EXPECT_LT(Clock::now() - start, kPatience);
}

TEST_F(HttpServerTest, AHeaderWithoutEndIsNotReadToTheEnd) {
  HttpServer::Options options;
  options.limits.head_time = 10min;
  Start(options);
  for (const char* head : {"", "GET / HTTP/1.1\r\nX: "}) {
    const Peer peer(server_->port());
    ASSERT_TRUE(peer.Send(head));
    // Some of it is in the buffers of the kernel.
    const std::string piece(size_t{1} << 20, 'a');
    size_t pieces = 0;
    while (pieces < 64 && peer.Send(piece)) ++pieces;
    EXPECT_LT(pieces, 32U) << head;
  }
  // Nor are headers without end.
  const Peer peer(server_->port());
  ASSERT_TRUE(peer.Send("GET / HTTP/1.1\r\n"));
  std::string piece;
  while (piece.size() < size_t{1} << 20) piece += "X: y\r\n";
  size_t pieces = 0;
  while (pieces < 64 && peer.Send(piece)) ++pieces;
  EXPECT_LT(pieces, 32U);
}

TEST_F(HttpServerTest, ABodyThatDoesNotComeIsNotWaitedFor) {
  Start(Short());
  const Peer peer(server_->port());
  ASSERT_TRUE(peer.Send("POST /open HTTP/1.1\r\nContent-Length: 1000\r\n\r\n"));
  EXPECT_TRUE(peer.Ends());
}

TEST_F(HttpServerTest, ABodyInChunksHasALimitToo) {
  HttpServer::Options options;
  options.limits.body_time = 10min;
  Start(options);
  const Peer peer(server_->port());
  ASSERT_TRUE(peer.Send("POST /open HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"));
  const std::string chunk = "100000\r\n" + std::string(size_t{1} << 20, 'a') + "\r\n";
  size_t chunks = 0;
  while (chunks < 64 && peer.Send(chunk)) ++chunks;
  EXPECT_LT(chunks, 32U);
}

// Its limit is one of what is sent: unpacked it could be as large as its sender likes.
TEST_F(HttpServerTest, ABodyIsNotUnpacked) {
  Start({});
  const std::string body = GzipOfZeros(size_t{64} << 20);
  for (const char* encoding : {"gzip", "br"}) {
    const auto answer =
        Client()->Post("/echo", {{"Content-Encoding", encoding}}, body, "application/json");
    ASSERT_TRUE(answer) << encoding << ": " << to_string(answer.error());
    EXPECT_EQ(answer->status, 200) << encoding;
    EXPECT_EQ(answer->body.size(), body.size()) << encoding;
    EXPECT_TRUE(answer->body == body) << encoding;
  }
}

TEST_F(HttpServerTest, ABodyInPartsIsNotTakenApart) {
  Start({});
  const auto repeated = [](std::string_view text) {
    std::string out;
    for (int i = 0; i < 222; ++i) out += text;
    return out;
  };
  const std::string slow = "form-data; name=\"" + repeated("\";filename=\"") +
                           repeated("\";filename*=") + std::string(2600, 'x') + " x";
  for (const std::string& line : {std::string("form-data; name=\"a\""), slow}) {
    const std::string body =
        "--part\r\nContent-Disposition: " + line + "\r\n\r\ntext\r\n--part--\r\n";
    const auto answer = Client()->Post("/echo", body, "multipart/form-data; boundary=part");
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->body, body);
  }
  // What a body says is not what the URL says.
  const auto answer =
      Client()->Post("/params?watch=1", "limit=1&watch=0", "application/x-www-form-urlencoded");
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(answer->body, "1");
}

TEST_F(HttpServerTest, WithoutATokenAnAnswerIsNotKeptForWhoDoesNotReadIt) {
  HttpServer::Options options = Short();
  options.max_connections = 1;
  Start(options);
  const Peer peer(server_->port());
  std::string many;
  while (many.size() < size_t{1} << 20) many += "GET /open HTTP/1.1\r\n\r\n";
  // Ends when the server has closed it: it reads no more while nobody takes its answers.
  const auto start = Clock::now();
  while (peer.Send(many) && Clock::now() - start < kPatience) {
  }
  EXPECT_LT(Clock::now() - start, kPatience);
  EXPECT_TRUE(Client()->Get("/"));
}

TEST_F(HttpServerTest, WhoMayAskWaitsAndIdlesForLonger) {
  Start(Short());
  const auto answer = Client()->Get("/slow");
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(answer->body, kText);
  const Peer peer(server_->port());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(peer.Send("GET / HTTP/1.1\r\n\r\n"));
    EXPECT_THAT(peer.Receive(kText), StartsWith("HTTP/1.1 200"));
    std::this_thread::sleep_for(1500ms);
  }
  // But the head of its next request has no more time than that of its first.
  ASSERT_TRUE(peer.Send("G"));
  EXPECT_TRUE(peer.Ends());
}

TEST_F(HttpServerTest, WithoutATokenAConnectionIdlesNoLongerThanAHeadTakes) {
  Start(Short());
  const Peer peer(server_->port());
  ASSERT_TRUE(peer.Send("GET /open HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(peer.Receive(kText), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(peer.Ends());
}

TEST_F(HttpServerTest, WhatIsNoRequestEndsTheConnection) {
  Start({});
  const Peer peer(server_->port());
  ASSERT_TRUE(peer.Send("nonsense\r\n\r\n"));
  EXPECT_THAT(peer.Receive("\r\n\r\n"), HasSubstr("400"));
  EXPECT_TRUE(peer.Ends());
}

TEST_F(HttpServerTest, ARangeIsAnsweredWithTheWhole) {
  Start({});
  const auto answer = Client()->Get("/", {{"Range", "bytes=1-,-,-"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, kText);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/plain");
}

}  // namespace
}  // namespace larder::apiserver
