#include "client/server_url.h"

#include <gtest/gtest.h>

#include "client/config.h"

namespace larder {
namespace {

TEST(ServerUrl, TakesTheUrlApart) {
  const auto url = ParseServerUrl("https://api.example:6443/k8s/c-1/");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->Authority(), "api.example:6443");
  EXPECT_EQ(url->base_path, "/k8s/c-1");
  EXPECT_EQ(ParseServerUrl("https://h")->port, "443");
  EXPECT_EQ(ParseServerUrl("https://[fd00::1]:1")->Authority(), "[fd00::1]:1");
}

TEST(ServerUrl, RefusesWhatIsNoServer) {
  for (const char* text : {"", "host", "ftp://h", "file:///etc/passwd", "https://", "https://u:p@h",
                           "https://h?x=1", "https://h#f", "https://h h"}) {
    const auto url = ParseServerUrl(text);
    EXPECT_FALSE(url) << text;
  }
}

TEST(ServerUrl, PlainHttpGoesToLoopbackOnly) {
  for (const char* text : {"http://127.0.0.1:80", "http://127.9.9.9", "http://[::1]:1",
                           "http://localhost:8080", "https://example.com"}) {
    EXPECT_TRUE(ValidateConfig(ForUrl(text))) << text;
  }
  for (const char* text : {"http://example.com", "http://10.0.0.1", "http://127.0.0.1.example.com",
                           "http://localhost.example.com", "http://[::2]", "http://0.0.0.0"}) {
    EXPECT_FALSE(ValidateConfig(ForUrl(text))) << text;
  }
}

TEST(ServerUrl, EscapesWhatWouldChangeTheRequest) {
  EXPECT_EQ(EscapePath("/api/v1/pods/a:b"), "/api/v1/pods/a:b");
  EXPECT_EQ(EscapePath("/a?b#c\n"), "/a%3Fb%23c%0A");
  EXPECT_EQ(EscapePath("/api/v1/pods/a%20b"), "/api/v1/pods/a%20b");
  EXPECT_EQ(EncodeQuery({{"labelSelector", "a in (b,c)"}, {"x", "1&y=2"}}),
            "labelSelector=a%20in%20%28b%2Cc%29&x=1%26y%3D2");
}

}  // namespace
}  // namespace larder
