// Recording from outside, through the store's directory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "storage/mailbox.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::TempDir;

class RecordingTest : public ::testing::Test {
 protected:
  void OpenStore() {
    StoreOptions options;
    options.path = dir_.path();
    options.sync_interval = std::chrono::milliseconds(2);
    store_ = Must(Store::Open(options));
  }
  void Write() {
    Transaction transaction = store_->Begin();
    transaction.PutNote("n", "v");
    Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  // Waits for what the owner's thread does; only a failing test waits long.
  RecordingProgress WaitFor(RecordingProgress::State state) {
    for (int i = 0; i < 10'000; ++i) {
      const RecordingProgress progress = LookAtRecording(dir_.path());
      if (progress.state == state) return progress;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "the owner did not get there";
    return {};
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_F(RecordingTest, IsRefusedWhereNobodyCanRecord) {
  EXPECT_EQ(CodeOf(RequestRecording(dir_.path(), std::chrono::seconds(1), 1000)),
            ErrorCode::kNotFound);
  OpenStore();
  store_.reset();
  const auto refused = RequestRecording(dir_.path(), std::chrono::seconds(1), 1000);
  ASSERT_EQ(CodeOf(refused), ErrorCode::kNotReady);
  EXPECT_NE(refused.error().message.find("tune model"), std::string::npos);
}

TEST_F(RecordingTest, IsDoneByTheOwnerAndEndsWhenItIsTakenBack) {
  OpenStore();
  Must(RequestRecording(dir_.path(), std::chrono::hours(1), uint64_t{1} << 20));
  EXPECT_EQ(CodeOf(RequestRecording(dir_.path(), std::chrono::hours(1), uint64_t{1} << 20)),
            ErrorCode::kAlreadyExists);
  WaitFor(RecordingProgress::State::kRecording);
  for (int i = 0; i < 20; ++i) Write();
  EndRecording(dir_.path());
  WaitFor(RecordingProgress::State::kDone);
  const std::string file = dir_.path("trace");
  Must(TakeRecording(dir_.path(), file));
  EXPECT_EQ(Must(TraceReader::Open(file))->summary().commits, 20u);
  EXPECT_EQ(std::filesystem::status(file).permissions() & std::filesystem::perms(077),
            std::filesystem::perms::none);
}

TEST_F(RecordingTest, EndsByItselfAndIsWholeWhenTheStoreIsClosed) {
  OpenStore();
  Must(RequestRecording(dir_.path(), std::chrono::milliseconds(5), uint64_t{1} << 20));
  WaitFor(RecordingProgress::State::kDone);
  EXPECT_TRUE(TraceReader::Open(TuningPath(dir_.path()) + "/trace"));
  Must(RequestRecording(dir_.path(), std::chrono::hours(1), uint64_t{1} << 20));
  WaitFor(RecordingProgress::State::kRecording);
  Write();
  store_.reset();
  ASSERT_EQ(LookAtRecording(dir_.path()).state, RecordingProgress::State::kDone);
  EXPECT_EQ(Must(TraceReader::Open(TuningPath(dir_.path()) + "/trace"))->summary().commits, 1u);
}

TEST_F(RecordingTest, ABadRequestIsAnsweredWithAnError) {
  OpenStore();
  std::filesystem::create_directories(TuningPath(dir_.path()));
  std::ofstream(TuningPath(dir_.path()) + "/record") << "nonsense";
  const RecordingProgress failed = WaitFor(RecordingProgress::State::kFailed);
  EXPECT_FALSE(failed.error.empty());
  Write();
}

TEST_F(RecordingTest, OptionsThatAreLeftThereTakeEffectAtOnceWhereTheyCan) {
  OpenStore();
  EngineOptions engine;
  Must(engine.Set("*.level0_file_num_compaction_trigger", "7"));
  Must(LeaveOptions(dir_.path(), engine));
  // The owner's thread looks at the file; that it goes on well is all that can be seen from here.
  Write();
  Must(store_->Sync());
  EXPECT_TRUE(store_->Health());
}

}  // namespace
}  // namespace larder
