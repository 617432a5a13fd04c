// Every built-in kind that the server holds, listed as JSON and as protobuf: the same objects, byte
// for byte.
#include <gtest/gtest.h>

#include <set>

#include "client/discovery.h"
#include "reflector/list_splitter.h"
#include "reflector/proto_list_splitter.h"
#include "schema/wire_to_json.h"
#include "tests/kube/kube_fixture.h"

namespace larder {
namespace {

using KubeProtobuf = KubeTest;

std::string Get(HttpTransport& transport, const std::string& path, const char* accept) {
  Request request;
  request.path = path;
  request.accept = accept;
  request.query.emplace_back("limit", "500");
  const auto response = transport.Do(request, {});
  EXPECT_TRUE(response) << path << ": " << response.error().ToString();
  return response ? response->body : std::string();
}

template <typename Splitter>
std::vector<std::string> Items(Splitter splitter, const std::string& body) {
  std::vector<std::string> items;
  splitter.Feed(body);
  for (auto step = splitter.Next(); step && *step == ListSplitter::Step::kItem;
       step = splitter.Next()) {
    items.emplace_back(splitter.item());
  }
  EXPECT_TRUE(splitter.Finish()) << body.substr(0, 200);
  return items;
}

TEST_F(KubeProtobuf, ListsAreTheSameAsInJson) {
  Make("one");
  Change("one", "<b>\"Grüße\" & more\n\u2028</b>");
  const auto resources = Discovery(*transport_).Resources();
  ASSERT_TRUE(resources) << resources.error().ToString();
  size_t compared = 0;
  std::set<std::string> kinds;
  for (const ApiResource& api_resource : *resources) {
    const Resource& resource = api_resource.resource;
    const TypeMeta type{resource.ApiVersion(), resource.kind};
    const WireMessage* const wire = WireSchema::BuiltIn().Find(type);
    if (wire == nullptr) continue;
    SCOPED_TRACE(resource.kind);
    const std::string path = resource.Path("");
    const auto json =
        Items(ListSplitter(1 << 24, 1000), Get(*transport_, path, "application/json"));
    const auto proto = Items(ProtoListSplitter(1 << 24),
                             Get(*transport_, path, "application/vnd.kubernetes.protobuf"));
    ASSERT_EQ(json.size(), proto.size());
    for (size_t i = 0; i < json.size(); ++i) {
      std::string converted;
      const auto done = WireToJson(*wire, type, proto[i], 1000, converted);
      ASSERT_TRUE(done) << done.error().ToString();
      const auto object = Object::Parse(json[i], type);
      ASSERT_TRUE(object) << object.error().ToString();
      EXPECT_EQ(converted, (*object)->json());
      ++compared;
      kinds.insert(resource.kind);
    }
  }
  std::printf("compared %zu objects of %zu kinds\n", compared, kinds.size());
  EXPECT_GT(kinds.size(), 8U);
}

}  // namespace
}  // namespace larder
