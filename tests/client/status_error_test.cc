#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/transport.h"
#include "tests/base/cpu_time.h"

namespace larder {
namespace {

using ::larder::testing::LeastCpuSeconds;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

struct Case {
  const char* name;
  int status;
  const char* body;
  ErrorCode code;
};

class ErrorFromResponseTable : public ::testing::TestWithParam<Case> {};

TEST_P(ErrorFromResponseTable, HasTheCode) {
  const Error error = ErrorFromResponse(GetParam().status, {}, GetParam().body);
  EXPECT_EQ(error.code, GetParam().code) << error.message;
  EXPECT_FALSE(error.message.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, ErrorFromResponseTable,
    ::testing::Values(
        Case{"BadRequest", 400, "", ErrorCode::kInvalidArgument},
        Case{"Unauthorized", 401, "", ErrorCode::kUnauthorized},
        Case{"Forbidden", 403, "", ErrorCode::kForbidden},
        Case{"NotFound", 404, "404 page not found", ErrorCode::kNotFound},
        Case{"MethodNotAllowed", 405, "", ErrorCode::kUnsupported},
        Case{"NotAcceptable", 406, "", ErrorCode::kUnsupported},
        Case{"UnsupportedMediaType", 415, "", ErrorCode::kUnsupported},
        Case{"Conflict", 409, R"({"kind":"Status","reason":"Conflict"})", ErrorCode::kConflict},
        Case{"ConflictWithoutStatus", 409, "", ErrorCode::kConflict},
        Case{"AlreadyExists", 409, R"({"kind":"Status","reason":"AlreadyExists"})",
             ErrorCode::kAlreadyExists},
        Case{"Gone", 410, "", ErrorCode::kGone},
        Case{"Expired", 410, R"({"kind":"Status","reason":"Expired"})", ErrorCode::kGone},
        Case{"ExpiredWithAnotherStatus", 400, R"({"kind":"Status","reason":"Expired"})",
             ErrorCode::kGone},
        Case{"Invalid", 422, "", ErrorCode::kInvalid},
        Case{"TooManyRequests", 429, "", ErrorCode::kTooManyRequests},
        Case{"Internal", 500, "", ErrorCode::kUnavailable},
        Case{"Unavailable", 503, "", ErrorCode::kUnavailable},
        Case{"GatewayTimeout", 504, "", ErrorCode::kUnavailable},
        Case{"VersionTooLarge", 504,
             R"({"kind":"Status","reason":"Timeout","details":{"causes":[
                 {"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}})",
             ErrorCode::kVersionTooLarge},
        Case{"OddShapes", 504, R"({"kind":"Status","reason":7,"details":[],"message":{}})",
             ErrorCode::kUnavailable},
        Case{"NotJson", 403, "<html>", ErrorCode::kForbidden}),
    [](const auto& param) { return param.param.name; });

TEST(ErrorFromResponse, KeepsTheStatusAndItsMessage) {
  const std::string body =
      R"({"kind":"Status","reason":"Forbidden","message":"pods is forbidden","code":403})";
  const Error error = ErrorFromResponse(403, {}, body);
  EXPECT_THAT(error.message, HasSubstr("pods is forbidden"));
  EXPECT_EQ(error.status_json, body);
  EXPECT_EQ(ErrorFromResponse(403, {}, "{}").status_json, "");
}

TEST(ErrorFromResponse, ReadsRetryAfterFromHeaderAndStatus) {
  EXPECT_EQ(ErrorFromResponse(429, {{"retry-after", "7"}}, "").retry_after, 7s);
  EXPECT_EQ(ErrorFromResponse(429, {{"retry-after", "86400"}}, "").retry_after, 10min);
  EXPECT_EQ(ErrorFromResponse(429, {{"retry-after", "-1"}}, "").retry_after, std::nullopt);
  EXPECT_EQ(ErrorFromResponse(429, {{"retry-after", "soon"}}, "").retry_after, std::nullopt);
  EXPECT_EQ(ErrorFromResponse(429, {}, "").retry_after, std::nullopt);
  EXPECT_EQ(ErrorFromResponse(504, {}, R"({"kind":"Status","details":{"retryAfterSeconds":3}})")
                .retry_after,
            3s);
}

TEST(ErrorFromResponse, MessagesStayOnOneLineAndShort) {
  const Error error = ErrorFromResponse(500, {}, std::string(100'000, '\n') + "x");
  EXPECT_LT(error.message.size(), 500u);
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
  EXPECT_EQ(ErrorFromResponse(500, {}, std::string(100'000, '[')).code, ErrorCode::kUnavailable);
}

TEST(ErrorFromResponse, ControlCharactersAreShownAndNotSent) {
  const Error status =
      ErrorFromResponse(500, {}, R"({"kind":"Status","message":"\u001b[2J\u009b31m\nred"})");
  EXPECT_EQ(status.message, "^[[2J^[[31m red (HTTP 500)");
  EXPECT_EQ(ErrorFromResponse(500, {}, "\u009d0;title\a").message, "HTTP 500: ^[]0;title^G");
}

// The real server has a 500 without a reason for these; trying again would not help.
TEST(ErrorFromResponse, MalformedParametersAreInvalidThoughTheServerSays500) {
  const auto code = [](const char* message) {
    return ErrorFromResponse(500, {},
                             std::string(R"({"kind":"Status","message":")") + message + R"("})")
        .code;
  };
  EXPECT_EQ(code("resourceVersion: Invalid value: x"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("invalid shard selector: half"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("etcdserver: leader changed"), ErrorCode::kUnavailable);
}

// One field of a message, of less than 128 bytes.
std::string Field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

// A server answers in the form that the request asked for.
TEST(ErrorFromResponse, ReadsAStatusInProtobufAsItsJson) {
  const std::string cause = Field(1, "ResourceVersionTooLarge") + Field(2, "too large");
  const std::string status = Field(1, Field(1, "") + Field(2, "")) + Field(2, "Failure") +
                             Field(3, "Timeout: too large") + Field(4, "Timeout") +
                             Field(5, Field(4, cause) + "\x28\x03") + "\x30\xf8\x03";
  const std::string body = std::string("k8s\0", 4) + Field(1, Field(1, "v1") + Field(2, "Status")) +
                           Field(2, status) + Field(3, "") + Field(4, "");
  const std::string json =
      R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",)"
      R"("message":"Timeout: too large","reason":"Timeout","details":{"causes":[{"reason":)"
      R"("ResourceVersionTooLarge","message":"too large"}],"retryAfterSeconds":3},"code":504})";
  const Error error = ErrorFromResponse(504, {}, body);
  const Error same = ErrorFromResponse(504, {}, json);
  EXPECT_EQ(error.code, ErrorCode::kVersionTooLarge);
  EXPECT_EQ(error.code, same.code);
  EXPECT_EQ(error.message, same.message);
  EXPECT_EQ(error.retry_after, 3s);
  EXPECT_EQ(error.status_json, json);
  EXPECT_EQ(same.status_json, json);
}

TEST(ErrorFromResponse, CutsALongMessageBetweenCharacters) {
  const std::string text = std::string(2047, 'x') + "\u00e4\u00e4";
  const Error status =
      ErrorFromResponse(500, {}, R"({"kind":"Status","message":")" + text + R"("})");
  EXPECT_EQ(status.message, std::string(2047, 'x') + " (HTTP 500)");
  const Error body = ErrorFromResponse(500, {}, std::string(199, 'x') + "\u00e4");
  EXPECT_EQ(body.message, "HTTP 500: " + std::string(199, 'x'));
}

double SecondsToRead(int members) {
  std::string body = R"({"kind":"Status","reason":"NotFound","details":{"name":"a"})";
  for (int i = 0; i < members; ++i) body += fmt::format(R"(,"a{:06}":0)", i);
  body += "}";
  return LeastCpuSeconds([&] { EXPECT_TRUE(SaysNotFound(ErrorFromResponse(404, {}, body), "a")); });
}

TEST(ErrorFromResponse, OfManyMembersTakesTimeByTheMember) {
  // Ten times as many: about ten times as long, and a hundred times if each is compared with each.
  EXPECT_LT(SecondsToRead(50'000) / SecondsToRead(5'000), 40);
}

TEST(ErrorFromResponse, OfProtobufThatIsNoStatusOnlyTheCodeIsKnown) {
  for (const std::string& rest : {std::string(), std::string("\xff\xff"),
                                  Field(1, Field(1, "v1") + Field(2, "Pod")) + Field(2, "")}) {
    const Error error = ErrorFromResponse(410, {}, std::string("k8s\0", 4) + rest);
    EXPECT_EQ(error.code, ErrorCode::kGone);
    EXPECT_EQ(error.message, "HTTP 410");
    EXPECT_EQ(error.status_json, "");
  }
}

}  // namespace
}  // namespace larder
