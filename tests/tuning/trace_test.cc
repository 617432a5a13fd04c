// Trace files: whole or refused.
#include "storage/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "storage/measure.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::TempDir;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(dir_.path("files"));
    path_ = dir_.path("files") + "/trace";
    // Without a dictionary, whose training ends with a commit of its own at a time of its own.
    store_ = Must(Store::Open({.path = dir_.path(), .dictionary_bytes = 0}));
    pods_ = Must(store_->OpenCollection(testing::SpecOf("pods"))).id;
    Must(StartRecording(*store_, {.path = path_}));
    for (uint64_t i = 0; i < 300; ++i) {
      Transaction transaction = store_->Begin();
      transaction.PutObject(pods_, Must(store_->Encode(pods_, *testing::Pod(i))));
      transaction.PutQueueItem("q", std::to_string(i), i, {});
      Must(store_->Commit(std::move(transaction),
                          i == 7 ? Durability::kSync : Durability::kRelaxed));
    }
    Must(store_->Get(pods_, testing::PodKey(3)));
    (void)store_->Get(pods_, testing::PodKey(999'999));
    size_t seen = 0;
    Must(store_->Scan(pods_, {}, {}, [&](const ObjectPtr&) { return ++seen < 5; }));
    summary_ = Must(StopRecording(*store_));
    // What comes later is not in it.
    Must(store_->Get(pods_, testing::PodKey(4)));
  }

  TempDir dir_;
  std::string path_;
  std::unique_ptr<Store> store_;
  CollectionId pods_ = 0;
  TraceSummary summary_;
};

TEST_F(TraceTest, HoldsEveryOperationInOrder) {
  EXPECT_EQ(summary_.commits, 300u);
  EXPECT_EQ(summary_.gets, 2u);
  EXPECT_EQ(summary_.scans, 1u);
  EXPECT_EQ(summary_.dropped, 0u);
  const auto reader = Must(TraceReader::Open(path_));
  EXPECT_EQ(reader->steps(), 303u);
  EXPECT_EQ(reader->summary().commits, 300u);
  EXPECT_EQ(reader->summary().collections.at(pods_).resource, "pods");
  for (int round = 0; round < 2; ++round) {
    TraceStep step;
    uint64_t commits = 0, puts = 0, synced = 0;
    std::vector<std::string> reads;
    while (Must(reader->Next(step))) {
      if (step.kind != TraceStep::Kind::kCommit) {
        reads.push_back(fmt::format("{} {}", step.key, step.rows));
        continue;
      }
      synced += step.sync && commits == 7 ? 1 : 0;
      ++commits;
      Must(ForEachRow(step.batch, [&](const TraceRow& row) {
        EXPECT_EQ(row.change, TraceRow::Change::kPut);
        ++puts;
      }));
    }
    EXPECT_EQ(commits, 300u);
    EXPECT_EQ(puts, 600u);
    EXPECT_EQ(synced, 1u);
    ASSERT_EQ(reads.size(), 3u);
    EXPECT_EQ(reads[2], fmt::format("{}/ 5", pods_));
    Must(reader->Rewind());
  }
}

TEST_F(TraceTest, ReplayedItMakesTheSameStore) {
  const auto copy = Must(MeasuredStore::Open({.path = dir_.path("copy")}));
  const auto reader = Must(TraceReader::Open(path_));
  TraceStep step;
  while (Must(reader->Next(step))) Must(copy->Apply(step));
  for (const Family family : {Family::kObjects, Family::kQueues}) {
    std::vector<std::pair<std::string, std::string>> rows[2];
    for (int i = 0; i < 2; ++i) {
      Must(ForEachStoredRow(i == 0 ? *store_ : copy->store(), family,
                            [&](std::string_view key, std::string_view value) {
                              rows[i].emplace_back(key, value);
                              return true;
                            }));
    }
    EXPECT_EQ(rows[0].size(), 300u);
    EXPECT_EQ(rows[0], rows[1]);
  }
  EXPECT_GT(copy->Counters().log_bytes, 0u);
  EXPECT_GT(copy->State().disk_bytes, 0u);
}

TEST_F(TraceTest, CutOffAnywhereItIsRefused) {
  const std::string whole = ReadAll(path_);
  ASSERT_GT(whole.size(), 1000u);
  for (const size_t size : {size_t{0}, size_t{5}, size_t{8}, size_t{12}, size_t{500},
                            whole.size() / 2, whole.size() - 1}) {
    WriteAll(path_, whole.substr(0, size));
    const auto reader = TraceReader::Open(path_);
    ASSERT_FALSE(reader) << size;
    EXPECT_EQ(reader.error().code,
              size < 8 ? (size == 0 ? ErrorCode::kInvalidArgument : ErrorCode::kCorruption)
                       : ErrorCode::kCorruption)
        << size;
    if (size >= 8) {
      EXPECT_NE(reader.error().message.find("cut off"), std::string::npos)
          << reader.error().message;
    }
  }
}

TEST_F(TraceTest, AChangedByteIsFound) {
  const std::string whole = ReadAll(path_);
  for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 97) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    WriteAll(path_, bytes);
    EXPECT_FALSE(TraceReader::Open(path_)) << at;
  }
  WriteAll(path_, "something else entirely");
  EXPECT_EQ(CodeOf(TraceReader::Open(path_)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(TraceReader::Open(path_ + ".missing")), ErrorCode::kNotFound);
}

TEST_F(TraceTest, IsForItsOwnStoreOnly) {
  const TraceSummary trace = Must(TraceReader::Open(path_))->summary();
  EXPECT_TRUE(CheckTraceFits(trace, *store_));
  const auto other = Must(Store::Open({.path = dir_.path("other")}));
  auto fits = CheckTraceFits(trace, *other);
  ASSERT_FALSE(fits);
  EXPECT_NE(fits.error().message.find("another store"), std::string::npos);
  // The same number, but another stream.
  Must(other->OpenCollection(testing::SpecOf("nodes")));
  EXPECT_EQ(CodeOf(CheckTraceFits(trace, *other)), ErrorCode::kInvalidArgument);
}

TEST_F(TraceTest, EndsAtItsSizeAndSaysSo) {
  Must(StartRecording(*store_, {.path = path_, .max_bytes = 1000}));
  EXPECT_EQ(CodeOf(StartRecording(*store_, {.path = path_ + "2"})), ErrorCode::kAlreadyExists);
  for (uint64_t i = 0; i < 2000; ++i) {
    Transaction transaction = store_->Begin();
    transaction.PutNote("n", std::string(500, static_cast<char>('a' + i % 20)));
    Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  }
  const TraceSummary summary = Must(StopRecording(*store_));
  EXPECT_TRUE(summary.full);
  EXPECT_LT(std::filesystem::file_size(path_), 300'000u);
  EXPECT_TRUE(TraceReader::Open(path_));
  EXPECT_EQ(CodeOf(StopRecording(*store_)), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace larder
