// `larder get` on a small store.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "storage/store.h"
#include "tests/tools/process.h"

namespace larder {
namespace {

class GetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = Store::Open({.path = Path()});
    ASSERT_TRUE(store) << store.error().ToString();
    CollectionSpec spec;
    spec.cluster_uid = "c";
    spec.resource = *LookupResource("pods");
    const auto pods = (*store)->OpenCollection(spec);
    ASSERT_TRUE(pods);
    Transaction transaction = (*store)->Begin();
    for (const std::string name : {"web-0", "web-1", "db-0"}) {
      const auto object = Object::Parse(
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
          R"(","namespace":"shop","uid":"u","resourceVersion":"7","labels":{"app":")" +
          name.substr(0, name.find('-')) + R"("}},"spec":{"nodeName":"n1"}})");
      ASSERT_TRUE(object);
      transaction.PutObject(pods->id, *(*store)->Encode(pods->id, **object));
    }
    ASSERT_TRUE((*store)->Commit(std::move(transaction), Durability::kSync));
  }
  std::string Path() const { return scratch_ / "store"; }

  ScratchDirectory scratch_;
};

TEST_F(GetTest, SelectsByNamespaceLabelsAndFields) {
  const Outcome web =
      RunLarder({"get", "po", "--store", Path(), "-n", "shop", "-l", "app=web", "-o", "name"});
  EXPECT_EQ(web.exit_code, 0) << web.err;
  EXPECT_NE(web.out.find("web-0"), std::string::npos);
  EXPECT_EQ(web.out.find("db-0"), std::string::npos);
  const Outcome none =
      RunLarder({"get", "po", "--store", Path(), "-A", "--field-selector", "spec.nodeName=n2"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_NE(none.err.find("No resources found"), std::string::npos);
}

TEST_F(GetTest, PrintsWhatTheServerSent) {
  const Outcome one =
      RunLarder({"get", "pod", "db-0", "--store", Path(), "-n", "shop", "-o", "json"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const Json json = Json::parse(one.out, nullptr, false);
  EXPECT_EQ(json["metadata"]["labels"]["app"], "db");
}

TEST_F(GetTest, WorksBesideALiveOwner) {
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  const Outcome all = RunLarder({"get", "pods", "--store", Path(), "-A"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_NE(all.out.find("web-1"), std::string::npos);
}

TEST_F(GetTest, BadInputIsOneClearSentence) {
  const Outcome missing = RunLarder({"get", "pods", "--store", scratch_ / "nothing", "-A"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.err.find("no store at"), std::string::npos) << missing.err;
  const Outcome selector = RunLarder({"get", "pods", "--store", Path(), "-l", "a=b=c"});
  EXPECT_EQ(selector.exit_code, 2);
  EXPECT_NE(selector.err.find("a=b=c"), std::string::npos) << selector.err;
  ::chmod(Path().c_str(), 0755);
  const Outcome open = RunLarder({"get", "pods", "--store", Path(), "-A"});
  EXPECT_EQ(open.exit_code, 3);
  EXPECT_NE(open.err.find("chmod 700"), std::string::npos) << open.err;
}

}  // namespace
}  // namespace larder
