#include "apiserver/state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/clock.h"

namespace larder::apiserver {
namespace {

class StateTest : public testing::Test {
 protected:
  StateTest() : state_({RealClock(), 1000, 500}) {
    namespaces_ = state_.AddTable("namespaces", R"({"kind":"Namespace","apiVersion":"v1",)", false);
    table_ = state_.AddTable("things", R"({"kind":"Thing","apiVersion":"v1",)", true);
    for (const char* ns : {"a", "a-b", "b"}) Put(*namespaces_, ns, State::kAbsent, 0);
  }

  static PreparedBody Body(const std::string& key, int value) {
    return PrepareBody({{"metadata", {{"name", key}}}, {"value", value}});
  }
  StoredPtr Put(Table& table, const std::string& key, uint64_t expected, int value) {
    StoredPtr stored;
    state_.Put(table, key, "uid-" + key, expected, Body(key, value), &stored);
    return stored;
  }

  State state_;
  TablePtr namespaces_;
  TablePtr table_;
};

TEST_F(StateTest, OneVersionCountsAllTables) {
  const uint64_t before = state_.Version();
  EXPECT_EQ(Put(*table_, "a/x", State::kAbsent, 1)->version, before + 1);
  EXPECT_EQ(Put(*namespaces_, "c", State::kAbsent, 1)->version, before + 2);
  EXPECT_EQ(Put(*table_, "a/y", State::kAbsent, 1)->version, before + 3);
}

TEST_F(StateTest, WritesOnlyAtTheExpectedVersion) {
  const StoredPtr first = Put(*table_, "a/x", State::kAbsent, 1);
  ASSERT_TRUE(first);
  EXPECT_FALSE(Put(*table_, "a/x", State::kAbsent, 2));
  EXPECT_FALSE(Put(*table_, "a/x", first->version - 1, 2));
  EXPECT_TRUE(Put(*table_, "a/x", first->version, 2));
  EXPECT_EQ(state_.Remove(*table_, "a/x", first->version, nullptr, nullptr),
            State::Outcome::kMismatch);
  StoredPtr stored;
  EXPECT_EQ(state_.Put(*table_, "nowhere/x", "u", State::kAbsent, Body("x", 1), &stored),
            State::Outcome::kNoNamespace);
  state_.SetTerminating("b");
  EXPECT_EQ(state_.Put(*table_, "b/x", "u", State::kAbsent, Body("x", 1), &stored),
            State::Outcome::kNamespaceTerminating);
}

TEST_F(StateTest, ATableThatIsRemovedTakesNoWrite) {
  const StoredPtr stored = Put(*table_, "a/x", State::kAbsent, 1);
  state_.RemoveTable("things");
  EXPECT_EQ(state_.Put(*table_, "a/y", "u", State::kAbsent, Body("y", 1), nullptr),
            State::Outcome::kNoTable);
  EXPECT_EQ(state_.Put(*table_, "a/x", "u", stored->version, Body("x", 2), nullptr),
            State::Outcome::kNoTable);
  EXPECT_EQ(state_.Remove(*table_, "a/x", stored->version, nullptr, nullptr),
            State::Outcome::kNoTable);
}

TEST_F(StateTest, RenderedTextHasTheVersionInItsPlace) {
  const StoredPtr stored = Put(*table_, "a/x", State::kAbsent, 7);
  const StoredBody::Rendered rendered = stored->Render();
  EXPECT_EQ(rendered.text, R"({"metadata":{"name":"a/x","resourceVersion":")" +
                               std::to_string(stored->version) + R"("},"value":7})");
  EXPECT_EQ(rendered.Metadata(),
            R"({"name":"a/x","resourceVersion":")" + std::to_string(stored->version) + R"("})");
}

// Large alike bodies are compressed with a dictionary after a while; nobody must notice.
TEST_F(StateTest, BodiesSurviveTheSwitchToCompression) {
  std::vector<std::pair<StoredPtr, std::string>> all;
  for (int i = 0; i < 200; ++i) {
    const Json json = {{"metadata", {{"name", std::to_string(i)}, {"resourceVersion", ""}}},
                       {"text", std::string(2000, 'x') + std::to_string(i * 7919)}};
    StoredPtr stored;
    state_.Put(*table_, "a/" + std::to_string(i), "u", State::kAbsent, PrepareBody(json), &stored);
    Json expected = json;
    expected["metadata"]["resourceVersion"] = std::to_string(stored->version);
    all.emplace_back(stored, expected.dump());
  }
  for (const auto& [stored, text] : all) EXPECT_EQ(stored->Render().text, text);
  EXPECT_LT(all.back().first->body.MemoryBytes(), 600U);
}

// Random writes, then every version is read back and compared with a model that kept them all.
TEST_F(StateTest, ScanShowsEveryVersionOfTheWindow) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::map<std::string, uint64_t> now;
  std::map<uint64_t, std::map<std::string, uint64_t>> model;
  model[state_.Version()] = now;
  const uint64_t first = state_.Version();
  const char* const namespaces[] = {"a", "a-b", "b"};
  for (int i = 0; i < 400; ++i) {
    const std::string key =
        std::string(namespaces[random() % 3]) + "/" + std::to_string(random() % 12);
    const auto found = now.find(key);
    if (found != now.end() && random() % 3 == 0) {
      ASSERT_EQ(state_.Remove(*table_, key, found->second, nullptr, nullptr),
                State::Outcome::kDone);
      now.erase(found);
    } else {
      now[key] = Put(*table_, key, found == now.end() ? State::kAbsent : found->second, i)->version;
    }
    model[state_.Version()] = now;
  }
  for (const auto& [version, expected] : model) {
    std::map<std::string, uint64_t> got;
    std::string from;
    bool more = true;
    while (more) {
      const State::ScanResult page = state_.Scan(*table_, version, "", from, 1 + random() % 9);
      ASSERT_FALSE(page.expired);
      for (const StoredPtr& object : page.objects) {
        EXPECT_GT(object->identity->key, from);
        from = object->identity->key;
        got[from] = object->version;
      }
      from += '\0';
      more = page.more;
    }
    EXPECT_EQ(got, expected) << "at " << version;
    const State::ScanResult only = state_.Scan(*table_, version, "a/", "", SIZE_MAX);
    for (const StoredPtr& object : only.objects) EXPECT_EQ(object->Namespace(), "a");
  }
  state_.ExpireHistory(table_.get());
  EXPECT_TRUE(state_.Scan(*table_, first, "", "", 1).expired);
}

}  // namespace
}  // namespace larder::apiserver
