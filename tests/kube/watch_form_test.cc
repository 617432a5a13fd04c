// Watches, objects and errors of the real server as JSON and as protobuf: the same, byte for byte.
#include <gmock/gmock.h>

#include "reflector/requests.h"
#include "reflector/watch_decoder.h"
#include "schema/wire_unknown.h"
#include "tests/kube/kube_fixture.h"

namespace larder {
namespace {

using ::testing::HasSubstr;
using testing::StartsWith;
using Form = Requests::Form;

struct Heard {
  WatchEvent::Type type;
  std::string object;

  friend bool operator==(const Heard&, const Heard&) = default;
  friend void PrintTo(const Heard& heard, std::ostream* out) {
    *out << ToString(heard.type) << ' ' << heard.object;
  }
};

class KubeWatchForm : public KubeTest {
 protected:
  static constexpr std::chrono::seconds kTime{1};

  // All that a watch of a second says.
  std::vector<Heard> Watch(const std::string& version, Form form) {
    return Hear(MakeRequests().Watch(version, kTime, form), form);
  }
  std::vector<Heard> Initial(Form form) {
    return Hear(MakeRequests().WatchList("", kTime, form), form);
  }
  Requests MakeRequests() {
    options_.resource = resource_;
    return Requests(options_, 1);
  }
  std::vector<Heard> Hear(const Request& request, Form form) {
    const auto response = transport_->Do(request, {});
    EXPECT_TRUE(response) << response.error().ToString();
    if (!response) return {};
    EXPECT_EQ(response->headers.at("content-type"),
              form == Form::kJson ? "application/json"
                                  : "application/vnd.kubernetes.protobuf;stream=watch");
    const auto decoder =
        form == Form::kJson ? MakeJsonDecoder(options_) : MakeProtobufDecoder(options_, *Wire());
    std::vector<Heard> all;
    decoder->Feed(response->body);
    for (;;) {
      const auto event = decoder->Next();
      EXPECT_TRUE(event) << event.error().ToString();
      if (!event || !*event) break;
      all.push_back({(*event)->type, std::string((*event)->object)});
    }
    EXPECT_FALSE(decoder->InEvent());
    return all;
  }

  TypeMeta Type() const { return {resource_.ApiVersion(), resource_.kind}; }
  const WireMessage* Wire() const { return WireSchema::BuiltIn().Find(Type()); }
  std::string Version() {
    const auto list = client_->List(resource_, {.ns = ns_});
    EXPECT_TRUE(list) << list.error().ToString();
    return list ? list->resource_version : "";
  }
  Error Refused(Form form, const std::string& version, bool exact) {
    Request request = MakeRequests().List(version, form);
    if (exact) request.query.emplace_back("resourceVersionMatch", "Exact");
    const auto response = transport_->Do(request, {});
    EXPECT_FALSE(response);
    return response ? Error{} : response.error();
  }
  static void ExpectSame(const Error& ours, const Error& theirs) {
    EXPECT_EQ(ours.code, theirs.code);
    EXPECT_EQ(ours.message, theirs.message);
    EXPECT_EQ(ours.retry_after, theirs.retry_after);
    std::string json = theirs.status_json;  // an answer of its own ends with a newline
    if (json.ends_with('\n')) json.pop_back();
    EXPECT_EQ(ours.status_json, json);
  }
};

// Text that JSON has to escape.
constexpr const char* kText = "<b>\"Grüße\" & more\n\u2028</b>";

std::vector<std::pair<std::string, Json>> Kinds() {
  const Json container = {{"name", "c"},
                          {"image", "example.com/i:1"},
                          {"resources", {{"requests", {{"cpu", "250m"}, {"memory", "64Mi"}}}}},
                          {"readinessProbe", {{"httpGet", {{"path", "/"}, {"port", "http"}}}}}};
  const Json pod = {{"containers", {container}}, {"nodeSelector", {{"a", "b"}}}};
  const Json labels = {{"matchLabels", {{"app", "web"}}}};
  return {
      {"configmaps", {{"data", {{"k", kText}}}, {"binaryData", {{"b", "AAH/"}}}}},
      {"secrets", {{"stringData", {{"k", kText}}}}},
      {"pods", {{"spec", pod}}},
      {"services", {{"spec", {{"ports", {{{"port", 80}, {"targetPort", "http"}}}}}}}},
      {"leases", {{"spec", {{"renewTime", "2026-01-02T03:04:05.000006Z"}}}}},
      {"deployments.apps",
       {{"spec",
         {{"selector", labels},
          {"template", {{"metadata", {{"labels", {{"app", "web"}}}}}, {"spec", pod}}}}}}},
  };
}

TEST_F(KubeWatchForm, EventsAreTheSameAsInJson) {
  for (const auto& [name, content] : Kinds()) {
    SCOPED_TRACE(name);
    resource_ = *LookupResource(name);
    ASSERT_NE(Wire(), nullptr);
    const std::string before = Version();
    Json object = content;
    object["metadata"] = {{"name", "one"}, {"namespace", ns_}, {"annotations", {{"a", kText}}}};
    const auto made = client_->Create(resource_, object);
    ASSERT_TRUE(made) << made.error().ToString();
    ASSERT_TRUE(client_->Patch(resource_, {ns_, "one"}, PatchType::kJsonMerge,
                               {{"metadata", {{"labels", {{"l", "v"}}}}}}));
    const auto theirs_now = client_->Get(resource_, {ns_, "one"});
    ASSERT_TRUE(theirs_now);
    const auto answer =
        transport_->Do(MakeRequests().ForObject({ns_, "one"}, "", Form::kProtobuf), {});
    ASSERT_TRUE(answer) << answer.error().ToString();
    KnownJson known;
    std::string ours_now;
    ASSERT_TRUE(WireUnknownToJson(*Wire(), Type(), answer->body, {1000}, known, ours_now));
    EXPECT_EQ(ours_now, (*theirs_now)->json());
    ASSERT_TRUE(client_->Delete(resource_, {ns_, "one"}, {.grace_period_seconds = 0}));

    const std::vector<Heard> ours = Watch(before, Form::kProtobuf);
    const std::vector<Heard> theirs = Watch(before, Form::kJson);
    EXPECT_EQ(ours, theirs);
    ASSERT_GE(ours.size(), 3U);
    EXPECT_EQ(ours.front().type, WatchEvent::Type::kAdded);
    EXPECT_EQ(ours[1].type, WatchEvent::Type::kModified);
    EXPECT_EQ(ours[1].object, ours_now);
    EXPECT_EQ(ours.back().type, WatchEvent::Type::kDeleted);
  }
}

TEST_F(KubeWatchForm, InitialEventsAndTheirBookmarkAreTheSameAsInJson) {
  MakeMany("a", 3);
  std::vector<Heard> ours = Initial(Form::kProtobuf);
  std::vector<Heard> theirs = Initial(Form::kJson);
  for (std::vector<Heard>* heard : {&ours, &theirs}) {
    ASSERT_GE(heard->size(), 4U);
    Heard& last = heard->back();
    ASSERT_EQ(last.type, WatchEvent::Type::kBookmark);
    const auto bookmark = ParseBookmark(last.object);
    ASSERT_TRUE(bookmark) << last.object;
    EXPECT_TRUE(bookmark->initial_events_end);
    // Whatever else was written meanwhile.
    const size_t at = last.object.find(bookmark->resource_version);
    last.object.replace(at, bookmark->resource_version.size(), "N");
  }
  EXPECT_EQ(ours, theirs);
}

TEST_F(KubeWatchForm, AnExpiredVersionIsTheSameErrorAsInJson) {
  Make("one");
  Kube({"compact"});
  ExpireHistory();
  ASSERT_TRUE(Eventually([&] { return client_->List(resource_, {.ns = ns_}).has_value(); }));
  const std::vector<Heard> ours = Watch("1", Form::kProtobuf);
  const std::vector<Heard> theirs = Watch("1", Form::kJson);
  ASSERT_EQ(ours.size(), 1U);
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(ours[0].type, WatchEvent::Type::kError);
  const Error error = ErrorFromStatus(ours[0].object);
  EXPECT_EQ(error.code, ErrorCode::kGone);
  ExpectSame(error, ErrorFromStatus(theirs[0].object));
}

TEST_F(KubeWatchForm, RefusalsAreTheSameErrorsAsInJson) {
  Make("one");
  Kube({"compact"});
  const Error gone = Refused(Form::kProtobuf, "1", true);
  EXPECT_EQ(gone.code, ErrorCode::kGone);
  EXPECT_THAT(gone.status_json, StartsWith(R"({"kind":"Status","apiVersion":"v1",)"));
  ExpectSame(gone, Refused(Form::kJson, "1", true));

  const Error too_large = Refused(Form::kProtobuf, "999999999999", false);
  EXPECT_EQ(too_large.code, ErrorCode::kVersionTooLarge);
  EXPECT_TRUE(too_large.retry_after.has_value());
  EXPECT_THAT(too_large.status_json, HasSubstr("ResourceVersionTooLarge"));
  ExpectSame(too_large, Refused(Form::kJson, "999999999999", false));
}

}  // namespace
}  // namespace larder
