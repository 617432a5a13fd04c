// Verification: what is damaged is found.
#include "tests/storage/verify_fixture.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::Pod;
using testing::PodKey;
using testing::SpecOf;
using testing::VerifyTest;

TEST_F(VerifyTest, ASoundStoreIsSound) {
  uint64_t last = 0;
  VerifyOptions options;
  options.progress = [&](uint64_t objects) { last = objects; };
  const VerifyReport report = Must(Verify(*store_, options));
  EXPECT_TRUE(report.Ok()) << report.problems[0].message;
  EXPECT_EQ(report.objects, kPods);
  EXPECT_EQ(report.index_keys, 3 * kPods);
  EXPECT_EQ(report.queue_items, kPods);
  EXPECT_EQ(report.deltas, 1U);
  EXPECT_EQ(report.collections, 1U);
  const auto reader = Must(Store::OpenReadOnly({.path = dir_.path()}));
  EXPECT_TRUE(Must(Verify(*reader)).Ok());
}

TEST_F(VerifyTest, FindsADamagedObject) {
  const std::string value = Must(store_->Encode(pods_.id, *Pod(3))).value;
  Raw(Family::kObjects, KeyOf(3), value.substr(0, 50) + "!" + value.substr(51));
  const VerifyReport report = Must(Verify(*store_));
  // The object, and its index keys cannot be expected without it.
  ASSERT_FALSE(report.Ok());
  EXPECT_EQ(report.problems[0].family, "objects");
  EXPECT_EQ(report.problems[0].collection, pods_.id);
  EXPECT_NE(report.problems[0].message.find("checksum"), std::string::npos);
  // A read says so too, and names the place.
  const auto read = store_->Get(pods_.id, PodKey(3));
  EXPECT_EQ(CodeOf(read), ErrorCode::kCorruption);
  EXPECT_NE(read.error().message.find(KeyOf(3)), std::string::npos);
  EXPECT_NE(read.error().message.find(dir_.path()), std::string::npos) << read.error().message;
}

TEST_F(VerifyTest, FindsIndexKeysThatAreMissingStaleOrDangling) {
  Raw(Family::kIndexes, "1/1/node-3/" + PodKey(3).ToString(), std::nullopt);
  EXPECT_EQ(OnlyProblem().message, "is missing");
  Raw(Family::kIndexes, "1/1/node-3/" + PodKey(3).ToString(), std::string(Pod(3)->uid()));
  EXPECT_TRUE(Must(Verify(*store_)).Ok());
  Raw(Family::kIndexes, "1/1/node-4/" + PodKey(3).ToString(), std::string(Pod(3)->uid()));
  EXPECT_EQ(OnlyProblem().message, "the object does not have this value");
  Raw(Family::kIndexes, "1/1/node-4/" + PodKey(3).ToString(), std::nullopt);
  Raw(Family::kIndexes, "1/2/web-000/" + PodKey(3).ToString(), "another-uid");
  EXPECT_EQ(OnlyProblem().message, "has another uid");
  Raw(Family::kIndexes, "1/2/web-000/" + PodKey(3).ToString(), std::string(Pod(3)->uid()));
  Raw(Family::kIndexes, "1/3/v/team-00/nobody", "u");
  EXPECT_EQ(OnlyProblem().message, "leads to no object");
}

TEST_F(VerifyTest, FindsWhatIsWrongElsewhere) {
  Raw(Family::kQueues, "q/broken", "x");
  EXPECT_EQ(OnlyProblem().family, "queues");
  Raw(Family::kQueues, "q/broken", std::nullopt);
  Raw(Family::kObjects, "9/team/x", "whatever");
  EXPECT_EQ(OnlyProblem().message, "is of no collection");
  Raw(Family::kObjects, "9/team/x", std::nullopt);
  Raw(Family::kMeta, "fingerprint/" + SpecOf("pods").Fingerprint(), std::nullopt);
  Open();
  EXPECT_EQ(Must(Verify(*store_)).problems.at(0).message, "its fingerprint does not lead to it");
}

TEST_F(VerifyTest, FindsAFlippedByteInATable) {
  DamageTables("objects", 2000);
  Open();
  const VerifyReport report = Must(Verify(*store_));
  ASSERT_FALSE(report.Ok());
  EXPECT_EQ(report.problems[0].family, "files");
  EXPECT_NE(report.problems[0].message.find(".sst"), std::string::npos)
      << report.problems[0].message;
}

TEST_F(VerifyTest, CanBeStopped) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CodeOf(Verify(*store_, {.stop = stop.get_token()})), ErrorCode::kCancelled);
}

// Everything is read as it was at one moment, what says how to read it included.
TEST_F(VerifyTest, AnIndexThatIsDeclaredMeanwhileIsNoProblem) {
  const CollectionInfo many = Must(store_->OpenCollection(SpecOf("configmaps")));
  const CollectionInfo later = Must(store_->OpenCollection(SpecOf("services")));
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 1000; ++i) {
    objects.push_back(testing::SmallObject("n", "o" + std::to_string(i), 1));
  }
  testing::PutAll(*store_, many.id, objects);
  testing::PutAll(*store_, later.id, {Pod(1)});
  bool declared = false;
  VerifyOptions options;
  options.progress = [&](uint64_t) {
    if (std::exchange(declared, true)) return;
    Transaction transaction = store_->Begin();
    transaction.PutIndexRecord(later.id, {1, "app", "label:app", true});
    transaction.PutIndexKey(later.id, 1, *Pod(1)->Label("app"), PodKey(1), Pod(1)->uid());
    Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  };
  const VerifyReport report = Must(Verify(*store_, options));
  ASSERT_TRUE(declared);
  EXPECT_TRUE(report.Ok()) << report.problems[0].message;
}

}  // namespace
}  // namespace larder
