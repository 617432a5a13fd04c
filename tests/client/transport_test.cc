#include "client/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "client/no_sigpipe.h"
#include "schema/resource.h"
#include "tests/client/test_server.h"
#include "tests/client/test_util.h"

namespace larder {
namespace {

using ::larder::testing::LogCapture;
using ::larder::testing::ScopedEnv;
using ::larder::testing::TempDir;
using ::larder::testing::TestServer;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using namespace std::chrono_literals;

constexpr char kCanary[] = "canary-5f0e9b";

std::unique_ptr<HttpTransport> Connect(const ClientConfig& config) {
  auto transport = MakeTransport(config);
  EXPECT_TRUE(transport) << transport.error().message;
  return *std::move(transport);
}

Request Get(const std::string& path) {
  Request request;
  request.path = path;
  request.timeout = 10s;
  return request;
}

Clock::Steady In(Clock::Steady::duration duration) { return RealClock()->Now() + duration; }

// What the server saw of one request.
struct Seen {
  std::string method, target, body;
  std::multimap<std::string, std::string> headers;
};

// Each thread of this name: are signals of this number blocked in it?
std::vector<bool> Blocked(const std::string& thread_name, int signal) {
  std::vector<bool> blocked;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name, line;
    std::ifstream(task.path() / "comm") >> name;
    if (name != thread_name) continue;
    std::ifstream status(task.path() / "status");
    while (std::getline(status, line) && !line.starts_with("SigBlk:")) {
    }
    const uint64_t mask = std::stoull(line.substr(line.find(':') + 1), nullptr, 16);
    blocked.push_back((mask >> (signal - 1) & 1) != 0);
  }
  return blocked;
}

class TransportTest : public ::testing::Test {
 protected:
  void Serve(int status, const std::string& body, const std::string& type = "application/json") {
    const auto handler = [=, this](const httplib::Request& request, httplib::Response& response) {
      Record(request);
      response.status = status;
      response.set_content(body, type);
    };
    server_.http().Get(".*", handler).Post(".*", handler).Put(".*", handler);
    server_.http().Patch(".*", handler).Delete(".*", handler);
    server_.Start();
  }
  void Record(const httplib::Request& request) {
    std::lock_guard lock(mutex_);
    seen_.push_back({request.method,
                     request.target,
                     request.body,
                     {request.headers.begin(), request.headers.end()}});
  }
  std::vector<Seen> seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }

  TestServer server_;
  std::mutex mutex_;
  std::vector<Seen> seen_;
};

TEST_F(TransportTest, SendsWhatWasAskedFor) {
  Serve(200, R"({"ok":true})");
  const auto transport = Connect(server_.Config());
  Request request = Get("/api/v1/pods");
  request.method = "PATCH";
  request.query = {{"labelSelector", "a in (b,c)"}};
  request.headers = {{"X-Extra", "1"}};
  request.content_type = "application/merge-patch+json";
  request.body = R"({"a":1})";
  const auto response = transport->Do(request, {});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, R"({"ok":true})");
  EXPECT_THAT(response->headers, Contains(Pair("content-type", "application/json")));
  ASSERT_EQ(seen().size(), 1u);
  const Seen got = seen()[0];
  EXPECT_EQ(got.method, "PATCH");
  EXPECT_EQ(got.target, "/api/v1/pods?labelSelector=a%20in%20%28b%2Cc%29");
  EXPECT_EQ(got.body, R"({"a":1})");
  EXPECT_THAT(got.headers, Contains(Pair("X-Extra", "1")));
  EXPECT_THAT(got.headers, Contains(Pair("Content-Type", "application/merge-patch+json")));
  EXPECT_THAT(got.headers, Contains(Pair("Accept", "application/json")));
  EXPECT_THAT(got.headers, Contains(Pair("User-Agent", DefaultUserAgent())));
  EXPECT_THAT(got.headers, Not(Contains(Key("Expect"))));
  EXPECT_THAT(got.headers, Not(Contains(Key("Authorization"))));
}

TEST_F(TransportTest, SendsCredentialsAndImpersonation) {
  Serve(200, "{}");
  ClientConfig config = server_.Config();
  config.token = std::string(kCanary) + "\n";  // as a file ends
  config.user_agent = "my-controller/2";
  config.impersonate.user = "jane";
  config.impersonate.groups = {"g1", "g2"};
  config.impersonate.extra = {{"example.com/scope", {"a", "b"}}};
  ASSERT_TRUE(Connect(config)->Do(Get("/x"), {}));
  const Seen got = seen().at(0);
  EXPECT_THAT(got.headers, Contains(Pair("Authorization", std::string("Bearer ") + kCanary)));
  EXPECT_THAT(got.headers, Contains(Pair("User-Agent", "my-controller/2")));
  EXPECT_THAT(got.headers, Contains(Pair("Impersonate-User", "jane")));
  EXPECT_THAT(got.headers, Contains(Pair("Impersonate-Group", "g1")));
  EXPECT_THAT(got.headers, Contains(Pair("Impersonate-Group", "g2")));
  EXPECT_THAT(got.headers, Contains(Pair("Impersonate-Extra-example.com%2Fscope", "a")));
  EXPECT_THAT(got.headers, Contains(Pair("Impersonate-Extra-example.com%2Fscope", "b")));
}

TEST_F(TransportTest, LineBreaksInHeadersAreRefused) {
  Serve(200, "{}");
  const auto transport = Connect(server_.Config());
  Request request = Get("/x");
  request.headers = {{"X", "a\r\nAuthorization: b"}};
  const auto response = transport->Do(request, {});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(seen().empty());
}

// OpenSSL's writes raise the signal, whose default is the end of the process.
TEST_F(TransportTest, AConnectionThatTheServerClosedRaisesNoSignalInAProgramThatMindsIt) {
  Serve(200, "{}");
  const auto transport = Connect(server_.Config());
  ASSERT_TRUE(transport->Do(Get("/x"), {}));
  const std::vector<bool> blocked = Blocked("larder-net", SIGPIPE);
  EXPECT_FALSE(blocked.empty());
  EXPECT_THAT(blocked, Each(true));
  // A thread of the user's keeps what it has.
  {
    const NoSigpipe no_sigpipe;
    std::raise(SIGPIPE);
  }
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  EXPECT_THAT(Blocked("client_tests", SIGPIPE), Contains(false));
}

TEST_F(TransportTest, AStatusBecomesAnError) {
  Serve(409, R"({"kind":"Status","reason":"AlreadyExists","message":"pods \"a\" already exists"})");
  const auto transport = Connect(server_.Config());
  const auto done = transport->Do(Get("/x"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(done.error().message, HasSubstr("already exists"));
  EXPECT_THAT(done.error().status_json, HasSubstr("AlreadyExists"));
  const auto opened = transport->Open(Get("/x"), {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kAlreadyExists);
}

TEST_F(TransportTest, TheLogHasMethodPathStatusAndNoSecret) {
  Serve(404, R"({"kind":"Status","message":"no"})");
  const LogCapture log;
  ClientConfig config = server_.Config();
  config.token = kCanary;
  config.username = "";
  const auto transport = Connect(config);
  Request request = Get("/api/v1/pods");
  request.query = {{"q", kCanary}};
  request.headers = {{"X-Secret", kCanary}};
  const auto response = transport->Do(request, {});
  ASSERT_FALSE(response);
  EXPECT_THAT(log.text(), HasSubstr("GET /api/v1/pods NotFound in "));
  EXPECT_THAT(log.text(), Not(HasSubstr(kCanary)));
  EXPECT_THAT(response.error().message, Not(HasSubstr(kCanary)));
}

TEST_F(TransportTest, ARedirectIsNotFollowedAndTheOtherHostSeesNothing) {
  TestServer other;
  std::atomic<int> other_requests{0};
  other.http().Get(".*", [&](const httplib::Request&, httplib::Response&) { ++other_requests; });
  other.Start();
  server_.http().Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    response.set_redirect(other.Url("localhost") + "/stolen", 307);
  });
  server_.Start();
  ClientConfig config = server_.Config();
  config.token = kCanary;
  const auto transport = Connect(config);
  const auto done = transport->Do(Get("/x"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kProtocol);
  EXPECT_THAT(done.error().message, HasSubstr("redirect"));
  const auto opened = transport->Open(Get("/x"), {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kProtocol);
  EXPECT_EQ(other_requests, 0);
}

TEST_F(TransportTest, ARefusedConnectionIsUnavailable) {
  server_.Start();
  ClientConfig config = server_.Config();
  config.server = "http://127.0.0.1:1";
  const auto response = Connect(config)->Do(Get("/x"), {});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(response.error().IsRetryable());
}

TEST_F(TransportTest, GzipIsAskedForUnpackedAndCounted) {
  const std::string body(300'000, 'a');
  Serve(200, body);
  const auto transport = Connect(server_.Config());
  const auto packed = transport->Do(Get("/x"), {});
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_EQ(packed->body, body);
  EXPECT_THAT(packed->headers, Contains(Pair("content-encoding", "gzip")));
  EXPECT_LT(packed->wire_bytes, 10'000u);
  Request plain = Get("/x");
  plain.accept_gzip = false;
  const auto response = transport->Do(plain, {});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, body);
  EXPECT_EQ(response->wire_bytes, body.size());
}

TEST_F(TransportTest, AStreamIsReadToItsEnd) {
  server_.http().Get("/watch", [](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("application/json", [](size_t, httplib::DataSink& sink) {
      for (int i = 0; i < 3; ++i) {
        const std::string line = std::to_string(i) + "\n";
        sink.write(line.data(), line.size());
      }
      sink.done();
      return true;
    });
  });
  server_.Start();
  const auto transport = Connect(server_.Config());
  Request request = Get("/watch");
  request.accept_gzip = false;
  const auto stream = transport->Open(request, {});
  ASSERT_TRUE(stream) << stream.error().message;
  EXPECT_EQ((*stream)->status(), 200);
  std::string all;
  for (;;) {
    const auto piece = (*stream)->Read({}, In(5s));
    ASSERT_TRUE(piece) << piece.error().message;
    if (piece->empty()) break;
    all += *piece;
  }
  EXPECT_EQ(all, "0\n1\n2\n");
  EXPECT_EQ((*stream)->wire_bytes(), all.size());
  EXPECT_EQ(*(*stream)->Read({}, In(1s)), "");  // the end stays the end
}

TEST_F(TransportTest, TheTokenFileIsReadAgainAfter401) {
  const TempDir dir;
  const std::string file = dir.Write("token", "old\n");
  server_.http().Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
    Record(request);
    if (request.get_header_value("Authorization") == "Bearer new") {
      response.set_content("{}", "application/json");
      return;
    }
    dir.Write("token", "new\n");  // it rotates while the old one is being refused
    response.status = 401;
  });
  server_.Start();
  ClientConfig config = server_.Config();
  config.token_file = file;
  const auto transport = Connect(config);
  const auto response = transport->Do(Get("/x"), {});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(seen().size(), 2u);
  // And it stays with the new one.
  ASSERT_TRUE(transport->Open(Get("/x"), {}));
  EXPECT_EQ(seen().size(), 3u);
}

TEST_F(TransportTest, After401ItTriesOnceMoreNotForEver) {
  const TempDir dir;
  Serve(401, "");
  ClientConfig config = server_.Config();
  config.token_file = dir.Write("token", "t");
  const auto with_file = Connect(config)->Do(Get("/x"), {});
  ASSERT_FALSE(with_file);
  EXPECT_EQ(with_file.error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(seen().size(), 2u);
  config.token_file.clear();
  config.token = "fixed";
  ASSERT_FALSE(Connect(config)->Do(Get("/x"), {}));
  EXPECT_EQ(seen().size(), 3u);  // the same again would be of no use
}

TEST_F(TransportTest, ThePluginRunsAgainAfter401) {
  const TempDir dir;
  ClientConfig config;
  server_.http().Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
    Record(request);
    response.status = request.get_header_value("Authorization") == "Bearer t2" ? 200 : 401;
  });
  server_.Start();
  config = server_.Config();
  config.exec = ExecPlugin();
  config.exec->api_version = "client.authentication.k8s.io/v1beta1";
  config.exec->command = dir.WriteScript(
      "plugin", "n=$(cat " + dir.path() + "/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > " +
                    dir.path() + R"(/n
printf '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"t%s"}}' $n
)");
  const LogCapture log;
  const auto transport = Connect(config);
  ASSERT_TRUE(transport->Do(Get("/x"), {}));
  ASSERT_TRUE(transport->Do(Get("/x"), {}));
  EXPECT_EQ(seen().size(), 3u);
  EXPECT_EQ(dir.Read("n"), "2\n");
  EXPECT_THAT(log.text(), Not(HasSubstr("t2")));
}

TEST_F(TransportTest, RequestsAreLimited) {
  Serve(200, "{}");
  ClientConfig config = server_.Config();
  config.qps = 20;
  config.burst = 2;
  const auto transport = Connect(config);
  const auto begun = RealClock()->Now();
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(transport->Do(Get("/x"), {}));
  // Two at once, then four at 20 a second.
  EXPECT_GE(RealClock()->Now() - begun, 190ms);
}

TEST_F(TransportTest, TheBasePathComesFirst) {
  Serve(200, "{}");
  ClientConfig config = server_.Config();
  config.server += "/k8s/clusters/c-1/";
  ASSERT_TRUE(Connect(config)->Do(Get("/api/v1/pods"), {}));
  EXPECT_EQ(seen().at(0).target, "/k8s/clusters/c-1/api/v1/pods");
}

// Roles may be called anything but for '/' and '%'.
TEST_F(TransportTest, ANameIsEscapedOnce) {
  Serve(200, "{}");
  const Resource roles{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false};
  ASSERT_TRUE(Connect(server_.Config())->Do(Get(roles.Path("", "alice@corp.com: a b?")), {}));
  EXPECT_EQ(seen().at(0).target,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/alice%40corp.com:%20a%20b%3F");
}

// A SOCKS proxy that only notes how it is asked for the server: 1 an address, 3 a name.
TEST_F(TransportTest, ASocksProxyLooksUpTheName) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::string asked;
  std::jthread proxy([&] {
    const int connection = accept(listener, nullptr, nullptr);
    char block[256];
    if (read(connection, block, sizeof(block)) > 0) {
      constexpr std::string_view kNoPassword("\x05\x00", 2);
      if (write(connection, kNoPassword.data(), kNoPassword.size()) > 0) {
        const ssize_t n = read(connection, block, sizeof(block));
        if (n > 0) asked.assign(block, static_cast<size_t>(n));
      }
    }
    close(connection);
  });
  ClientConfig config = ForUrl("https://host.invalid");
  config.proxy_url = "socks5://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_FALSE(Connect(config)->Do(Get("/x"), {}));
  proxy.join();
  close(listener);
  ASSERT_GT(asked.size(), 4U);
  EXPECT_EQ(asked[3], 3);
  EXPECT_THAT(asked, HasSubstr("host.invalid"));
}

TEST_F(TransportTest, GoesThroughTheProxyThatWasNamed) {
  Serve(200, R"({"from":"proxy"})");
  ClientConfig config = ForUrl("http://127.0.0.1:9");
  config.proxy_url = server_.Url();
  const auto response = Connect(config)->Do(Get("/x"), {});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, R"({"from":"proxy"})");
}

TEST_F(TransportTest, TheProxysPasswordStaysOutOfMessages) {
  const LogCapture log;
  ClientConfig config = ForUrl("https://host.invalid");
  config.proxy_url = std::string("http://user:") + kCanary + "@127.0.0.1:1";
  const auto response = Connect(config)->Do(Get("/x"), {});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(response.error().message, Not(HasSubstr(kCanary)));
  EXPECT_THAT(log.text(), Not(HasSubstr(kCanary)));
}

TEST_F(TransportTest, AProxysUrlThatCannotBeUsedIsNotShown) {
  const std::string secret = kCanary;
  const LogCapture log;
  for (const std::string& bad :
       {"http://user:" + secret + "/x@proxy:3128", "http://user:12/" + secret + "@proxy:3128",
        "http://user:12#" + secret + "@proxy", "http://user:" + secret + "@proxy:99999",
        "http://user:" + secret + "@", "http://user:" + secret + "@pro xy",
        "socks5://user:" + secret + "@proxy:port", "ftp://user:" + secret + "@proxy"}) {
    ClientConfig config = ForUrl("https://host.invalid");
    config.proxy_url = bad;
    const auto refused = MakeTransport(config);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << bad;
    EXPECT_THAT(refused.error().message, HasSubstr("proxy-url"));
    EXPECT_THAT(refused.error().message, Not(HasSubstr(secret)));
    // Of the environment's libcurl says what it thinks of them.
    const ScopedEnv env({{"https_proxy", bad}, {"no_proxy", std::nullopt}});
    const auto response = Connect(ForUrl("https://host.invalid"))->Do(Get("/x"), {});
    ASSERT_FALSE(response) << bad;
    EXPECT_EQ(response.error().code, ErrorCode::kUnavailable) << response.error().message;
    EXPECT_THAT(response.error().message, Not(HasSubstr(secret)));
  }
  EXPECT_THAT(log.text(), Not(HasSubstr(secret)));
  for (const char* good : {"http://proxy", "http://proxy:3128/", "https://u:p%2Fq@proxy:1",
                           "socks5://u:p@[::1]:1080", "socks5h://proxy:1080"}) {
    ClientConfig config = ForUrl("https://host.invalid");
    config.proxy_url = good;
    EXPECT_TRUE(ValidateConfig(config)) << good;
  }
}

// A dead peer must be noticed in under a minute; here what asks the kernel to do so.
TEST_F(TransportTest, SocketsNoticeADeadPeer) {
  Serve(200, "{}");
  const auto transport = Connect(server_.Config());
  ASSERT_TRUE(transport->Do(Get("/x"), {}));
  int found = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family != AF_INET || ntohs(peer.sin_port) != server_.port()) continue;
    ++found;
    const auto option = [fd](int level, int name) {
      int value = 0;
      socklen_t value_size = sizeof value;
      EXPECT_EQ(::getsockopt(fd, level, name, &value, &value_size), 0);
      return value;
    };
    EXPECT_NE(option(SOL_SOCKET, SO_KEEPALIVE), 0);
    EXPECT_LT(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
              60);
    EXPECT_GT(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    EXPECT_LT(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 60'000);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace larder
