#include "indexer/hot_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace larder {
namespace {

ObjectPtr Pod(const std::string& name) {
  return *Object::Parse(fmt::format(R"({{"metadata":{{"name":"{}","namespace":"x"}}}})", name),
                        {"v1", "Pod"});
}

// Names are few and entries come and go, so that slots are found taken, left and taken again.
TEST(HotTable, HoldsWhatAMapHolds) {
  constexpr uint32_t kSeed = 20261117;
  std::mt19937 random(kSeed);
  HotTable table;
  std::map<std::pair<CollectionId, std::string>, ObjectPtr> model;
  for (int step = 0; step < 50'000; ++step) {
    const auto collection = static_cast<CollectionId>(1 + random() % 3);
    const std::string text = fmt::format("pod-{}", random() % 300);
    const HotName name(collection, "x", text);
    HotEntry* found = table.Find(name);
    const auto expected = model.find({collection, text});
    ASSERT_EQ(found != nullptr, expected != model.end()) << "step " << step << ", seed " << kSeed;
    if (found == nullptr) {
      const ObjectPtr pod = Pod(text);
      table.Insert(name, {.object = pod});
      model.emplace(std::pair(collection, text), pod);
    } else {
      ASSERT_EQ(found->object, expected->second);
      ASSERT_EQ(found->collection, collection);
      if (random() % 2 == 0) {
        (void)table.Erase(found);
        model.erase(expected);
      }
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

TEST(HotTable, TellsNamespaceAndNameApart) {
  HotTable table;
  table.Insert(HotName(1, "ab", "c"), {.object = Pod("c")});
  EXPECT_EQ(table.Find(HotName(1, "a", "bc")), nullptr);
  EXPECT_EQ(table.Find(HotName(2, "ab", "c")), nullptr);
  EXPECT_NE(table.Find(HotName(1, "ab", "c")), nullptr);
}

TEST(HotTable, TheHandComesAroundAndComesToANewcomerLast) {
  HotTable table;
  EXPECT_EQ(table.hand(), nullptr);
  for (const char* name : {"a", "b", "c"}) {
    table.Insert(HotName(1, "", name), {.object = Pod(name)});
  }
  table.MoveHand();  // on b
  table.Insert(HotName(1, "", "d"), {.object = Pod("d")});
  std::string round;
  for (int i = 0; i < 4; ++i, table.MoveHand()) round += table.hand()->object->name();
  EXPECT_EQ(round, "bcad");
  // One that it stands on goes: it moves on.
  (void)table.Erase(table.hand());
  EXPECT_EQ(table.hand()->object->name(), "c");
  while (table.hand() != nullptr) (void)table.Erase(table.hand());
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace larder
