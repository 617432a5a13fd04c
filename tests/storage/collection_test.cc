#include "storage/collection.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "storage/store.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::Pod;
using testing::PodKey;
using testing::SpecOf;

TEST(Fingerprint, ChangesWithEveryPart) {
  const CollectionSpec base = SpecOf("pods");
  std::set<std::string> seen = {base.Fingerprint()};
  const auto expect_new = [&](auto change) {
    CollectionSpec spec = base;
    change(spec);
    EXPECT_TRUE(seen.insert(spec.Fingerprint()).second) << spec.ToString();
  };
  expect_new([](auto& spec) { spec.cluster_uid = "other"; });
  expect_new([](auto& spec) { spec.resource.group = "x"; });
  expect_new([](auto& spec) { spec.resource.version = "x"; });
  expect_new([](auto& spec) { spec.resource.resource = "x"; });
  expect_new([](auto& spec) { spec.ns = "x"; });
  expect_new([](auto& spec) { spec.label_selector = "x"; });
  expect_new([](auto& spec) { spec.field_selector = "x"; });
  expect_new([](auto& spec) { spec.projection = "x"; });
  expect_new([](auto& spec) { spec.transform = "x"; });
  expect_new([](auto& spec) { spec.shard = "x"; });
  expect_new([](auto& spec) { spec.ns = "1:x;0:;"; });
  EXPECT_EQ(base.Fingerprint().size(), 32U);
  // Part of the format: a change of the hash would lose every store's collections.
  EXPECT_EQ(base.Fingerprint(), SpecOf("pods").Fingerprint());
  // What discovery says of a resource is not part of what the stream contains.
  CollectionSpec kind = base;
  kind.resource.kind = "Other";
  EXPECT_EQ(kind.Fingerprint(), base.Fingerprint());
}

class CollectionsTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    StoreOptions options{.path = dir_.path()};
    options.collection_ttl = std::chrono::hours(24);
    options.clock = &clock_;
    store_ = Must(Store::Open(options));
  }
  testing::TempDir dir_;
  FakeClock clock_;
  std::unique_ptr<Store> store_;
};

TEST_F(CollectionsTest, TheSameSpecIsTheSameCollection) {
  const CollectionInfo first = Must(store_->OpenCollection(SpecOf("pods")));
  Transaction transaction = store_->Begin();
  transaction.SetCursor(first.id, {"99", SyncState::kSynced, 3, 0});
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  EXPECT_EQ(Must(store_->OpenCollection(SpecOf("pods"))).id, first.id);
  EXPECT_NE(Must(store_->OpenCollection(SpecOf("pods", "x"))).id, first.id);
  Open();
  const CollectionInfo again = Must(store_->OpenCollection(SpecOf("pods")));
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(again.cursor.resource_version, "99");
  EXPECT_EQ(again.cursor.epoch, 3U);
  ASSERT_EQ(Must(store_->Collections()).size(), 2U);
  EXPECT_EQ(Must(store_->Collections())[0].spec.Fingerprint(), SpecOf("pods").Fingerprint());
}

TEST_F(CollectionsTest, IdsAreNeverUsedAgain) {
  const CollectionId first = Must(store_->OpenCollection(SpecOf("pods"))).id;
  testing::PutAll(*store_, first, {Pod(1)});
  Must(store_->DropCollection(first));
  EXPECT_EQ(CodeOf(store_->DropCollection(first)), ErrorCode::kNotFound);
  const CollectionInfo second = Must(store_->OpenCollection(SpecOf("pods")));
  EXPECT_GT(second.id, first);
  EXPECT_EQ(second.cursor.state, SyncState::kEmpty);
  EXPECT_EQ(CodeOf(store_->Get(first, PodKey(1))), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(store_->Get(second.id, PodKey(1))), ErrorCode::kNotFound);
}

TEST_F(CollectionsTest, UnusedOnesAreDroppedAfterTheirTime) {
  (void)Must(store_->OpenCollection(SpecOf("pods", "old")));
  clock_.Advance(std::chrono::hours(20));
  const CollectionId young = Must(store_->OpenCollection(SpecOf("pods", "young"))).id;
  testing::PutAll(*store_, young, {Pod(1)});
  Open();
  clock_.Advance(std::chrono::hours(5));
  (void)Must(store_->CollectGarbage());  // or the janitor, which the clock has woken
  auto left = Must(store_->Collections());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].spec.ns, "young");
  clock_.Advance(std::chrono::hours(24));
  (void)Must(store_->CollectGarbage());
  EXPECT_TRUE(Must(store_->Collections()).empty());
  EXPECT_EQ(CodeOf(store_->Get(young, PodKey(1))), ErrorCode::kNotFound);
}

TEST_F(CollectionsTest, OneThatIsOpenOrWrittenToIsNeverDropped) {
  const CollectionId open = Must(store_->OpenCollection(SpecOf("pods", "open"))).id;
  clock_.Advance(std::chrono::hours(100));
  EXPECT_EQ(Must(store_->CollectGarbage()), 0U);
  Transaction transaction = store_->Begin();
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.WallNow().time_since_epoch());
  transaction.SetCursor(open, {"1", SyncState::kSynced, 1, now.count()});
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  Open();
  clock_.Advance(std::chrono::hours(23));
  EXPECT_EQ(Must(store_->CollectGarbage()), 0U) << "its cursor moved not long ago";
}

// Opens a collection as soon as the log says that one is dropped, and gives that a while.
class OpensWhatIsDropped final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit OpensWhatIsDropped(std::function<void()> open) : open_(std::move(open)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    if (opener_.joinable() || text.find("dropping collection") == std::string_view::npos) return;
    opener_ = std::jthread([this] {
      open_();
      std::lock_guard lock(done_mutex_);
      done_ = true;
      wake_.notify_all();
    });
    std::unique_lock lock(done_mutex_);
    wake_.wait_for(lock, std::chrono::milliseconds(200), [this] { return done_; });
  }
  void flush_() override {}

  const std::function<void()> open_;
  std::mutex done_mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::jthread opener_;  // last: it uses the rest
};

TEST_F(CollectionsTest, OneThatIsJustBeingOpenedIsNotDropped) {
  (void)Must(store_->OpenCollection(SpecOf("pods")));
  clock_.Advance(std::chrono::hours(25));
  Open();
  CollectionId opened = 0;
  auto sink = std::make_shared<OpensWhatIsDropped>(
      [&] { opened = Must(store_->OpenCollection(SpecOf("pods"))).id; });
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  (void)Must(store_->CollectGarbage());
  spdlog::set_default_logger(before);
  sink.reset();  // it waits for the one who opens
  const auto left = Must(store_->Collections());
  ASSERT_EQ(left.size(), 1U) << "whoever opened it has it";
  EXPECT_EQ(left[0].id, opened);
}

TEST_F(CollectionsTest, TheJanitorDropsByItselfButGivesTimeToOpenFirst) {
  (void)Must(store_->OpenCollection(SpecOf("pods", "old")));
  clock_.Advance(std::chrono::hours(100));
  Open();
  EXPECT_EQ(Must(store_->Collections()).size(), 1U);
  // Both threads of the store wait on the clock now or soon.
  while (clock_.Waiters() < 2) std::this_thread::yield();
  clock_.Advance(std::chrono::minutes(11));
  for (int i = 0; i < 2000 && !Must(store_->Collections()).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(Must(store_->Collections()).empty());
}

TEST_F(CollectionsTest, TtlZeroKeepsAll) {
  store_.reset();
  StoreOptions options{.path = dir_.path()};
  options.collection_ttl = std::chrono::seconds(0);
  options.clock = &clock_;
  store_ = Must(Store::Open(options));
  (void)Must(store_->OpenCollection(SpecOf("pods", "old")));
  store_.reset();
  store_ = Must(Store::Open(options));
  clock_.Advance(std::chrono::hours(24 * 365));
  EXPECT_EQ(Must(store_->CollectGarbage()), 0U);
}

}  // namespace
}  // namespace larder
