#include "schema/object.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/base/cpu_time.h"

namespace larder {
namespace {

using ::larder::testing::LeastCpuSeconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::string_view kPod =
    R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"x","generateName":"a-",
  "uid":"u-1","resourceVersion":"18446744073709551616","generation":3,
  "creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"1970-01-01T00:00:10Z",
  "labels":{"app":"web","empty":""},"annotations":{"note":"caf\u00e9"},
  "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u-2",
                      "controller":true,"blockOwnerDeletion":true}],
  "finalizers":["f1","f2"],"unknown":{"deep":[1,2,{"x":null}]}},
  "spec":{"big":123456789012345678901234567890,"f":1.0}})";

TEST(Object, KnowsWhatStandsBehindItsMetadata) {
  const auto body = [](std::string_view json) {
    return std::string(Object::Parse(json, {"v1", "Pod"}).value()->Body());
  };
  EXPECT_EQ(body(R"({"metadata":{"name":"a"},"spec":{}})"), R"("spec":{}})");
  EXPECT_EQ(body(R"({"kind":"Pod", "apiVersion":"v1", "metadata":{"name":"a"} , "spec":{}})"),
            R"("spec":{}})");
  EXPECT_EQ(body(R"({"metadata":{"name":"a"}})"), "");
  EXPECT_EQ(body(R"({"spec":{},"metadata":{"name":"a"},"status":{}})"), "") << "not all of it";
  EXPECT_EQ(body(R"({"kind":"Pod","metadata":{"name":"a"},"apiVersion":"v1","spec":{}})"),
            R"("apiVersion":"v1","spec":{}})");
}

TEST(Object, ReadsMetadata) {
  const ObjectPtr pod = Object::Parse(kPod).value();
  EXPECT_EQ(pod->api_version(), "v1");
  EXPECT_EQ(pod->kind(), "Pod");
  EXPECT_EQ(pod->name(), "a");
  EXPECT_EQ(pod->ns(), "x");
  EXPECT_EQ(pod->key().ToString(), "x/a");
  EXPECT_EQ(pod->generate_name(), "a-");
  EXPECT_EQ(pod->uid(), "u-1");
  EXPECT_EQ(pod->resource_version(), "18446744073709551616");
  EXPECT_EQ(pod->generation(), 3);
  EXPECT_EQ(pod->creation_timestamp(), 1767323045);
  EXPECT_EQ(pod->deletion_timestamp(), 10);
  EXPECT_EQ(pod->Label("app"), "web");
  EXPECT_EQ(pod->Label("empty"), "");
  EXPECT_EQ(pod->Label("missing"), std::nullopt);
  EXPECT_EQ(pod->Annotation("note"), "caf\xc3\xa9");
  EXPECT_THAT(pod->Labels(), ElementsAre(Pair("app", "web"), Pair("empty", "")));
  EXPECT_THAT(pod->Annotations(), ElementsAre(Pair("note", "caf\xc3\xa9")));
  EXPECT_THAT(pod->Finalizers(), ElementsAre("f1", "f2"));
  ASSERT_EQ(pod->Owners().size(), 1U);
  EXPECT_EQ(pod->Owners()[0].kind, "ReplicaSet");
  EXPECT_EQ(pod->Owners()[0].uid, "u-2");
  EXPECT_TRUE(pod->Owners()[0].controller);
}

TEST(Object, AbsentMetadataIsEmpty) {
  const ObjectPtr object =
      Object::Parse(R"({"metadata":{"name":"n","labels":null,"finalizers":null}})").value();
  EXPECT_EQ(object->key().ToString(), "n");
  EXPECT_EQ(object->ns(), "");
  EXPECT_EQ(object->uid(), "");
  EXPECT_EQ(object->resource_version(), "");
  EXPECT_EQ(object->generation(), 0);
  EXPECT_EQ(object->creation_timestamp(), 0);
  EXPECT_THAT(object->Labels(), IsEmpty());
  EXPECT_THAT(object->Owners(), IsEmpty());
  EXPECT_THAT(object->Finalizers(), IsEmpty());
}

TEST(Object, KeepsTheDocumentByteForByte) {
  const ObjectPtr pod = Object::Parse(kPod, {"v2", "Other"}).value();
  EXPECT_EQ(pod->json(), kPod);
  for (size_t i = 0; i < Object::kJsonPadding; ++i) {
    EXPECT_EQ(pod->json().data()[pod->json().size() + i], '\0');
  }
}

TEST(Object, PutsTheTypeInFrontWhereAListItemHasNone) {
  const ObjectPtr pod = Object::Parse(R"( {"metadata":{"name":"a"}})", {"v1", "Pod"}).value();
  EXPECT_EQ(pod->json(), R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}})");
  EXPECT_EQ(pod->kind(), "Pod");
  const ObjectPtr half =
      Object::Parse(R"({"kind":"Job","metadata":{"name":"a"}})", {"batch/v1", "Pod"}).value();
  EXPECT_EQ(half->json(), R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"}})");
}

TEST(Object, IsTheSameTextAloneAndInAList) {
  const std::string item = R"({"metadata":{"name":"a"}})";
  const std::string answer = R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}})";
  EXPECT_EQ((*Object::Parse(" " + answer + "\n"))->json(),
            (*Object::Parse(item, {"v1", "Pod"}))->json());
  EXPECT_FALSE(Object::Parse(" \n"));
}

TEST(Object, RefusesWhatItCannotKeyAndNamesTheField) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "document"},
      {"[]", "document"},
      {"{", "document"},
      {"{}", "metadata.name"},
      {R"({"metadata":{}})", "metadata.name"},
      {R"({"metadata":{"name":""}})", "metadata.name"},
      {R"({"metadata":{"name":7}})", "metadata.name"},
      {R"({"metadata":{"name":"a/b"}})", "metadata.name"},
      {R"({"metadata":{"name":"a\u0000b"}})", "metadata.name"},
      {R"({"metadata":{"name":"a","namespace":"x/y"}})", "metadata.namespace"},
      {R"({"metadata":{"name":"a","namespace":"x\n"}})", "metadata.namespace"},
      {R"({"metadata":{"name":"a","labels":[]}})", "metadata.labels"},
      {R"({"metadata":{"name":"a","labels":{"k":1}}})", "metadata.labels"},
      {R"({"metadata":{"name":"a","ownerReferences":{}}})", "metadata.ownerReferences"},
      {R"({"metadata":{"name":"a","finalizers":[1]}})", "metadata.finalizers"},
      {R"({"metadata":{"name":"a","generation":"x"}})", "metadata.generation"},
      {R"({"metadata":[]})", "metadata"},
      {R"({"metadata":{"name":"a"}} x)", "document"},
  };
  for (const auto& [json, field] : cases) {
    const Result<ObjectPtr> object = Object::Parse(json);
    ASSERT_FALSE(object) << json;
    EXPECT_EQ(object.error().code, ErrorCode::kProtocol);
    EXPECT_THAT(object.error().message, HasSubstr(std::string(field))) << json;
  }
}

TEST(Object, IsPutTogetherFromWhatTheStoreTookApart) {
  const ObjectPtr pod = Object::Parse(kPod).value();
  const ObjectPtr again =
      Object::FromParts(std::string(pod->envelope_bytes()), std::string(pod->json()));
  EXPECT_EQ(again->key(), pod->key());
  EXPECT_EQ(again->json(), pod->json());
  EXPECT_EQ(again->Labels(), pod->Labels());
  EXPECT_GT(again->ByteSize(), pod->json().size());
}

TEST(Object, GivesACopyToChange) {
  const ObjectPtr pod = Object::Parse(kPod).value();
  Json copy = pod->ToMutable();
  copy["metadata"]["labels"]["app"] = "changed";
  EXPECT_EQ(pod->Label("app"), "web");
  EXPECT_EQ(Object::FromJson(copy).value()->Label("app"), "changed");
}

TEST(Object, ACopyHasTheLastValueOfARepeatedNameInItsFirstPlace) {
  std::string few =
      R"({"metadata":{"name":"a"},"spec":{"x":{"y":[1,{}]},"b":-2,"x":null,"c":[[]]})";
  EXPECT_EQ(Object::Parse(few + "}").value()->ToMutable().dump(),
            R"({"metadata":{"name":"a"},"spec":{"x":null,"b":-2,"c":[[]]}})");
  // The same in an object that is too large to compare each with each.
  std::string many = R"({"metadata":{"name":"a"})", expected = many;
  for (int i = 0; i < 100; ++i) {
    many += fmt::format(R"(,"k{}":{})", i, i);
    expected += fmt::format(R"(,"k{}":{})", i, i == 7 ? "\"last\"" : std::to_string(i));
  }
  many += R"(,"k7":1.5,"k7":"last"})";
  EXPECT_EQ(Object::Parse(many).value()->ToMutable().dump(), expected + "}");
}

// Parse does not look at what stands behind the metadata.
TEST(Object, ACopyOfWhatIsNoJsonIsEmptyAndSafe) {
  for (const std::string& spec : {std::string(R"({"a":tru})"), std::string("1e400"),
                                  std::string(2000, '[') + std::string(2000, ']')}) {
    const auto object = Object::Parse(R"({"metadata":{"name":"a"},"spec":)" + spec + "}");
    ASSERT_TRUE(object);
    Json copy = (*object)->ToMutable();
    EXPECT_EQ(copy, Json::object()) << spec.substr(0, 20);
    copy["spec"]["a"] = 1;
    EXPECT_FALSE(Object::FromJson(copy)) << "it has no name, so that nobody stores it";
  }
}

double SecondsToCopy(int keys) {
  std::string json = R"({"metadata":{"name":"a"},"data":{"first":"")";
  for (int i = 0; i < keys; ++i) json += fmt::format(R"(,"key-{:06}":"")", i);
  const ObjectPtr object = Object::Parse(json + "}}").value();
  return LeastCpuSeconds(
      [&] { EXPECT_EQ(object->ToMutable()["data"].size(), static_cast<size_t>(keys) + 1); });
}

TEST(Object, ACopyOfManyKeysTakesTimeByTheKey) {
  // Ten times as many: about ten times as long, and a hundred times if each is compared with each.
  EXPECT_LT(SecondsToCopy(50'000) / SecondsToCopy(5'000), 40);
}

TEST(ObjectKey, ReadsWhatItPrints) {
  for (const std::string_view text : {"a", "x/a"}) {
    EXPECT_EQ(ObjectKey::Parse(text).value().ToString(), text);
  }
  for (const std::string_view text : {"", "x/", "x/a/b"}) {
    EXPECT_FALSE(ObjectKey::Parse(text)) << text;
  }
}

TEST(CompareResourceVersions, OrdersIntegersOfAnyLength) {
  EXPECT_EQ(CompareResourceVersions("9", "10"), -1);
  EXPECT_EQ(CompareResourceVersions("10", "9"), 1);
  EXPECT_EQ(CompareResourceVersions("10", "10"), 0);
  EXPECT_EQ(CompareResourceVersions("18446744073709551615", "18446744073709551616"), -1);
  for (const std::string_view bad : {"", "0", "01", "-1", "1a", " 1"}) {
    EXPECT_EQ(CompareResourceVersions(bad, "1"), std::nullopt) << bad;
    EXPECT_EQ(CompareResourceVersions("1", bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace larder
