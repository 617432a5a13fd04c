// The awkward and the random documents of support.h.
#include <fmt/format.h>

#include "tests/storage/support.h"

namespace larder::testing {

std::vector<std::string> AwkwardDocuments() {
  return {
      // As short as can be.
      R"({"metadata":{"name":"a"}})",
      // A custom resource: keys sorted, owners sorted, managedFields in the middle.
      R"({"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{"a":"1","b":""},"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:06Z","finalizers":["x.example.com/y","z"],"generateName":"w-","generation":7,"labels":{"l":"m"},"managedFields":[{"manager":"\"}],{","operation":"Apply"}],"name":"w-1","namespace":"n","ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":true,"controller":true,"kind":"K","name":"o","uid":"u"},{"apiVersion":"v1","kind":"K","name":"p","uid":"v"}],"resourceVersion":"18446744073709551616","uid":"c458dea9-d195-4b0f-a2f7-0fba5a30035d"},"spec":{"x":[1,2,3]}})",
      // Numbers that no double and no int64 holds.
      R"({"metadata":{"name":"a","resourceVersion":"123456789012345678901234567890"},"n":[18446744073709551615,-9223372036854775808,123456789012345678901234567890,1.0000000000000000000001,1e400,-0.0,0.1e-10]})",
      // Unicode as itself and as escapes; a quote in a label; a slash escaped.
      R"({"metadata":{"name":"a","labels":{"ключ":"значение","e":"\u00e9","q":"a\"b","s":"a\/b","n":"\n\t"},"annotations":{"pile":"💩","same":"\ud83d\ude00"}},"x":"\u0000"})",
      // Nulls and empties wherever they may be.
      R"({"metadata":{"name":"a","namespace":"","uid":"","resourceVersion":"","generateName":"","labels":{},"annotations":null,"ownerReferences":[],"finalizers":[],"managedFields":null,"creationTimestamp":null,"deletionTimestamp":null},"spec":null,"status":{},"list":[],"nested":{"a":{"b":{}}}})",
      // Versions that are text, or have zeros in front.
      R"({"metadata":{"name":"a","resourceVersion":"007","uid":"NOT-A-UUID"}})",
      R"({"metadata":{"name":"a","resourceVersion":"v12","uid":"C458DEA9-D195-4B0F-A2F7-0FBA5A30035D"}})",
      R"({"metadata":{"name":"a","resourceVersion":"0","generation":0}})",
      // Repeated keys.
      R"({"metadata":{"name":"a","name":"b","generation":12,"generation":1,"labels":{"x":"1","x":"2"},"labels":{"y":"3"}}})",
      R"({"metadata":{"name":"a","uid":"1"},"metadata":{"name":"b","uid":"2"}})",
      // White space in every place.
      R"( { "kind" : "X" ,
	"metadata" : { "name" : "a" , "labels" : { "b" : "c" } } , "spec" : [ 1 , 2 ] } 
)",
      R"({"metadata": {"name":"a","labels": {"b":"c"},"generation": 3}})",
      // Metadata at the end, and something unknown before it.
      R"({"spec":{"metadata":{"name":"not me"}},"metadata":{"name":"a","namespace":"n"}})",
      // Times with fractions, other zones, and no times at all.
      R"({"metadata":{"name":"a","creationTimestamp":"2026-01-02T03:04:05.678Z","deletionTimestamp":"2026-01-02T03:04:05+02:00"}})",
      R"({"metadata":{"name":"a","creationTimestamp":"soon"}})",
      R"({"metadata":{"name":"a","creationTimestamp":"1969-12-31T23:59:59Z"}})",
      R"({"metadata":{"name":"a","creationTimestamp":"0001-01-01T00:00:00Z"}})",
      // Fields of metadata that the envelope does not know, in between.
      R"({"metadata":{"selfLink":"/x","name":"a","clusterName":"c","labels":{"a":"b"},"deletionGracePeriodSeconds":30}})",
      // Owners with unknown fields, flags that are false, and missing parts.
      R"({"metadata":{"name":"a","ownerReferences":[{"kind":"K","name":"o","uid":"u","controller":false,"extra":1}]}})",
      R"({"metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o"}]}})",
      // Strings that look like what is cut out.
      R"({"metadata":{"name":"a","annotations":{"last":"{\"metadata\":{\"name\":\"a\"}}"},"labels":{"name":"a"}},"name":"a"})",
  };
}

namespace {

std::string RandomText(std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {
      "a",       "b", "-", ".", "/", "é", "\\\"", "\\\\", "\\n",
      "\\u0041", "{", "}", "[", "]", ",", ":",    "名",   "metadata"};
  std::string out;
  for (uint64_t i = random() % 6; i > 0; --i) out += kPieces[random() % kPieces.size()];
  return out;
}

std::string RandomValue(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 3 ? 5 : 7)) {
    case 0:
      return "null";
    case 1:
      return random() % 2 ? "true" : "false";
    case 2:
      return std::to_string(static_cast<int64_t>(random()));
    case 3:
      return "1.50e-3";
    case 4:
      return "\"" + RandomText(random) + "\"";
    case 5: {
      std::string out = "[";
      for (uint64_t i = random() % 4; i > 0; --i) {
        out += (out.size() > 1 ? "," : "") + RandomValue(random, depth + 1);
      }
      return out + "]";
    }
    default: {
      std::string out = "{";
      for (uint64_t i = random() % 4; i > 0; --i) {
        out += (out.size() > 1 ? ",\"" : "\"") + RandomText(random) +
               "\":" + RandomValue(random, depth + 1);
      }
      return out + "}";
    }
  }
}

std::string RandomPairs(std::mt19937_64& random) {
  std::string out = "{";
  for (uint64_t i = random() % 4; i > 0; --i) {
    out += fmt::format("{}\"{}\":\"{}\"", out.size() > 1 ? "," : "", RandomText(random),
                       RandomText(random));
  }
  return out + "}";
}

}  // namespace

std::string RandomDocument(std::mt19937_64& random) {
  std::vector<std::string> members = {fmt::format(R"("name":"n{}")", random() % 1000)};
  const auto maybe = [&](const std::string& member) {
    if (random() % 2) members.push_back(member);
  };
  maybe(fmt::format(R"("namespace":"ns{}")", random() % 10));
  maybe(fmt::format(R"("uid":"{}")", random() % 2 ? "c458dea9-d195-4b0f-a2f7-0fba5a30035d" : "x"));
  maybe(fmt::format(R"("resourceVersion":"{}")", random()));
  maybe(fmt::format(R"("generation":{})", static_cast<int64_t>(random() % 100) - 50));
  maybe(fmt::format(R"("creationTimestamp":"20{:02}-{:02}-{:02}T{:02}:{:02}:{:02}Z")",
                    random() % 100, random() % 12 + 1, random() % 31 + 1, random() % 24,
                    random() % 60, random() % 60));
  maybe("\"labels\":" + RandomPairs(random));
  maybe("\"annotations\":" + RandomPairs(random));
  maybe(R"("finalizers":["a","b"])");
  maybe(
      R"("ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"u","controller":true}])");
  maybe("\"managedFields\":" + RandomValue(random, 1));
  std::shuffle(members.begin(), members.end(), random);
  std::string metadata;
  for (const std::string& member : members) metadata += (metadata.empty() ? "" : ",") + member;
  const std::string space = random() % 8 == 0 ? " " : "";
  return "{" + space + R"("kind":"K","metadata":{)" + metadata + "}," + space +
         "\"spec\":" + RandomValue(random, 0) + "}";
}

}  // namespace larder::testing
