#include "queue/node_table.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace larder::internal {
namespace {

std::string RandomItem(std::mt19937_64& random) {
  // Few names, so that they come again; now and then one as large as items may be.
  const uint64_t number = random() % 5000;
  const size_t bytes = number % 100 == 0 ? number * 6 : number % 40;
  return std::to_string(number) + std::string(bytes, 'x');
}

TEST(NodeTableTest, EqualsAMapThroughInsertsAndErases) {
  const uint64_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 random(seed);
  NodeTable table;
  std::map<std::string, QueueNode*> model;
  for (int phase = 0; phase < 8; ++phase) {
    // Grows and shrinks in turn, and is empty at times.
    const bool growing = phase % 2 == 0;
    for (int i = 0; i < 8000; ++i) {
      const std::string item = RandomItem(random);
      QueueNode* node = table.Find(item, HashItem(item));
      const auto known = model.find(item);
      ASSERT_EQ(node, known == model.end() ? nullptr : known->second) << item.substr(0, 8);
      if (node == nullptr && growing) {
        node = table.Insert(item, HashItem(item));
        ASSERT_EQ(node->item(), item);
        model[item] = node;
      } else if (node != nullptr && !growing) {
        table.Erase(node);
        model.erase(known);
      }
      ASSERT_EQ(table.size(), model.size());
    }
    size_t visited = 0;
    table.ForEach([&](const QueueNode& node) {
      ASSERT_EQ(model.at(std::string(node.item())), &node);
      ++visited;
    });
    ASSERT_EQ(visited, model.size());
    if (phase != 3) continue;
    while (!model.empty()) {
      table.Erase(model.begin()->second);
      model.erase(model.begin());
    }
  }
}

TEST(NodeTableTest, ItemsWithOneHashStayApart) {
  NodeTable table;
  std::vector<QueueNode*> nodes;
  for (int i = 0; i < 100; ++i) nodes.push_back(table.Insert(std::to_string(i), 7));
  for (int i = 0; i < 100; i += 2) table.Erase(nodes[static_cast<size_t>(i)]);
  for (int i = 0; i < 100; ++i) {
    QueueNode* expected = i % 2 == 0 ? nullptr : nodes[static_cast<size_t>(i)];
    EXPECT_EQ(table.Find(std::to_string(i), 7), expected);
  }
}

TEST(NodeTableTest, MemoryIsReusedForItemsOfOneSize) {
  NodeTable table;
  QueueNode* first = table.Insert("default/a", HashItem("default/a"));
  static_cast<void>(table.Insert("default/keep", HashItem("default/keep")));
  table.Erase(first);
  EXPECT_EQ(table.Insert("default/b", HashItem("default/b")), first);
}

}  // namespace
}  // namespace larder::internal
