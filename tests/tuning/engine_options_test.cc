// Options in a file: taken as written, or refused with a reason; and stores that are opened with
// them.
#include "storage/engine_options.h"

#include <gtest/gtest.h>

#include <fstream>

#include "storage/mailbox.h"
#include "storage/maintenance.h"
#include "storage/store.h"
#include "tests/storage/support.h"
#include "tuning/candidate.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;
using testing::TempDir;

std::string ErrorOf(const std::string& text) {
  const auto parsed = EngineOptions::Parse(text);
  EXPECT_FALSE(parsed) << text;
  if (parsed) return {};
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  return parsed.error().message;
}

TEST(EngineOptions, AreReadAsTheyAreWritten) {
  const EngineOptions options = Must(EngineOptions::Parse(R"(
# a comment
[Larder]
max_log_bytes = 16M   # and another
[DBOptions]
max_background_jobs=3
[CFOptions "*"]
compression=kLZ4Compression
[CFOptions "objects"]
compression=kZSTD
compression_per_level=kNoCompression:kNoCompression:kZSTD
[TableOptions/BlockBasedTable "indexes"]
filter_policy=ribbonfilter:9.5
)"));
  EXPECT_EQ(options.LarderNumber("max_log_bytes", 0), 16u << 20);
  EXPECT_EQ(*options.Find(EngineSection::kFamily, "objects", "compression"), "kZSTD");
  EXPECT_EQ(*options.Find(EngineSection::kFamily, "queues", "compression"), "kLZ4Compression");
  EXPECT_EQ(*options.Find(EngineSection::kTable, "indexes", "filter_policy"), "ribbonfilter:9.5");
  EXPECT_EQ(options.Find(EngineSection::kTable, "objects", "filter_policy"), nullptr);
  EXPECT_EQ(Must(EngineOptions::Parse(options.ToText())), options);
}

TEST(EngineOptions, UnknownOnesAreRefusedByNameAndLine) {
  const std::string unknown = ErrorOf("[DBOptions]\n\nmax_backgruond_jobs=2\n");
  EXPECT_NE(unknown.find("line 3"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("max_backgruond_jobs"), std::string::npos) << unknown;
  // An option of another section is as unknown.
  EXPECT_NE(ErrorOf("[DBOptions]\nblock_size=4096\n").find("unknown"), std::string::npos);
  EXPECT_NE(ErrorOf("[Nonsense]\n").find("[Nonsense]"), std::string::npos);
  EXPECT_NE(ErrorOf("[CFOptions \"default\"]\n").find("names no family"), std::string::npos);
  EXPECT_NE(ErrorOf("max_background_jobs=2\n").find("in no section"), std::string::npos);
  EXPECT_NE(ErrorOf("[Larder]\nmax_log_bytes\n").find("not NAME=VALUE"), std::string::npos);
}

TEST(EngineOptions, ValuesOutOfBoundsAreRefusedWithTheBounds) {
  const std::string jobs = ErrorOf("[DBOptions]\nmax_background_jobs=1000\n");
  EXPECT_NE(jobs.find("1 to 16"), std::string::npos) << jobs;
  for (const char* value : {"-1", "1e3", "16MB", "", "99999999999999999999", "0x10"}) {
    EXPECT_NE(ErrorOf(std::string("[Larder]\nmax_log_bytes=") + value + "\n").find("not allowed"),
              std::string::npos)
        << value;
  }
  ErrorOf("[CFOptions \"*\"]\ncompression=kBZip2\n");
  ErrorOf("[CFOptions \"*\"]\ncompression_per_level=kZSTD:\n");
  ErrorOf("[TableOptions/BlockBasedTable \"*\"]\nfilter_policy=bloomfilter\n");
  ErrorOf("[TableOptions/BlockBasedTable \"*\"]\nfilter_policy=bloomfilter:nan\n");
}

TEST(EngineOptions, WhatDurabilityRestsOnCannotBeChanged) {
  for (const char* line : {"atomic_flush=false", "wal_recovery_mode=kSkipAnyCorruptedRecords",
                           "manual_wal_flush=true", "unordered_write=true", "disable_wal=true"}) {
    const std::string error = ErrorOf(std::string("[DBOptions]\n") + line + "\n");
    EXPECT_NE(error.find("prefix of the commits"), std::string::npos) << error;
  }
  const std::string fifo =
      ErrorOf("[CFOptions \"queues\"]\ncompaction_style=kCompactionStyleFIFO\n");
  EXPECT_NE(fifo.find("drops the oldest rows"), std::string::npos) << fifo;
  const std::string blobs = ErrorOf("[CFOptions \"objects\"]\nenable_blob_files=true\n");
  EXPECT_NE(blobs.find("readers"), std::string::npos) << blobs;
  const std::string log = ErrorOf("[DBOptions]\nwal_compression=kZSTD\n");
  EXPECT_NE(log.find("7.10.2"), std::string::npos) << log;
  // A relaxed commit is synced within a bounded time.
  ErrorOf("[Larder]\nsync_interval_ms=3600000\n");
}

class TunedStore : public ::testing::Test {
 protected:
  StoreOptions With(const EngineOptions& engine) const {
    StoreOptions options;
    options.path = dir_.path();
    options.engine = engine;
    options.sync_interval = std::chrono::milliseconds(5);
    return options;
  }
  TempDir dir_;
};

// A store may be opened with any candidate after any other: its options can be changed at every
// start, whatever layout the one before left behind.
TEST_F(TunedStore, KeepsItsRowsWhateverItsOptionsWereBefore) {
  const auto matrix = tuning::MakeMatrix({});
  uint64_t version = 1;
  // Every third is enough to meet all kinds, and opening takes its time.
  for (size_t at = 0; at < matrix.size(); at += 3) {
    const tuning::Candidate& candidate = matrix[at];
    const auto store = Must(Store::Open(With(candidate.engine)));
    const CollectionId pods = Must(store->OpenCollection(testing::SpecOf("pods"))).id;
    if (version > 1) {
      for (uint64_t i = 0; i < 20; ++i) {
        const auto object = store->Get(pods, testing::PodKey(i));
        ASSERT_TRUE(object) << candidate.name << ": " << object.error().ToString();
        ASSERT_EQ((*object)->json(), testing::PodJson(i, version)) << candidate.name;
      }
    }
    ++version;
    std::vector<ObjectPtr> objects;
    for (uint64_t i = 0; i < 20; ++i) objects.push_back(testing::Pod(i, version));
    testing::PutAll(*store, pods, objects);
    // Now and then into tables, so that every layout meets files of the ones before.
    if (version % 3 == 0) Must(Compact(*store));
    if (version % 2 == 0) store->StartFlush();
  }
  const auto store = Must(Store::Open(With({})));
  EXPECT_TRUE(Must(Verify(*store)).Ok());
}

TEST_F(TunedStore, TakesOptionsThatWereLeftInItsDirectory) {
  EngineOptions engine;
  Must(engine.Set("larder.max_log_bytes", "8M"));
  Must(engine.Set("objects.write_buffer_size", "1M"));
  EXPECT_EQ(CodeOf(LeaveOptions(dir_.path(), engine)), ErrorCode::kNotFound);
  { Must(Store::Open(With({}))); }
  Must(LeaveOptions(dir_.path(), engine));
  EXPECT_EQ(Must(Store::Open(With({})))->options().max_log_bytes, 8u << 20);
  // A choice of the caller's wins.
  EngineOptions other;
  Must(other.Set("larder.max_log_bytes", "4M"));
  EXPECT_EQ(Must(Store::Open(With(other)))->options().max_log_bytes, 4u << 20);
  Must(LeaveOptions(dir_.path(), {}));
  EXPECT_EQ(Must(Store::Open(With({})))->options().max_log_bytes, StoreOptions().max_log_bytes);
}

TEST_F(TunedStore, StartsWithoutOptionsThatItDoesNotUnderstand) {
  EngineOptions engine;
  Must(engine.Set("larder.max_log_bytes", "8M"));
  { Must(Store::Open(With({}))); }
  Must(LeaveOptions(dir_.path(), engine));
  std::ofstream(AppliedOptionsPath(dir_.path()), std::ios::app) << "from_the_future=1\n";
  EXPECT_EQ(Must(Store::Open(With({})))->options().max_log_bytes, StoreOptions().max_log_bytes);
}

TEST_F(TunedStore, ChangesWhatItCanWhileItIsOpen) {
  const auto store = Must(Store::Open(With({})));
  EngineOptions engine;
  Must(engine.Set("*.level0_file_num_compaction_trigger", "6"));
  Must(engine.Set("objects.universal_max_size_amplification_percent", "80"));
  Must(engine.Set("db.max_background_jobs", "3"));
  Must(engine.Set("objects.table.block_size", "8K"));
  Must(engine.Set("larder.max_log_bytes", "8M"));
  const LiveChange change = Must(ChangeOptions(*store, engine));
  EXPECT_EQ(change.changed, (std::vector<std::string>{
                                "db.max_background_jobs", "*.level0_file_num_compaction_trigger",
                                "objects.universal_max_size_amplification_percent"}));
  EXPECT_EQ(change.at_next_start,
            (std::vector<std::string>{"larder.max_log_bytes", "objects.table.block_size"}));
}

// Every option that the list calls live is one that RocksDB changes while it runs.
TEST_F(TunedStore, TheListIsRightAboutWhatIsLive) {
  const auto store = Must(Store::Open(With({})));
  for (const EngineOptionInfo& info : KnownEngineOptions()) {
    EngineOptions engine;
    const bool family = info.section == EngineSection::kFamily;
    const bool table = info.section == EngineSection::kTable;
    bool set = false;
    for (const char* value :
         {"true", "8", "100", "8192", "8388608", "0.5", "kZSTD", "kCompactionStyleUniversal",
          "kOldestSmallestSeqFirst", "bloomfilter:8"}) {
      if (engine.Set({info.section, family || table ? "queues" : "", info.name}, value)) {
        set = true;
        break;
      }
    }
    ASSERT_TRUE(set) << info.name;
    const LiveChange change = Must(ChangeOptions(*store, engine));
    EXPECT_EQ(change.changed.size(), info.live ? 1u : 0u) << info.name;
  }
}

}  // namespace
}  // namespace larder
