// The reflector against the real server: every way to sync, events, selectors, shards, metadata.
#include <gmock/gmock.h>

#include "reflector/shard_selector.h"
#include "tests/kube/kube_fixture.h"

namespace larder {
namespace {

using ::testing::HasSubstr;

struct Way {
  const char* name;
  FirstSync first_sync;
  bool metadata_only = false;
  bool from_cache = false;
  bool protobuf = true;
};

class KubeFirstSync : public KubeTest, public testing::WithParamInterface<Way> {};

TEST_P(KubeFirstSync, ThenEvents) {
  options_.first_sync = GetParam().first_sync;
  options_.metadata_only = GetParam().metadata_only;
  options_.first_list_from_cache = GetParam().from_cache;
  options_.protobuf = GetParam().protobuf;
  options_.page_size = 7;
  MakeMany("a", 20);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  EXPECT_TRUE(Equal(target));
  MakeMany("b", 5);
  for (int i = 0; i < 5; ++i) Change("a-" + std::to_string(i), "changed");
  for (int i = 10; i < 15; ++i) Delete("a-" + std::to_string(i));
  Delete("a-19");
  Make("a-19");
  EXPECT_TRUE(Equal(target));
  const ReflectorStatus status = Status();
  EXPECT_EQ(status.lists, 1U);
  EXPECT_EQ(status.watches, 1U);
  EXPECT_FALSE(status.last_error) << status.last_error->ToString();
  EXPECT_LT(Stop(), std::chrono::seconds(2));
}

INSTANTIATE_TEST_SUITE_P(
    EveryWay, KubeFirstSync,
    testing::Values(Way{"List", FirstSync::kList}, Way{"PagedList", FirstSync::kPagedList},
                    Way{"WatchList", FirstSync::kWatchList},
                    Way{"ListFromCache", FirstSync::kList, false, true},
                    Way{"WatchListFromCache", FirstSync::kWatchList, false, true},
                    Way{"ListAsJson", FirstSync::kList, false, false, false},
                    Way{"WatchListAsJson", FirstSync::kWatchList, false, false, false},
                    Way{"Metadata", FirstSync::kList, true},
                    Way{"MetadataPaged", FirstSync::kPagedList, true},
                    Way{"MetadataWatchList", FirstSync::kWatchList, true}),
    [](const auto& way) { return way.param.name; });

using KubeReflector = KubeTest;

TEST_F(KubeReflector, ResumesWithoutAList) {
  MakeMany("a", 20);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  Stop();
  Change("a-0", "changed");
  Delete("a-1");
  Make("b");
  Run(&target);
  EXPECT_TRUE(Equal(target));
  EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return status.synced; }));
  EXPECT_EQ(Status().lists, 0U);
  EXPECT_EQ(Status().objects, 3U);
  EXPECT_EQ(target.Deletes(), 1U);
}

TEST_F(KubeReflector, ResumesAQuietCollectionSoon) {
  Make("a");
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  Stop();
  const auto begun = std::chrono::steady_clock::now();
  Run(&target);
  EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return status.synced; }));
  const auto took = std::chrono::steady_clock::now() - begun;
  RecordProperty("ready_ms", static_cast<int>(took / std::chrono::milliseconds(1)));
  EXPECT_LT(took, std::chrono::seconds(1));
}

TEST_F(KubeReflector, RelistsByMetadataAndFetchesWhatDiffers) {
  MakeMany("a", 30);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  Stop();
  for (int i = 0; i < 4; ++i) Change("a-" + std::to_string(i), "changed");
  Delete("a-29");
  // The same name again is another object.
  Delete("a-28");
  Make("a-28");
  ExpireHistory();
  Run(&target);
  EXPECT_TRUE(Equal(target));
  ASSERT_TRUE(Reaches([](const ReflectorStatus& status) { return status.relists == 1; }));
  const ReflectorStatus status = Status();
  EXPECT_EQ(status.restarts.at("Gone"), 1U);
  EXPECT_EQ(status.fetched, 5U);
  EXPECT_EQ(status.unchanged, 24U);
}

// `synced` must not be true between the headers of a refused watch and its refusal.
TEST_F(KubeReflector, AnExpiredResumeIsNeverSyncedBeforeItsRelist) {
  MakeMany("a", 5);
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  Stop();
  Delete("a-0");
  ExpireHistory();
  Run(&target);
  EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return status.synced; }));
  EXPECT_FALSE(target.Objects().contains(ns_ + "/a-0"));
  EXPECT_EQ(Status().relists, 1U);
}

TEST_F(KubeReflector, FollowsSelectors) {
  for (const char* name : {"a", "b", "c"}) Make(name);
  const auto label = [&](const char* name, const char* app) {
    ASSERT_TRUE(client_->Patch(resource_, {ns_, name}, PatchType::kJsonMerge,
                               {{"metadata", {{"labels", {{"app", app}}}}}}));
  };
  label("a", "web");
  options_.label_selector = "app in (web, db)";
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  EXPECT_EQ(target.Objects().size(), 1U);
  label("b", "db");
  EXPECT_TRUE(Equal(target));
  label("a", "other");
  EXPECT_TRUE(Equal(target));
  EXPECT_EQ(target.Objects().size(), 1U);
  Stop();
  label("c", "web");
  label("b", "gone");
  ExpireHistory();
  Run(&target);
  EXPECT_TRUE(Equal(target));
  options_.label_selector.clear();
  options_.field_selector = "metadata.name=a";
  MirrorTarget by_field(cluster_uid_);
  Run(&by_field);
  EXPECT_TRUE(Equal(by_field));
  EXPECT_EQ(by_field.Objects().size(), 1U);
}

TEST_F(KubeReflector, TwoShardsAreTheWhole) {
  MakeMany("a", 40);
  MirrorTarget::Content both;
  for (const FirstSync way : {FirstSync::kList, FirstSync::kWatchList}) {
    options_.first_sync = way;
    both.clear();
    for (uint32_t part = 0; part < 2; ++part) {
      options_.shard_selector = ShardSelector::ForPart(part, 2);
      MirrorTarget target;
      Run(&target);
      ASSERT_TRUE(target.WaitForCursor());
      if (way == FirstSync::kList) {
        EXPECT_EQ(Status().sharded_by_server, true);
      }
      const size_t before = target.Objects().size();
      EXPECT_GT(before, 5U);
      EXPECT_LT(before, 35U);
      // The server itself must send only this part's events.
      const uint64_t heard = Status().objects;
      EXPECT_EQ(heard, before);
      both.merge(target.Objects());
      Stop();
    }
    EXPECT_EQ(both, Content());
  }
}

TEST_F(KubeReflector, AShardHearsOnlyOfItsOwn) {
  MakeMany("a", 20);
  options_.shard_selector = ShardSelector::ForPart(1, 2);
  MirrorTarget target;
  Run(&target);
  ASSERT_TRUE(target.WaitForCursor());
  ASSERT_TRUE(Reaches([](const ReflectorStatus& status) { return status.watches > 0; }));
  const size_t mine = target.Objects().size();
  const uint64_t before = Status().objects;
  for (int i = 0; i < 20; ++i) Change("a-" + std::to_string(i), "changed");
  const auto current = [&] {
    const auto all = Content();
    size_t same = 0;
    for (const auto& [key, id] : target.Objects()) same += all.contains(key) && all.at(key) == id;
    return same;
  };
  EXPECT_TRUE(Eventually([&] { return current() == mine; }));
  EXPECT_EQ(Status().objects - before, mine);
}

TEST_F(KubeReflector, AnotherClusterIsRefused) {
  Make("a");
  MirrorTarget target("11111111-2222-3333-4444-555555555555");
  Run(&target);
  ASSERT_TRUE(Reaches([](const ReflectorStatus& status) {
    return status.state == ReflectorState::kAnotherCluster;
  }));
  EXPECT_THAT(Status().last_error->message, HasSubstr(cluster_uid_));
  EXPECT_TRUE(target.Objects().empty());
}

// The watch ends with the time-out that it asked for, again and again.
TEST_F(KubeReflector, OutlivesItsWatches) {
  options_.watch_timeout_min = options_.watch_timeout_max = std::chrono::seconds(1);
  Make("a");
  MirrorTarget target(cluster_uid_);
  Run(&target);
  ASSERT_TRUE(Equal(target));
  EXPECT_TRUE(Reaches([](const ReflectorStatus& status) { return status.watches >= 3; }));
  Make("b");
  EXPECT_TRUE(Equal(target));
  EXPECT_EQ(Status().lists, 1U);
}

TEST_F(KubeReflector, ReadsLargeObjectsAndPods) {
  Json large = ConfigMap("large");
  large["data"]["k"] = std::string(900'000, 'x');
  ASSERT_TRUE(client_->Create(resource_, large));
  MirrorTarget target(cluster_uid_);
  Run(&target);
  EXPECT_TRUE(Equal(target));
  resource_ = *LookupResource("pods");
  const Json pod = {{"metadata", {{"name", "p"}, {"namespace", ns_}}},
                    {"spec", {{"containers", {{{"name", "c"}, {"image", "i"}}}}}}};
  ASSERT_TRUE(client_->Create(resource_, pod));
  MirrorTarget pods(cluster_uid_);
  Run(&pods);
  EXPECT_TRUE(Equal(pods));
  ASSERT_TRUE(client_->Delete(resource_, {ns_, "p"}, {.grace_period_seconds = 0}));
  EXPECT_TRUE(Equal(pods));
  EXPECT_TRUE(pods.Objects().empty());
}

}  // namespace
}  // namespace larder
