// The splitters: lines, frames, JSON lists, protobuf lists, each at every split of its input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "reflector/frame_splitter.h"
#include "reflector/line_splitter.h"
#include "reflector/list_splitter.h"
#include "reflector/proto_list_splitter.h"
#include "tests/reflector/wire_text.h"

namespace larder {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kMax = 1 << 20;

std::vector<std::string> Cut(const std::string& text, const std::vector<size_t>& cuts) {
  std::vector<std::string> pieces;
  size_t from = 0;
  for (const size_t cut : cuts) {
    pieces.push_back(text.substr(from, cut - from));
    from = cut;
  }
  pieces.push_back(text.substr(from));
  return pieces;
}

std::vector<size_t> RandomCuts(size_t size, std::mt19937_64& random) {
  std::vector<size_t> cuts;
  for (size_t n = random() % 12; n > 0; --n) cuts.push_back(random() % (size + 1));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

Result<std::vector<std::string>> Lines(const std::vector<std::string>& pieces, size_t max = kMax) {
  LineSplitter splitter(max);
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    splitter.Feed(piece);
    for (;;) {
      LARDER_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, splitter.Next());
      if (!line) break;
      lines.emplace_back(*line);
    }
  }
  if (splitter.InLine()) lines.emplace_back("(unfinished)");
  return lines;
}

Result<std::vector<std::string>> Frames(const std::vector<std::string>& pieces, size_t max = kMax) {
  FrameSplitter splitter(max);
  std::vector<std::string> frames;
  for (const std::string& piece : pieces) {
    splitter.Feed(piece);
    for (;;) {
      LARDER_ASSIGN_OR_RETURN(const std::optional<std::string_view> frame, splitter.Next());
      if (!frame) break;
      frames.emplace_back(*frame);
    }
  }
  if (splitter.InFrame()) frames.emplace_back("(unfinished)");
  return frames;
}

struct Split {
  std::vector<std::string> items;
  ListHead head;
};

Result<Split> SplitJson(const std::vector<std::string>& pieces, size_t max = kMax) {
  ListSplitter splitter(max, 1000);
  Split split;
  for (const std::string& piece : pieces) {
    splitter.Feed(piece);
    for (;;) {
      LARDER_ASSIGN_OR_RETURN(const ListSplitter::Step step, splitter.Next());
      if (step != ListSplitter::Step::kItem) break;
      split.items.emplace_back(splitter.item());
    }
  }
  LARDER_RETURN_IF_ERROR(splitter.Finish());
  split.head = splitter.head();
  return split;
}

Result<Split> SplitProto(const std::vector<std::string>& pieces, size_t max = kMax) {
  ProtoListSplitter splitter(max);
  Split split;
  for (const std::string& piece : pieces) {
    splitter.Feed(piece);
    for (;;) {
      LARDER_ASSIGN_OR_RETURN(const ListSplitter::Step step, splitter.Next());
      if (step != ListSplitter::Step::kItem) break;
      LARDER_ASSIGN_OR_RETURN(const ItemHead item, ParseItemHead(splitter.item()));
      split.items.push_back(
          fmt::format("{}/{} {} {}", item.ns, item.name, item.uid, item.resource_version));
    }
  }
  LARDER_RETURN_IF_ERROR(splitter.Finish());
  split.head = splitter.head();
  return split;
}

TEST(LineSplitter, FindsTheLinesAtEverySplit) {
  const std::string text = "one\n\ntwo\r\n\r\nthree\nfo";
  for (size_t a = 0; a <= text.size(); ++a) {
    for (size_t b = a; b <= text.size(); ++b) {
      const auto lines = Lines(Cut(text, {a, b}));
      ASSERT_TRUE(lines.has_value());
      EXPECT_THAT(*lines, ElementsAre("one", "two", "three", "(unfinished)")) << a << "," << b;
    }
  }
}

TEST(LineSplitter, RefusesALineThatNeverEnds) {
  EXPECT_TRUE(Lines({"12345", "67890\n"}, 10).has_value());
  EXPECT_EQ(Lines({"12345", "678901"}, 10).error().code, ErrorCode::kProtocol);
  EXPECT_EQ(Lines({"12345678901\n"}, 10).error().code, ErrorCode::kProtocol);
}

TEST(FrameSplitter, FindsTheFramesAtEverySplit) {
  const std::string bytes = WithLength("one") + WithLength("t") + WithLength("three") + "\1";
  for (size_t a = 0; a <= bytes.size(); ++a) {
    for (size_t b = a; b <= bytes.size(); ++b) {
      const auto frames = Frames(Cut(bytes, {a, b}));
      ASSERT_TRUE(frames.has_value());
      EXPECT_THAT(*frames, ElementsAre("one", "t", "three", "(unfinished)")) << a << "," << b;
    }
  }
}

TEST(FrameSplitter, IsUnfinishedAtEveryPrefix) {
  const std::string bytes = WithLength("one");
  EXPECT_THAT(*Frames({""}), ElementsAre());
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_THAT(*Frames({bytes.substr(0, size)}), ElementsAre("(unfinished)")) << size;
  }
}

TEST(FrameSplitter, RefusesALengthThatIsTooLargeBeforeAnythingOfItArrived) {
  EXPECT_TRUE(Frames({WithLength("1234567890")}, 10).has_value());
  EXPECT_EQ(Frames({WithLength("12345678901").substr(0, 4)}, 10).error().code,
            ErrorCode::kProtocol);
  EXPECT_EQ(Frames({"\xff\xff\xff\xff"}).error().code, ErrorCode::kProtocol);
}

TEST(FrameSplitter, RefusesAnEventOfNoBytes) {
  EXPECT_EQ(Frames({std::string(4, '\0')}).error().code, ErrorCode::kProtocol);
}

const std::vector<TestPod> kPods = {
    {.name = "a", .version = "5", .extra = R"(,"spec":{"q":"}\\\"]","l":[[1],{}]})"},
    {.name = "b", .version = "6"}};

TEST(ListSplitter, FindsTheItemsAtEverySplit) {
  const std::string text = PodListJson("9", kPods, "next");
  for (size_t split = 0; split <= text.size(); ++split) {
    const auto list = SplitJson(Cut(text, {split}));
    ASSERT_TRUE(list.has_value()) << split << ": " << list.error().ToString();
    EXPECT_THAT(list->items, ElementsAre(PodJson(kPods[0]), PodJson(kPods[1]))) << split;
    EXPECT_EQ(list->head.resource_version, "9");
    EXPECT_EQ(list->head.continue_token, "next");
    EXPECT_EQ(list->head.ItemType({}).kind, "Pod");
    EXPECT_EQ(list->head.ItemType({}).api_version, "v1");
  }
}

TEST(ListSplitter, TakesMetadataBehindTheItemsAndSpacesAndUnknownKeys) {
  const auto list = SplitJson(
      {R"( { "x" : [ {"items":[1]} ] , "n" : -1.5e3 , "t" : true,"items" : [ {"a":1} , {} ] ,
      "metadata" : {"resourceVersion":"7","shardInfo":{"selector":"s"}}, "kind":"PodList" } )"});
  ASSERT_TRUE(list.has_value()) << list.error().ToString();
  EXPECT_THAT(list->items, ElementsAre(R"({"a":1})", "{}"));
  EXPECT_EQ(list->head.resource_version, "7");
  EXPECT_EQ(list->head.shard_selector, "s");
}

TEST(ListSplitter, TakesNullForNoItems) {
  const auto list = SplitJson({R"({"items":null,"metadata":{"resourceVersion":"7"}})"});
  ASSERT_TRUE(list.has_value());
  EXPECT_TRUE(list->items.empty());
}

TEST(ListSplitter, RefusesWhatIsNotAWholeList) {
  for (const char* text : {"",
                           "{",
                           "{}",
                           "[]",
                           "<html>",
                           R"({"items":[{}]} x)",
                           R"({"items":[{}],})",
                           R"({"items":[{},]})",
                           R"({"items":[1]})",
                           R"({"items":[{}{}]})",
                           R"({"items":{}})",
                           R"({"items":true})",
                           R"({"items":[],"items":[]})",
                           R"({"kind":"Status","items":[]})",
                           R"({"kind":5,"items":[]})",
                           R"({"metadata":[],"items":[]})",
                           R"({"items":[],"metadata":{"a"}})",
                           R"({"items":[{})",
                           R"({"items" []})",
                           R"({items:[]})"}) {
    const auto list = SplitJson({text});
    ASSERT_FALSE(list.has_value()) << text;
    EXPECT_EQ(list.error().code, ErrorCode::kProtocol) << text;
  }
}

TEST(ListSplitter, IsCutOffAtEveryPrefix) {
  const std::string text = PodListJson("9", kPods);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(SplitJson({text.substr(0, size)}).has_value()) << size;
  }
}

TEST(ListSplitter, RefusesItemsThatAreTooLargeOrTooDeep) {
  const std::string item = R"({"a":")" + std::string(100, 'x') + R"("})";
  const std::string text = R"({"items":[)" + item + "]}";
  EXPECT_TRUE(SplitJson({text}, item.size()).has_value());
  EXPECT_FALSE(SplitJson({text}, item.size() - 1).has_value());
  EXPECT_FALSE(SplitJson(Cut(text, {50, 90}), item.size() - 1).has_value());
  EXPECT_THAT(SplitJson({R"({"items":[{"a":)" + std::string(100'000, '[')}).error().message,
              HasSubstr("deep"));
  EXPECT_THAT(SplitJson({R"({"metadata":{"a":)" + std::string(100'000, '[')}).error().message,
              HasSubstr("deep"));
}

TEST(ProtoListSplitter, FindsTheItemsAtEverySplit) {
  const std::string bytes = MetadataListProtobuf("9", kPods);
  for (size_t split = 0; split <= bytes.size(); ++split) {
    const auto list = SplitProto(Cut(bytes, {split}));
    ASSERT_TRUE(list.has_value()) << split << ": " << list.error().ToString();
    EXPECT_THAT(list->items, ElementsAre("x/a uid-a 5", "x/b uid-b 6")) << split;
    EXPECT_EQ(list->head.resource_version, "9");
    EXPECT_EQ(list->head.kind, "PartialObjectMetadataList");
  }
}

TEST(ProtoListSplitter, IsCutOffInsideTheList) {
  const std::string bytes = MetadataListProtobuf("9", kPods);
  // What follows the list itself (content encoding and type, two empty fields) may be missing.
  for (size_t size = 0; size < bytes.size() - 4; ++size) {
    EXPECT_FALSE(SplitProto({bytes.substr(0, size)}).has_value()) << size;
  }
}

TEST(ProtoListSplitter, RefusesFieldsThatOverrunAndItemsThatAreTooLarge) {
  const std::string bytes = MetadataListProtobuf("9", kPods);
  EXPECT_FALSE(SplitProto({bytes}, 10).has_value());
  EXPECT_FALSE(SplitProto({"k8t" + bytes.substr(3)}).has_value());
  for (size_t i = 4; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(0xff);
    (void)SplitProto({damaged});  // any outcome but a crash or an overrun
  }
}

TEST(Splitters, DoNotDependOnTheSplit) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<TestPod> pods;
    for (size_t n = random() % 6; n > 0; --n) {
      std::string text;
      for (size_t length = random() % 200; length > 0; --length) {
        text += std::array{"\\\\", "\\\"", "{", "}", "[", "]", "a", ",", "\\n"}[random() % 9];
      }
      pods.push_back(
          {.name = "p" + std::to_string(n), .version = "5", .extra = ",\"s\":\"" + text + "\""});
    }
    const std::string json = PodListJson("9", pods);
    const auto list = SplitJson(Cut(json, RandomCuts(json.size(), random)));
    ASSERT_TRUE(list.has_value()) << json;
    ASSERT_EQ(list->items.size(), pods.size());
    for (size_t i = 0; i < pods.size(); ++i) ASSERT_EQ(list->items[i], PodJson(pods[i]));

    const std::string proto = MetadataListProtobuf("9", pods);
    const auto heads = SplitProto(Cut(proto, RandomCuts(proto.size(), random)));
    ASSERT_TRUE(heads.has_value());
    ASSERT_EQ(heads->items.size(), pods.size());

    std::string stream;
    for (const TestPod& pod : pods) stream += EventLine("ADDED", pod) + "\n";
    const auto lines = Lines(Cut(stream, RandomCuts(stream.size(), random)));
    ASSERT_EQ(lines->size(), pods.size());
    for (size_t i = 0; i < pods.size(); ++i) ASSERT_EQ((*lines)[i], EventLine("ADDED", pods[i]));

    std::string framed;
    for (const TestPod& pod : pods) framed += EventFrame("ADDED", pod);
    const auto frames = Frames(Cut(framed, RandomCuts(framed.size(), random)));
    ASSERT_EQ(frames->size(), pods.size());
    for (size_t i = 0; i < pods.size(); ++i) {
      ASSERT_EQ(WithLength((*frames)[i]), EventFrame("ADDED", pods[i]));
    }
  }
}

}  // namespace
}  // namespace larder
