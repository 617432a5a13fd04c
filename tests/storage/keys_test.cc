#include "storage/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/storage/support.h"

namespace larder {
namespace {

std::string RandomBytes(std::mt19937_64& random, size_t most) {
  std::string out(random() % (most + 1), '\0');
  for (char& c : out) {
    // Often what has a meaning in a key.
    c = random() % 3 == 0 ? "/%\0\n\x7f"[random() % 5] : static_cast<char>(random());
  }
  return out;
}

TEST(Keys, AreReadableText) {
  EXPECT_EQ(keys::Object(7, {"default", "web-0"}), "7/default/web-0");
  EXPECT_EQ(keys::Object(7, {"", "node-1"}), "7//node-1");
  EXPECT_EQ(keys::Index(7, 2, "a/b", {"default", "web-0"}), "7/2/a%2Fb/default/web-0");
  EXPECT_EQ(keys::QueueItem("deploys", "default/web", 0x1a),
            "deploys/default%2Fweb/000000000000001A");
}

TEST(Keys, EveryTextSurvivesEscaping) {
  std::mt19937_64 random(testing::Seed());
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = RandomBytes(random, 12);
    const std::string escaped = keys::EscapePart(text);
    EXPECT_EQ(escaped.find('/'), std::string::npos);
    ASSERT_EQ(testing::Must(keys::UnescapePart(escaped)), text);
  }
}

TEST(Keys, RefuseBrokenEscapes) {
  for (const char* text : {"%", "%2", "%2f", "%G0", "a%2"}) {
    EXPECT_FALSE(keys::UnescapePart(text)) << text;
  }
}

TEST(Keys, ReadBackWhatWasWritten) {
  std::mt19937_64 random(testing::Seed());
  for (int i = 0; i < 10'000; ++i) {
    const ObjectKey key{random() % 2 ? "" : "ns" + std::to_string(random() % 99),
                        "name-" + std::to_string(random())};
    const auto collection = static_cast<CollectionId>(random());
    const auto index = static_cast<IndexId>(random());
    const std::string value = RandomBytes(random, 12);
    EXPECT_EQ(testing::Must(keys::ParseObject(keys::Object(collection, key))), key);
    const IndexEntry entry =
        testing::Must(keys::ParseIndex(keys::Index(collection, index, value, key)));
    EXPECT_EQ(entry.key, key);
    ASSERT_EQ(entry.value, value);
    EXPECT_EQ(testing::Must(keys::ParseDelta(keys::Delta(collection, value, key))), key);
    const auto item = testing::Must(keys::ParseQueueItem(keys::QueueItem(value, value, random())));
    ASSERT_EQ(item.item, value);
    ASSERT_EQ(item.queue, value);
  }
}

TEST(Keys, RefuseWhatIsNotAKey) {
  for (const char* key :
       {"", "7", "7/", "7/a", "7/a/", "x/a/b", "7/a/b/c", "/a/b", "99999999999/a/b"}) {
    EXPECT_EQ(testing::CodeOf(keys::ParseObject(key)), ErrorCode::kCorruption) << key;
  }
  for (const char* key : {"7/2/v/ns", "7/2/v/ns/", "7/x/v/ns/n", "7/2/v/ns/n/m", "7/2/%2/ns/n"}) {
    EXPECT_FALSE(keys::ParseIndex(key)) << key;
  }
  for (const char* key : {"q/i/0", "q/i/000000000000001a", "q/i/00000000000000001A", "q"}) {
    EXPECT_FALSE(keys::ParseQueueItem(key)) << key;
  }
}

// The property that all range scans rest on: what has a prefix lies between it and its end, nothing
// else does.
TEST(Keys, APrefixIsOneRange) {
  std::mt19937_64 random(testing::Seed());
  std::map<std::string, std::tuple<CollectionId, IndexId, std::string>> rows;
  for (int i = 0; i < 1000; ++i) {
    const CollectionId collection = static_cast<CollectionId>(random() % 12 + 1);
    const IndexId index = static_cast<IndexId>(random() % 12 + 1);
    const std::string value = RandomBytes(random, 3);
    rows[keys::Index(collection, index, value, {"n" + std::to_string(random() % 3), "x"})] = {
        collection, index, value};
  }
  for (const auto& [key, parts] : rows) {
    const auto& [collection, index, value] = parts;
    const std::string prefix = keys::IndexValuePrefix(collection, index, value);
    const std::string end = keys::PrefixEnd(prefix);
    for (const auto& [other, other_parts] : rows) {
      ASSERT_EQ(prefix <= other && other < end, other_parts == parts) << key << " " << other;
    }
  }
}

TEST(Keys, AQueueIsOneRangeAndGenerationsAreInOrder) {
  EXPECT_LT(keys::QueueItem("q", "a", 9), keys::QueueItem("q", "a", 10));
  EXPECT_LT(keys::QueueItem("q", "a", 0xff), keys::QueueItem("q", "a", 0x100));
  EXPECT_GE(keys::QueueItem("q1", "a", 1), keys::PrefixEnd(keys::QueuePrefix("q")));
  EXPECT_LT(keys::QueueItem("q-1", "a", 1), keys::QueuePrefix("q"));
}

}  // namespace
}  // namespace larder
