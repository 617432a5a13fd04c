// Protobuf to JSON, against what Kubernetes' own encoders write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "schema/go_json_writer.h"
#include "schema/wire_to_json.h"
#include "tests/schema/wire_samples.h"

namespace larder {
namespace {

using ::testing::HasSubstr;

TEST(GoJsonWriter, GivesBackWhatOneLargeTextTook) {
  std::string out;
  const auto write = [&](size_t bytes) {
    GoJsonWriter json(&out);
    json.Plain(std::string(bytes, 'x'));
    json.Finish();
    EXPECT_EQ(out, std::string(bytes, 'x'));
  };
  write(9000);
  const size_t usual = out.capacity();
  write(size_t{3} << 20);
  write(size_t{3} << 20);
  EXPECT_GE(out.capacity(), size_t{3} << 20) << "several large ones share a buffer";
  write(9000);
  write(9000);
  EXPECT_EQ(out.capacity(), usual);
}

Result<std::string> Convert(const TypeMeta& type, std::string_view bytes) {
  std::string json;
  const WireMessage* message = WireSchema::BuiltIn().Find(type);
  if (message == nullptr) return MakeError(ErrorCode::kNotFound, "{} is not built in", type.kind);
  KnownJson known;
  LARDER_ASSIGN_OR_RETURN(const WireHead head,
                          WireToJson(*message, type, bytes, {100}, known, json));
  EXPECT_TRUE(head.body_at == 0 || json.substr(head.body_at - 2, 3) == "},\"") << json;
  return json;
}

TEST(WireToJson, WritesWhatTheServerWrites) {
  const std::vector<WireSample> samples = WireSamples();
  std::set<std::string> kinds;
  for (const WireSample& sample : samples) {
    SCOPED_TRACE(sample.type.kind);
    const Result<std::string> json = Convert(sample.type, sample.bytes);
    ASSERT_TRUE(json.has_value()) << json.error().ToString();
    EXPECT_EQ(*json, sample.json);
    kinds.insert(sample.type.api_version + sample.type.kind);
  }
  EXPECT_EQ(kinds.size(), WireSchema::BuiltIn().Kinds().size());
}

TEST(WireToJson, DamagedBytesAreAnErrorOrAnotherObject) {
  for (const WireSample& sample : WireSamples()) {
    if (sample.bytes.size() > 20'000) continue;
    for (size_t i = 0; i < sample.bytes.size(); i += 1 + i / 64) {
      std::string damaged = sample.bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x15);
      (void)Convert(sample.type, damaged);  // any outcome but a crash or an overrun
      if (const auto cut = Convert(sample.type, sample.bytes.substr(0, i)); cut.has_value()) {
        EXPECT_LE(cut->size(), sample.json.size());
      }
    }
  }
}

TEST(WireToJson, AFieldThatIsNotKnownIsAnError) {
  const std::string newer = std::string("\xfa\x06\x01x", 4);  // field 111
  const auto json = Convert({"v1", "Pod"}, newer);
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(json.error().message, HasSubstr("field 111 of core/v1.Pod"));
}

TEST(ObjectFromWire, IsTheObjectThatItsJsonSays) {
  int compared = 0;
  for (const WireSample& sample : WireSamples()) {
    if (sample.bytes.size() < 300) continue;  // without a name
    std::string json;
    KnownJson known;
    const WireMessage* message = WireSchema::BuiltIn().Find(sample.type);
    const auto head = WireToJson(*message, sample.type, sample.bytes, {100}, known, json);
    ASSERT_TRUE(head.has_value());
    const auto whole = Object::Parse(json);
    const auto read = Object::FromWire(json, sample.type, *head);
    ASSERT_EQ(whole.has_value(), read.has_value()) << sample.type.kind;
    if (!whole) {  // a name that is none: the samples have all sorts of text
      EXPECT_EQ(read.error().message, whole.error().message);
      continue;
    }
    EXPECT_EQ((*read)->envelope_bytes(), (*whole)->envelope_bytes());
    EXPECT_EQ((*read)->json(), (*whole)->json());
    EXPECT_EQ((*read)->Body(), (*whole)->Body());
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

std::string Bytes(uint32_t number, const std::string& text) {
  std::string out;
  for (const size_t part : {size_t{number << 3 | 2}, text.size()}) {
    for (size_t rest = part;; rest >>= 7) {
      out += static_cast<char>(rest < 0x80 ? rest : rest % 0x80 + 0x80);
      if (rest < 0x80) break;
    }
  }
  return out + text;
}

// A list of messages that are empty, and print all of their fields; maps and lists of nothing,
// whose elements take more memory than text.
TEST(WireToJson, AMessageThatIsLargeOnlyAsJsonIsRefused) {
  const auto repeated = [](const std::string& element) {
    std::string all;
    while (all.size() < size_t{1} << 20) all += element;
    return all;
  };
  const std::string name = Bytes(1, "a") + Bytes(3, "x");
  const std::string containers = Bytes(1, name) + Bytes(3, repeated(Bytes(8, "")));
  for (const std::string& pod :
       {containers, Bytes(1, name + repeated(Bytes(13, ""))),
        Bytes(1, name + repeated(Bytes(11, ""))), Bytes(1, name + repeated(Bytes(14, "")))}) {
    const TypeMeta type{"v1", "Pod"};
    constexpr size_t kMost = size_t{4} << 20;
    std::string json;
    KnownJson known;
    bool too_large = false;
    const auto head = WireToJson(*WireSchema::BuiltIn().Find(type), type, pod, {100, kMost}, known,
                                 json, &too_large);
    ASSERT_FALSE(head.has_value());
    EXPECT_TRUE(too_large);
    EXPECT_EQ(head.error().code, ErrorCode::kProtocol);
    EXPECT_EQ(head.error().message, "Pod x/a is larger than 4194304 bytes as JSON");
    EXPECT_LT(json.size(), 2 * kMost);
  }
}

TEST(WireToJson, JsonOfTheLimitIsTaken) {
  const WireSample sample = WireSamples().front();
  const WireMessage& message = *WireSchema::BuiltIn().Find(sample.type);
  std::string json;
  KnownJson known;
  const size_t most = sample.json.size();
  EXPECT_TRUE(WireToJson(message, sample.type, sample.bytes, {100, most}, known, json));
  EXPECT_EQ(json, sample.json);
  EXPECT_FALSE(WireToJson(message, sample.type, sample.bytes, {100, most - 1}, known, json));
}

// Fields in no order, maps scattered, owners backwards, text that is not UTF-8.
TEST(ObjectFromWire, ReadsMetadataInAnyOrder) {
  const TypeMeta type{"v1", "ConfigMap"};
  const auto label = [](const char* key, const char* value) {
    return Bytes(11, Bytes(2, value) + Bytes(1, key));
  };
  const std::string time = Bytes(8, std::string("\x08\x80\xa8\xd6\xb9\x06", 6));
  const std::string owner =
      Bytes(13, std::string("\x38\x01\x30\x01", 4) + Bytes(5, "apps/v1") + Bytes(4, "u-1") +
                    Bytes(3, "set") + Bytes(1, "ReplicaSet"));
  const std::string plain = label("z", "1") + Bytes(14, "one") + Bytes(5, "u-0") + time +
                            label("a", "Gr\xc3\xbc\xc3\x9f") + Bytes(12, Bytes(1, "note")) + owner +
                            Bytes(6, "77") + Bytes(1, "web") + Bytes(3, "shop") +
                            std::string("\x38\x05", 2) + Bytes(14, "two");
  for (const std::string& metadata :
       {plain, plain + label("b", "\xff"), plain + Bytes(2, "w\xfe")}) {
    std::string json;
    KnownJson known;
    const std::string message = Bytes(1, metadata) + Bytes(2, Bytes(1, "k") + Bytes(2, "v"));
    const auto head =
        WireToJson(*WireSchema::BuiltIn().Find(type), type, message, {100}, known, json);
    ASSERT_TRUE(head.has_value()) << head.error().ToString();
    const ObjectPtr whole = Object::Parse(json).value();
    const ObjectPtr read = Object::FromWire(json, type, *head).value();
    EXPECT_EQ(read->envelope_bytes(), whole->envelope_bytes()) << json;
    EXPECT_EQ(read->json(), whole->json());
    EXPECT_EQ(read->key().ToString(), "shop/web");
    EXPECT_EQ(read->Label("a"), "Gr\u00fc\u00df");
    EXPECT_EQ(read->generation(), 5);
    EXPECT_EQ(read->Body(), R"("data":{"k":"v"}})");
    ASSERT_EQ(read->Owners().size(), 1u);
    EXPECT_EQ(read->Owners()[0].kind, "ReplicaSet");
    EXPECT_TRUE(read->Owners()[0].controller);
  }
}

TEST(ObjectFromWire, RefusesNamesThatAreNone) {
  const TypeMeta type{"v1", "ConfigMap"};
  for (const std::string& metadata :
       {std::string(), Bytes(1, "a/b"), Bytes(1, "a") + Bytes(3, "x\ny"), Bytes(3, "shop")}) {
    std::string json;
    KnownJson known;
    const std::string message = Bytes(1, metadata);  // the head is a view into it
    const auto head =
        WireToJson(*WireSchema::BuiltIn().Find(type), type, message, {100}, known, json);
    ASSERT_TRUE(head.has_value());
    const auto read = Object::FromWire(json, type, *head);
    ASSERT_FALSE(read.has_value()) << json;
    EXPECT_EQ(read.error().message, Object::Parse(json).error().message);
  }
}

// The samples in turn, all with one memory: what one leaves there changes no other.
TEST(WireToJson, WhatIsKnownAlreadyIsWrittenTheSame) {
  KnownJson known(KnownJson::kForList);
  std::string json;
  for (int round = 0; round < 3; ++round) {
    for (const WireSample& sample : WireSamples()) {
      for (int twice = 0; twice < 2; ++twice) {
        const WireMessage* message = WireSchema::BuiltIn().Find(sample.type);
        ASSERT_TRUE(WireToJson(*message, sample.type, sample.bytes, {100}, known, json));
        ASSERT_EQ(json, *Convert(sample.type, sample.bytes)) << sample.type.kind;
      }
    }
  }
}

TEST(KnownJson, MindsWhatTheBytesAreAndHowDeepTheyStand) {
  KnownJson known(1);
  const int pod = 0, node = 0;
  const std::string bytes(100, 'x');
  KnownJson::Piece* const piece = known.At(&pod, bytes);
  ASSERT_NE(piece, nullptr);
  EXPECT_FALSE(piece->Is(&pod, bytes, 3));
  piece->Keep(&pod, bytes, 3, "{}");
  EXPECT_TRUE(piece->Is(&pod, bytes, 3));
  EXPECT_EQ(piece->json(), "{}");
  EXPECT_FALSE(piece->Is(&pod, bytes, 4));
  EXPECT_FALSE(piece->Is(&node, bytes, 3));
  EXPECT_FALSE(piece->Is(&pod, bytes + "x", 3));
}

TEST(KnownJson, KeepsNothingThatIsLong) {
  KnownJson known(1);
  const int pod = 0;
  EXPECT_EQ(known.At(&pod, "short"), nullptr);
  EXPECT_EQ(known.At(&pod, std::string(100'000, 'x')), nullptr);
  const std::string bytes(100, 'x');
  known.At(&pod, bytes)->Keep(&pod, bytes, 3, std::string(100'000, 'x'));
  EXPECT_FALSE(known.At(&pod, bytes)->Is(&pod, bytes, 3));
}

TEST(WireToJson, JsonInsideIsCheckedAndNotTooDeep) {
  const auto revision = [](const std::string& data) {
    const auto field = [](char tag, const std::string& bytes) {
      return std::string{tag, static_cast<char>(bytes.size())} + bytes;
    };
    return Convert({"apps/v1", "ControllerRevision"}, field('\x12', field('\x0a', data)));
  };
  EXPECT_TRUE(revision("{}").has_value());
  EXPECT_FALSE(revision("{}}").has_value());
  EXPECT_FALSE(revision("{\"a\":").has_value());
  EXPECT_TRUE(revision(std::string(50, '[') + std::string(50, ']')).has_value());
  EXPECT_FALSE(revision(std::string(60, '[') + std::string(60, ']')).has_value() &&
               revision(std::string(100, '[')).has_value());
}

TEST(WireToJson, MapsAreSortedAndListsMayBeScattered) {
  const auto schema = WireSchema::Parse(R"(kind v1 Thing m.Thing
message m.Thing
  1 pairs map:string omitempty
  2 words []string omitempty
  3 numbers []int
)");
  ASSERT_TRUE(schema.has_value());
  const TypeMeta type{"v1", "Thing"};
  const auto field = [](char tag, const std::string& bytes) {
    return std::string{tag, static_cast<char>(bytes.size())} + bytes;
  };
  const auto pair = [&](const std::string& key, const std::string& value) {
    return field('\x0a', field('\x0a', key) + field('\x12', value));
  };
  const std::string bytes = pair("b", "1") + field('\x12', "x") + pair("a", "2") +
                            field('\x12', "y") + field('\x1a', "\x01\x02") + "\x18\x03";
  std::string json;
  KnownJson known;
  ASSERT_TRUE(WireToJson(*schema->Find(type), type, bytes, {100}, known, json).has_value());
  EXPECT_EQ(json, R"({"kind":"Thing","apiVersion":"v1","pairs":{"a":"2","b":"1"},)"
                  R"("words":["x","y"],"numbers":[1,2,3]})");
}

TEST(WireSchema, SaysWhichLineIsWrong) {
  for (const auto& [text, what] : std::vector<std::pair<const char*, const char*>>{
           {"message m.A\n  x name string\n", "line 2: 'x': not a field's number"},
           {"message m.A\n  1 name strin\n", "line 2: 'strin': not a type"},
           {"message m.A\n  1 a string\n  1 b string\n", "line 3: '1': one field too many"},
           {"message m.A\n  1 a string omitzero\n", "line 2: 'omitzero': not known"},
           {"message m.A\n  1 - string\n", "line 2: 'string': only a message"},
           {"  1 a string\n", "line 1: '  1 a string': not understood"},
           {"message m.A\nmessage m.A\n", "line 2: 'm.A': a second time"},
           {"message m.A\n  1 b m.B\n", "no message m.B"}}) {
    const auto schema = WireSchema::Parse(text);
    ASSERT_FALSE(schema.has_value()) << text;
    EXPECT_THAT(schema.error().message, HasSubstr(what));
  }
}

}  // namespace
}  // namespace larder
