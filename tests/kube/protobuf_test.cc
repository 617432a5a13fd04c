// Every built-in kind that the server holds, listed as JSON and as protobuf: the same objects, byte
// for byte.
#include <gtest/gtest.h>

#include <algorithm>
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

std::vector<std::string> AsJson(const TypeMeta& type, const std::string& body) {
  std::vector<std::string> objects;
  for (const std::string& item : Items(ListSplitter(1 << 24, 1000), body)) {
    const auto object = Object::Parse(item, type);
    EXPECT_TRUE(object) << object.error().ToString();
    if (object) objects.emplace_back((*object)->json());
  }
  std::sort(objects.begin(), objects.end());
  return objects;
}

std::vector<std::string> Converted(const TypeMeta& type, const WireMessage& wire,
                                   const std::string& body) {
  std::vector<std::string> objects;
  KnownJson known;
  for (const std::string& item : Items(ProtoListSplitter(1 << 24), body)) {
    const auto done = WireToJson(wire, type, item, {1000}, known, objects.emplace_back());
    EXPECT_TRUE(done) << done.error().ToString();
  }
  std::sort(objects.begin(), objects.end());
  return objects;
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
    // Sorted: component statuses come in any order. Again: the server renews a lease now and then.
    std::vector<std::string> ours, theirs;
    for (int i = 0; i < 5; ++i) {
      theirs = AsJson(type, Get(*transport_, resource.Path(""), "application/json"));
      ours = Converted(type, *wire,
                       Get(*transport_, resource.Path(""), "application/vnd.kubernetes.protobuf"));
      if (ours == theirs) break;
    }
    EXPECT_EQ(ours, theirs);
    compared += ours.size();
    if (!ours.empty()) kinds.insert(resource.kind);
  }
  std::printf("compared %zu objects of %zu kinds\n", compared, kinds.size());
  EXPECT_GT(kinds.size(), 8U);
}

}  // namespace
}  // namespace larder
