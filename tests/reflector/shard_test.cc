// Shards: the selector's grammar, the hash, and a server that does or does not know them.
#include <gmock/gmock.h>

#include "reflector/shard_selector.h"
#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using testing::ElementsAre;

constexpr const char* kLow =
    "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')";
constexpr const char* kHigh =
    "shardRange(object.metadata.uid,'0x8000000000000000','0x10000000000000000')";

TEST(ShardSelector, HashesLikeFnv1a) {
  EXPECT_EQ(Fnv1a64(""), 0xcbf29ce484222325U);
  EXPECT_EQ(Fnv1a64("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(Fnv1a64("foobar"), 0x85944171f73967e8U);
}

TEST(ShardSelector, EveryObjectIsInExactlyOnePart) {
  for (const uint32_t count : {1U, 2U, 3U, 7U, 16U}) {
    std::vector<ShardSelector> parts;
    for (uint32_t i = 0; i < count; ++i) {
      auto part = ShardSelector::Parse(ShardSelector::ForPart(i, count));
      ASSERT_TRUE(part.has_value()) << part.error().ToString();
      parts.push_back(*part);
    }
    for (int i = 0; i < 1000; ++i) {
      int matches = 0;
      for (const ShardSelector& part : parts)
        matches += part.Matches("x", "uid-" + std::to_string(i));
      EXPECT_EQ(matches, 1) << count;
    }
  }
  EXPECT_EQ(ShardSelector::ForPart(0, 2), kLow);
  EXPECT_EQ(ShardSelector::ForPart(1, 2), kHigh);
}

TEST(ShardSelector, JoinsRangesAndKnowsNamespaces) {
  const auto all = ShardSelector::Parse(std::string(kLow) + " || " + kHigh);
  ASSERT_TRUE(all.has_value());
  EXPECT_TRUE(all->Matches("x", "anything"));
  const auto by_namespace = ShardSelector::Parse(
      "shardRange(object.metadata.namespace,'0x0000000000000000','0x8000000000000000')");
  ASSERT_TRUE(by_namespace.has_value());
  EXPECT_EQ(by_namespace->Matches("x", "u1"), by_namespace->Matches("x", "u2"));
  EXPECT_EQ(by_namespace->Matches("x", ""), Fnv1a64("x") < 0x8000000000000000U);
  EXPECT_TRUE(ShardSelector::Parse("")->Empty());
}

TEST(ShardSelector, RefusesWhatIsWrong) {
  for (const char* text :
       {"x", "shardRange()", "shardRange(object.metadata.name,'0x0','0x8')",
        "shardRange(object.metadata.uid,'0x8','0x8')",
        "shardRange(object.metadata.uid,'0x8','0x0')",
        "shardRange(object.metadata.uid,'0x0','0xg')", "shardRange(object.metadata.uid,'0x0','0x8'",
        "shardRange(object.metadata.uid,'0x0','0x10000000000000001')",
        "shardRange(object.metadata.uid,'0x0','0x8') shardRange"}) {
    const auto selector = ShardSelector::Parse(text);
    ASSERT_FALSE(selector.has_value()) << text;
    EXPECT_EQ(selector.error().code, ErrorCode::kInvalidArgument);
  }
}

class ShardTest : public ReflectorTest {
 protected:
  ShardTest() {
    options.shard_selector = kLow;
    for (int i = 0; pods_in_.empty() || pods_out_.empty(); ++i) {
      const TestPod pod{.name = "p" + std::to_string(i), .version = "5"};
      (Fnv1a64(pod.Uid()) < 0x8000000000000000U ? pods_in_ : pods_out_).push_back(pod);
    }
  }
  std::vector<TestPod> pods_in_;
  std::vector<TestPod> pods_out_;
};

TEST_F(ShardTest, FiltersItselfWhereTheServerIgnoresShards) {
  TestPod in = pods_in_[0];
  TestPod out = pods_out_[0];
  server.Push(Answer::Json(PodListJson("9", {in, out})));
  in.version = "10";
  out.version = "11";
  server.Push(Answer::Watch({EventLine("MODIFIED", in), EventLine("MODIFIED", out)}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_EQ(QueryValue(server.FullRequests()[0], "shardSelector"), kLow);
  EXPECT_EQ(QueryValue(server.FullRequests()[1], "shardSelector"), kLow);
  // The other's event is not handed on, but it was heard: the next watch goes on behind it.
  EXPECT_THAT(Requests(), ElementsAre("L", "W 9", "W 11"));
  EXPECT_THAT(target.calls, ElementsAre("Start", "Begin first", "Item x/" + in.name + "@5", "End 9",
                                        "MODIFIED x/" + in.name + "@10"));
  EXPECT_EQ(reflector->Status().sharded_by_server, false);
}

// Of a quiet shard of a busy kind the version would grow old, and a restart would list.
TEST_F(ShardTest, ABookmarkBehindAnEventOfAnotherShardIsKept) {
  StoredAt("9");
  TestPod out = pods_out_[0];
  out.version = "11";
  server.Push(Answer::Watch({EventLine("MODIFIED", out), BookmarkLine("11"), BookmarkLine("11")}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(target.calls, ElementsAre("Start", "Bookmark 11"));
}

TEST_F(ShardTest, NotesAServerThatKnowsShards) {
  server.Push(Answer::Json(
      R"({"kind":"PodList","metadata":{"resourceVersion":"9","shardInfo":{"selector":"shardRange"}},"items":[]})"));
  Run();
  EXPECT_EQ(reflector->Status().sharded_by_server, true);
}

TEST_F(ShardTest, FiltersARelistToo) {
  StoredAt("10");
  server.Push(Answer::Status(410, "Expired"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {pods_in_[0], pods_out_[0]})));
  server.Push(Answer::Json(PodJson(pods_in_[0])));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "D 10", "G x/" + pods_in_[0].name + " 20"));
  EXPECT_EQ(target.objects.size(), 1U);
}

// What is left of the first one's life is in the watch: until then the list has named it.
TEST_F(ShardTest, AnObjectThatIsMadeAnewInAnotherShardIsTakenAsTheListSawIt) {
  StoredAt("10");
  TestPod anew = pods_in_[0];
  anew.uid = pods_out_[0].Uid();
  anew.version = "26";
  server.Push(Answer::Status(410, "Expired"));
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {pods_in_[0]})));
  server.Push(Answer::Json(PodJson(anew)));
  server.Push(Answer::Json(PodListJson("20", {pods_in_[0]})));
  server.Push(Answer::Watch({}));
  Run();
  const std::string key = "x/" + anew.name;
  EXPECT_THAT(Requests(),
              ElementsAre("W 10", "D 10", "G " + key + " 20", "E " + key + " 20", "W 20"));
  ASSERT_TRUE(target.objects.contains(key));
  EXPECT_EQ(target.objects.at(key).uid, pods_in_[0].Uid());
}

}  // namespace
}  // namespace larder
