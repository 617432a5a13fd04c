// A store that is followed, and the window of its changes, without a server around them.
#include "tools/follower.h"

#include <gtest/gtest.h>

#include <set>

#include "storage/maintenance.h"
#include "tests/tools/process.h"
#include "tests/tools/served_store.h"
#include "tools/serve/watch_hub.h"

namespace larder::tools {
namespace {

using SteadyClock = std::chrono::steady_clock;

class FollowerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StoreArguments arguments;
    arguments.path = scratch_ / "store";
    auto opened = Store::Open({.path = arguments.path});
    ASSERT_TRUE(opened) << opened.error().ToString();
    owner_ = *std::move(opened);
    for (auto* written : {&pods_, &nodes_, &services_}) {
      *written = std::make_unique<Written>(owner_.get(), written == &pods_    ? "pods"
                                                         : written == &nodes_ ? "nodes"
                                                                              : "services");
      (*written)->BeginList();
      (*written)->EndList("10");
    }
    auto follower = StoreFollower::Open(arguments);
    ASSERT_TRUE(follower) << follower.error().ToString();
    follower_ = *std::move(follower);
  }

  std::vector<FollowedTurn> Advance(const StoreFollower::Limits& limits = {}) {
    std::vector<FollowedTurn> turns;
    const auto moved =
        follower_->Advance(limits, [&](FollowedTurn turn) { turns.push_back(std::move(turn)); });
    EXPECT_TRUE(moved) << moved.error().ToString();
    return turns;
  }

  ScratchDirectory scratch_;
  std::unique_ptr<Store> owner_;
  std::unique_ptr<Written> pods_, nodes_, services_;
  std::unique_ptr<StoreFollower> follower_;
};

TEST_F(FollowerTest, AListIsABreakAlsoWhereOnlyAnotherCollectionMoves) {
  pods_->BeginList();
  auto turns = Advance();
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_TRUE(turns[0].broken);
  pods_->Commit({{"a/one", "20"}});
  EXPECT_TRUE(Advance().empty());
  nodes_->Commit({{"n1", "21"}}, "21");
  turns = Advance();
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].collection.id, nodes_->id());
  EXPECT_FALSE(turns[0].broken);
  pods_->EndList("30");
  turns = Advance();
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_TRUE(turns[0].broken);
  EXPECT_TRUE(turns[0].changes.empty());
  pods_->Commit({{"a/two", "31"}}, "31");
  turns = Advance();
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_FALSE(turns[0].broken);
  EXPECT_EQ(turns[0].changes.size(), 1u);
}

TEST_F(FollowerTest, AListWithinOneTurnIsABreak) {
  pods_->BeginList();
  pods_->Commit({{"a/one", "20"}});
  pods_->EndList("30");
  const auto turns = Advance();
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_TRUE(turns[0].broken);
}

TEST_F(FollowerTest, AnImportWithinOneTurnIsABreak) {
  const CollectionId id = pods_->id();
  pods_->Commit({{"a/one", "20"}}, "20");
  EXPECT_EQ(Advance().size(), 1u);
  pods_.reset();
  nodes_.reset();
  services_.reset();
  owner_.reset();
  const std::string store = scratch_ / "store", file = scratch_ / "pods.jsonl";
  ASSERT_EQ(RunLarder({"export", "pods", "--store", store, "--file", file}).exit_code, 0);
  for (int times = 0; times < 2; ++times) {
    const Outcome imported = RunLarder({"import", "--store", store, "--file", file});
    ASSERT_EQ(imported.exit_code, 0) << imported.err;
    const auto turns = Advance();
    ASSERT_EQ(turns.size(), 1u);
    EXPECT_EQ(turns[0].collection.id, id);
    EXPECT_TRUE(turns[0].broken);
  }
}

TEST_F(FollowerTest, AStoreThatWasPutBackIsABreak) {
  const StoreOptions options{.path = scratch_ / "store"};
  ASSERT_TRUE(CreateSnapshot(*owner_, "s"));
  pods_->Commit({{"a/one", "20"}}, "20");
  EXPECT_EQ(Advance().size(), 1u);
  const CollectionId id = pods_->id();
  pods_.reset();
  nodes_.reset();
  services_.reset();
  owner_.reset();
  ASSERT_TRUE(RestoreSnapshot(options, "s"));
  const auto turns = Advance();
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].collection.id, id);
  EXPECT_EQ(turns[0].collection.cursor.resource_version, "10");
  EXPECT_TRUE(turns[0].broken);
  EXPECT_TRUE(turns[0].changes.empty());
}

TEST_F(FollowerTest, BreaksAreComparedInPiecesWhereThatIsWanted) {
  pods_->BeginList();
  for (int i = 0; i < 5; ++i) pods_->Commit({{"a/" + std::to_string(i), "20"}});
  nodes_->Commit({{"n1", "21"}}, "21");
  std::set<std::string> names;
  for (const FollowedTurn& turn : Advance({.changes = 2, .compare_breaks = true})) {
    EXPECT_LE(turn.changes.size(), 2u);
    for (const FollowedChange& change : turn.changes) names.emplace(change.now->name());
  }
  EXPECT_EQ(names, (std::set<std::string>{"0", "1", "2", "3", "4", "n1"}));
  // Under a cursor that stands still.
  pods_->Commit({{"a/5", "20"}});
  EXPECT_EQ(Advance({.compare_breaks = true}).size(), 1u);
  EXPECT_TRUE(Advance({.compare_breaks = true}).empty());
}

TEST_F(FollowerTest, MoreChangesThanMayBeHeldAreABreak) {
  pods_->Commit({{"a/one", "20"}, {"a/two", "21"}, {"a/three", "22"}}, "22");
  auto turns = Advance({.changes = 2});
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_TRUE(turns[0].broken);
  EXPECT_TRUE(turns[0].changes.empty());
  pods_->Commit({{"a/one", "30", 100'000}, {"a/two", "31", 100'000}}, "31");
  turns = Advance({.bytes = 50'000});
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_TRUE(turns[0].broken);
  EXPECT_TRUE(turns[0].changes.empty());
}

TEST_F(FollowerTest, ACollectionThatCannotBeReadStopsNoOther) {
  WriteKey(scratch_ / "key");
  StoreArguments arguments;
  arguments.path = scratch_ / "locked";
  const auto owner = Store::Open({.path = arguments.path, .encryption_key_file = scratch_ / "key"});
  ASSERT_TRUE(owner) << owner.error().ToString();
  Written secrets(owner->get(), "secrets"), pods(owner->get(), "pods");
  for (Written* written : {&secrets, &pods}) {
    written->BeginList();
    written->EndList("10");
  }
  auto keyless = StoreFollower::Open(arguments);
  ASSERT_TRUE(keyless) << keyless.error().ToString();
  follower_ = *std::move(keyless);
  const auto expect_unread = [&](const std::vector<FollowedTurn>& turns) {
    ASSERT_EQ(turns.size(), 2u);
    EXPECT_EQ(turns[0].collection.id, secrets.id());
    EXPECT_TRUE(turns[0].broken);
    EXPECT_TRUE(turns[0].problem && turns[0].problem->code == ErrorCode::kForbidden);
    EXPECT_EQ(turns[1].collection.id, pods.id());
    EXPECT_FALSE(turns[1].broken);
    EXPECT_EQ(turns[1].changes.size(), 1u);
  };
  secrets.Commit({{"a/key", "20"}}, "20");
  pods.Commit({{"a/one", "21"}}, "21");
  expect_unread(Advance());
  EXPECT_TRUE(Advance().empty());
  // What a list changed is read when all have moved on.
  secrets.BeginList();
  secrets.Commit({{"a/key", "30"}});
  pods.Commit({{"a/two", "31"}}, "31");
  expect_unread(Advance({.compare_breaks = true}));
  // And nobody reads what nobody asked for.
  secrets.EndList("40");
  pods.Commit({{"a/three", "41"}}, "41");
  const auto turns = Advance({.compare_breaks = true, .resources = {"pods"}});
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].changes.size(), 1u);
}

class WatchHubTest : public FollowerTest {
 protected:
  void Start(WatchHub::Options options = {}) {
    options.interval = std::chrono::milliseconds(5);
    hub_ = std::make_unique<WatchHub>(follower_.get(), options);
  }
  // The names of what comes next, until there are so many.
  std::vector<std::string> Next(const WatchHub::Collections& collections, WatchHub::Place& place,
                                size_t count) {
    std::vector<std::string> names;
    while (names.size() < count) {
      std::vector<FollowedChange> changes;
      const auto wake = hub_->Next(
          collections, place, SteadyClock::now() + std::chrono::seconds(30), [] { return false; },
          changes);
      if (wake != WatchHub::Wake::kChanges) break;
      for (const FollowedChange& change : changes) {
        names.emplace_back((change.now ? change.now : change.before)->name());
      }
    }
    return names;
  }

  // As a list of this version does, when the store has come so far.
  void KeepAt(const WatchHub::Collections& collections, const std::string& version) {
    const auto end = SteadyClock::now() + std::chrono::seconds(30);
    auto place = hub_->Now(collections);
    while ((!place || place->version != version) && SteadyClock::now() < end) {
      place = hub_->Now(collections);
    }
    ASSERT_TRUE(place);
    ASSERT_EQ(place->version, version);
    hub_->Keep(collections, *place);
  }

  std::unique_ptr<WatchHub> hub_;
};

TEST_F(WatchHubTest, AVersionIsKeptForItsOwnCollectionsOnly) {
  Start();
  const WatchHub::Collections both = {pods_->id(), nodes_->id()};
  const WatchHub::Collections others = {pods_->id(), services_->id()};
  // A list of the others at version 10, then a change, then a bookmark of both at the same version.
  hub_->Keep(others, *hub_->Now(others));
  services_->Commit({{"a/s", "15"}}, "15");
  WatchHub::Place place;
  ASSERT_EQ(Next(others, place, 1), std::vector<std::string>{"s"});
  hub_->Keep(both, *hub_->Now(both));
  const auto start = hub_->Find(others, "10");
  ASSERT_TRUE(start);
  WatchHub::Place again{start->position, ""};
  EXPECT_EQ(Next(others, again, 1), std::vector<std::string>{"s"});
  // By itself a version of several collections says nothing.
  EXPECT_FALSE(hub_->Find({nodes_->id(), services_->id()}, "10"));
  // One that is watched alone needs no such help, and gets none.
  const auto alone = hub_->Find({services_->id()}, "10");
  ASSERT_TRUE(alone);
  EXPECT_LT(alone->position, place.position);
}

TEST_F(WatchHubTest, TheOldestKeptVersionsAreForgotten) {
  Start({.max_kept = 2});
  const WatchHub::Collections both = {pods_->id(), nodes_->id()};
  for (const char* version : {"7", "8", "9"}) hub_->Keep(both, {hub_->Position(), version});
  const auto oldest = hub_->Find(both, "7");
  ASSERT_FALSE(oldest);
  EXPECT_EQ(oldest.error().code, ErrorCode::kGone);
  EXPECT_TRUE(hub_->Find(both, "8"));
  EXPECT_TRUE(hub_->Find(both, "9"));
}

// A client got the event that brought the version and broke off; what came behind it is of another
// collection. Then somebody lists both at the same version.
TEST_F(WatchHubTest, AVersionThatIsToldAgainLaterHidesNothingFromWhoGotItInAnEvent) {
  Start();
  const WatchHub::Collections both = {pods_->id(), nodes_->id()};
  WatchHub::Place place;
  nodes_->Commit({{"n1", "20"}}, "20");
  ASSERT_EQ(Next(both, place, 1), std::vector<std::string>{"n1"});
  pods_->Commit({{"a/late", "15"}}, "15");
  ASSERT_EQ(Next(both, place, 1), std::vector<std::string>{"late"});
  pods_->Commit({}, "20");
  KeepAt(both, "20");
  const auto start = hub_->Find(both, "20");
  ASSERT_TRUE(start);
  WatchHub::Place again{start->position, ""};
  EXPECT_EQ(Next(both, again, 1), (std::vector<std::string>{"n1", "late"}));
}

// The same where the event has left the window: nobody can tell the two clients apart.
TEST_F(WatchHubTest, AVersionIsGoneWhenWhatCameBehindItHasLeftTheWindow) {
  Start({.max_changes = 1});
  const WatchHub::Collections both = {pods_->id(), nodes_->id()};
  WatchHub::Place place;
  nodes_->Commit({{"n1", "20"}}, "20");
  ASSERT_EQ(Next(both, place, 1), std::vector<std::string>{"n1"});
  for (const char* version : {"15", "16"}) {
    pods_->Commit({{std::string("a/") + version, version}}, version);
    ASSERT_EQ(Next(both, place, 1), std::vector<std::string>{version});
  }
  pods_->Commit({}, "20");
  KeepAt(both, "20");
  EXPECT_FALSE(hub_->Find(both, "20"));
}

// The least version of both would be its own for ever, reached long ago.
TEST_F(WatchHubTest, ACollectionThatNobodyFillsKeepsNoWatchFromBeginning) {
  Start({.max_changes = 1});
  const WatchHub::Collections both = {pods_->id(), nodes_->id()};
  WatchHub::Place place;
  for (const char* version : {"20", "21", "22"}) {
    pods_->Commit({{std::string("a/") + version, version}}, version);
    ASSERT_EQ(Next(both, place, 1), std::vector<std::string>{version});
  }
  KeepAt(both, "22");
  EXPECT_TRUE(hub_->Find(both, "22"));
}

// `pods` of two transforms, of which an owner that was rolled back fills the older one again.
TEST_F(WatchHubTest, WhoFollowsACollectionThatIsLeftBehindIsToldToList) {
  CollectionSpec spec = pods_->spec();
  spec.transform = "v2";
  Written second(owner_.get(), spec);
  second.BeginList();
  second.EndList("20");
  Advance();
  Start();
  WatchHub::Place place = *hub_->Now({second.id()});
  // Both are filled.
  second.Commit({{"a/two", "21"}}, "21");
  ASSERT_EQ(Next({second.id()}, place, 1), std::vector<std::string>{"two"});
  WatchHub::Place other = *hub_->Now({pods_->id()});
  pods_->Commit({{"a/one", "22"}}, "22");
  ASSERT_EQ(Next({pods_->id()}, other, 1), std::vector<std::string>{"one"});
  EXPECT_TRUE(hub_->SameCollectionsSince(0));
  // Only one is.
  pods_->PassTime(std::chrono::minutes(10));
  pods_->Commit({{"a/one", "30"}}, "30");
  std::vector<FollowedChange> changes;
  EXPECT_EQ(hub_->Next(
                {second.id()}, place, SteadyClock::now() + std::chrono::seconds(30),
                [] { return false; }, changes),
            WatchHub::Wake::kListed);
  EXPECT_FALSE(hub_->SameCollectionsSince(0));
  // That is said once.
  const uint64_t then = hub_->Position();
  other = *hub_->Now({pods_->id()});
  pods_->Commit({{"a/one", "31"}}, "31");
  ASSERT_EQ(Next({pods_->id()}, other, 1), std::vector<std::string>{"one"});
  EXPECT_TRUE(hub_->SameCollectionsSince(then));
}

TEST_F(WatchHubTest, APlaceHasTheVersionOfWhatWasHandedOut) {
  Start();
  pods_->Commit({{"a/one", "20"}}, "25");
  WatchHub::Place place;
  ASSERT_EQ(Next({pods_->id()}, place, 1), std::vector<std::string>{"one"});
  EXPECT_EQ(place.version, "25");
  ASSERT_TRUE(hub_->Find({pods_->id()}, "25"));
}

TEST_F(WatchHubTest, TheWindowIsBoundedInBytes) {
  Start({.max_bytes = 300'000});
  WatchHub::Place place;
  for (int i = 0; i < 5; ++i) {
    const std::string version = std::to_string(20 + i);
    pods_->Commit({{"a/" + version, version, 100'000}}, version);
    ASSERT_EQ(Next({pods_->id()}, place, 1), std::vector<std::string>{version});
  }
  const auto oldest = hub_->Find({pods_->id()}, "10");
  ASSERT_FALSE(oldest);
  EXPECT_EQ(oldest.error().code, ErrorCode::kGone);
  EXPECT_TRUE(hub_->Find({pods_->id()}, "23"));
  // What the window lost of pods is nothing to who watches nodes.
  WatchHub::Place early;
  nodes_->Commit({{"n1", "40"}}, "40");
  EXPECT_EQ(Next({nodes_->id()}, early, 1), std::vector<std::string>{"n1"});
}

TEST_F(WatchHubTest, ALateChangeThatLeavesTheWindowBringsNoOlderOneBack) {
  Start({.max_changes = 1});
  WatchHub::Place place;
  const std::pair<const char*, const char*> rows[] = {{"a", "30"}, {"b", "25"}, {"c", "31"}};
  for (const auto& [name, version] : rows) {
    pods_->Commit({{std::string("a/") + name, version}},
                  version == rows[1].second ? "30" : version);
    ASSERT_EQ(Next({pods_->id()}, place, 1), std::vector<std::string>{name});
  }
  EXPECT_FALSE(hub_->Find({pods_->id()}, "26"));
  EXPECT_TRUE(hub_->Find({pods_->id()}, "30"));
}

TEST_F(WatchHubTest, AListEndsItsWatchesAndNoOthers) {
  Start();
  WatchHub::Place place, other;
  pods_->Commit({{"a/one", "20"}}, "20");
  ASSERT_EQ(Next({pods_->id()}, place, 1), std::vector<std::string>{"one"});
  pods_->BeginList();
  std::vector<FollowedChange> changes;
  const auto later = SteadyClock::now() + std::chrono::seconds(30);
  const auto open = [] { return false; };
  EXPECT_EQ(hub_->Next({pods_->id()}, place, later, open, changes), WatchHub::Wake::kListed);
  EXPECT_FALSE(hub_->Find({pods_->id()}, "20"));
  nodes_->Commit({{"n1", "30"}}, "30");
  EXPECT_EQ(Next({nodes_->id()}, other, 1), std::vector<std::string>{"n1"});
}

TEST_F(WatchHubTest, ACollectionThatIsDroppedEndsItsResourcesWatches) {
  Written more(owner_.get(), "pods", "b");
  more.BeginList();
  more.EndList("10");
  Advance();
  Start();
  const WatchHub::Collections both = {pods_->id(), more.id()};
  hub_->Keep(both, *hub_->Now(both));
  WatchHub::Place place, alone, nodes;
  more.Commit({{"b/one", "20"}}, "20");
  ASSERT_EQ(Next(both, place, 1), std::vector<std::string>{"one"});
  ASSERT_TRUE(hub_->Find(both, "20"));
  const uint64_t before = hub_->Position();
  EXPECT_TRUE(hub_->SameCollectionsSince(before));
  ASSERT_TRUE(owner_->DropCollection(more.id()));
  ASSERT_TRUE(owner_->Sync());
  std::vector<FollowedChange> changes;
  const auto later = SteadyClock::now() + std::chrono::seconds(30);
  const auto open = [] { return false; };
  EXPECT_EQ(hub_->Next(both, place, later, open, changes), WatchHub::Wake::kListed);
  EXPECT_EQ(hub_->Next({pods_->id()}, alone, later, open, changes), WatchHub::Wake::kListed);
  EXPECT_FALSE(hub_->SameCollectionsSince(before));
  for (const char* version : {"10", "20"}) EXPECT_FALSE(hub_->Find(both, version)) << version;
  nodes_->Commit({{"n1", "30"}}, "30");
  EXPECT_EQ(Next({nodes_->id()}, nodes, 1), std::vector<std::string>{"n1"});
}

}  // namespace
}  // namespace larder::tools
