// The formats on their own: patches, managed fields, shard selectors, media types, protobuf.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "apiserver/base64.h"
#include "apiserver/field_set.h"
#include "apiserver/managed_fields.h"
#include "apiserver/media_type.h"
#include "apiserver/metadata_proto.h"
#include "apiserver/patch.h"
#include "apiserver/shard_selector.h"

namespace larder::apiserver {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;

Json Strategic(const char* live, const char* patch) {
  ApiResult<Json> out = ApplyPatch(PatchType::kStrategic, Json::parse(live), Json::parse(patch));
  return out ? *out : Json("refused");
}

TEST(PatchTest, StrategicDirectivesAreUnderstood) {
  EXPECT_EQ(Strategic(R"({"containers":[{"name":"a","x":1},{"name":"b"}]})",
                      R"({"containers":[{"name":"a","$patch":"delete"}]})"),
            Json::parse(R"({"containers":[{"name":"b"}]})"));
  EXPECT_EQ(Strategic(R"({"containers":[{"name":"a"}]})",
                      R"({"containers":[{"name":"c"},{"$patch":"replace"}]})"),
            Json::parse(R"({"containers":[{"name":"c"}]})"));
  EXPECT_EQ(Strategic(R"({"spec":{"a":1,"b":2}})", R"({"spec":{"$patch":"replace","c":3}})"),
            Json::parse(R"({"spec":{"c":3}})"));
  EXPECT_EQ(Strategic(R"({"finalizers":["a","b"]})", R"({"finalizers":["b","c"]})"),
            Json::parse(R"({"finalizers":["a","b","c"]})"));
  EXPECT_EQ(
      Strategic(R"({"finalizers":["a","b"]})", R"({"$deleteFromPrimitiveList/finalizers":["a"]})"),
      Json::parse(R"({"finalizers":["b"]})"));
  EXPECT_EQ(Strategic(R"({"args":["a"]})", R"({"args":["b"]})"), Json::parse(R"({"args":["b"]})"));
  EXPECT_EQ(Strategic(R"({"conditions":[{"type":"Ready","status":"False"}]})",
                      R"({"conditions":[{"type":"Ready","status":"True"}]})"),
            Json::parse(R"({"conditions":[{"type":"Ready","status":"True"}]})"));
}

TEST(FieldSetTest, RoundTripsThroughFieldsV1) {
  const Json object = Json::parse(
      R"({"metadata":{"name":"x","labels":{"a.b/c":"1"}},"spec":{"containers":[
          {"name":"a","image":"i","ports":[{"containerPort":80}]}],"list":[1,2],"empty":{}}})");
  FieldSet fields;
  for (const auto& [path, value] : LeavesOf(object, true)) fields.insert(path);
  const Json encoded = FieldSetToJson(fields);
  EXPECT_EQ(FieldSetFromJson(encoded), fields);
  const Json& container = encoded["f:spec"]["f:containers"][R"(k:{"name":"a"})"];
  EXPECT_TRUE(container.contains("."));
  EXPECT_TRUE(container["f:ports"].contains(R"(k:{"containerPort":80,"protocol":"TCP"})"));
  EXPECT_TRUE(encoded["f:metadata"]["f:labels"].contains("f:a.b/c"));
  EXPECT_FALSE(encoded["f:metadata"].contains("f:name"));
}

TEST(ManagedFieldsTest, AnElementThatIsNoLongerAppliedGoes) {
  const FieldManager manager{"m", "v1", "", "2026-01-01T00:00:00Z"};
  const Json two =
      Json::parse(R"({"spec":{"containers":[{"name":"a","image":"i"},{"name":"b","image":"j"}]}})");
  const Json one = Json::parse(R"({"spec":{"containers":[{"name":"a","image":"i"}]}})");
  ApiResult<Json> live = ServerSideApply(nullptr, two, manager, false, true);
  ASSERT_TRUE(live);
  live = ServerSideApply(&*live, one, manager, false, true);
  ASSERT_TRUE(live);
  EXPECT_EQ((*live)["spec"], one["spec"]);
}

TEST(ShardSelectorTest, HashesWithFnv1a) {
  // From the definition of FNV-1a.
  EXPECT_EQ(Fnv1a(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(Fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(Fnv1a("foobar"), 0x85944171f73967e8ULL);
}

TEST(ShardSelectorTest, ParsesRangesAndSaysWhatIsWrong) {
  const auto whole = ShardSelector::Parse(
      " shardRange( object.metadata.uid , '0x0000000000000000', '0x10000000000000000' ) ");
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_TRUE(whole->Matches("ns", "any"));
  const auto message = [](const char* text) {
    const auto parsed = ShardSelector::Parse(text);
    return parsed ? std::string("fine") : parsed.error().message;
  };
  EXPECT_THAT(message("other('a')"), HasSubstr("only shardRange() and ||"));
  EXPECT_THAT(message("shardRange(object.metadata.name,'0x0','0x1')"),
              HasSubstr("unsupported field path"));
  EXPECT_THAT(message("shardRange(object.metadata.uid,'0x1')"), HasSubstr("exactly 3 arguments"));
  EXPECT_THAT(message("shardRange(object.metadata.uid,'0x1','0x2')"), HasSubstr("16-digit"));
  EXPECT_THAT(message("shardRange(object.metadata.uid,'0x0000000000000002','0x0000000000000001')"),
              HasSubstr("less than"));
  EXPECT_THAT(
      message("shardRange(object.metadata.uid,'0x0000000000000000','0x0000000000000001') || "
              "shardRange(object.metadata.namespace,'0x0000000000000000','0x0000000000000001')"),
      HasSubstr("same field"));
}

TEST(MediaTypeTest, ServesTheFirstThatItCan) {
  const auto choose = [](const char* accept, Answer answer) -> std::string {
    const ApiResult<MediaType> media = Negotiate(accept, answer);
    if (!media) return std::to_string(media.error().code);
    return std::string(media->protobuf ? "protobuf" : "json") + (media->partial ? " partial" : "");
  };
  const char* const proto = "application/vnd.kubernetes.protobuf";
  EXPECT_EQ(choose("", Answer::kList), "json");
  EXPECT_EQ(choose("*/*", Answer::kList), "json");
  EXPECT_EQ(choose(proto, Answer::kList), "406");
  EXPECT_EQ(choose("text/html, application/json;q=0.5", Answer::kList), "json");
  EXPECT_EQ(choose("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", Answer::kList),
            "json");
  EXPECT_EQ(choose("application/json;q=0.1,"
                   "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;"
                   "g=meta.k8s.io;v=v1",
                   Answer::kList),
            "protobuf partial");
  EXPECT_EQ(choose("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Answer::kList),
            "406");
  EXPECT_EQ(choose("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Answer::kWatch),
            "json partial");
}

// Reads a message's fields as "number=bytes" or "number=varint".
std::vector<std::string> Fields(std::string_view bytes) {
  std::vector<std::string> out;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (!bytes.empty()) {
    const uint64_t tag = varint();
    const uint64_t value = varint();
    std::string text = std::to_string(value);
    if ((tag & 7) == 2) {
      text = bytes.substr(0, value);
      bytes.remove_prefix(value);
    }
    out.push_back(std::to_string(tag >> 3) + "=" + text);
  }
  return out;
}

TEST(MetadataProtoTest, EncodesObjectMetaByItsFieldNumbers) {
  const std::string meta = EncodeObjectMeta(
      R"({"name":"n","namespace":"s","uid":"u","resourceVersion":"12","generation":3,
          "creationTimestamp":"1970-01-02T00:00:00Z","labels":{"a":"b"},"finalizers":["f"]})");
  EXPECT_THAT(Fields(meta), ElementsAre("1=n", "2=", "3=s", "4=", "5=u", "6=12", "7=3",
                                        std::string("8=\x08\x80\xa3\x05\x10\x00", 8),
                                        std::string("11=\x0a\x01"
                                                    "a\x12\x01"
                                                    "b"),
                                        "14=f"));
  const std::string head = UnknownHead("Kind", "v1", 5);
  EXPECT_EQ(head.substr(0, 4), std::string("k8s\0", 4));
  const std::string frame = EncodeWatchFrame("ADDED", "x");
  EXPECT_EQ(static_cast<size_t>(frame[3]), frame.size() - 4);
  EXPECT_EQ(Fields(std::string_view(frame).substr(4)).front(), "1=ADDED");
}

TEST(Base64Test, RoundTripsWithoutPadding) {
  for (const std::string text : {"", "a", "ab", "abc", "{\"v\":1}\xff\xfe"}) {
    EXPECT_EQ(Base64UrlDecode(Base64UrlEncode(text)), text);
  }
  EXPECT_FALSE(Base64UrlDecode("!!"));
  EXPECT_FALSE(Base64UrlDecode("a"));
}

}  // namespace
}  // namespace larder::apiserver
