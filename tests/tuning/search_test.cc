// Whole searches on small workloads: they end, they go on after an interruption, they leave the
// store alone.
#include "tuning/search.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "storage/maintenance.h"
#include "storage/trace.h"
#include "tests/storage/support.h"
#include "tuning/recommend.h"

namespace larder::tuning {
namespace {

namespace fs = std::filesystem;
using larder::testing::CodeOf;
using larder::testing::Must;
using larder::testing::TempDir;

class SearchTest : public ::testing::Test {
 protected:
  SearchTest() { fs::create_directories(dir_.path("files")); }

  static WorkloadModel Tiny() {
    WorkloadModel model = Must(FindProfile("event-flood"));
    return Scaled(model, 0.01);
  }
  SearchOptions Options() const {
    SearchOptions options;
    // The current options, RocksDB's, RocksDB's with our values, and two changes.
    options.matrix = MakeSmallMatrix({});
    options.matrix.resize(5);
    options.rounds = {0.3, 1};
    options.folder = dir_.path("scratch");
    return options;
  }
  std::string File(const std::string& name) const { return dir_.path("files") + "/" + name; }
  // How many measurements a results file holds.
  static size_t Lines(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    size_t count = 0;
    while (std::getline(file, line)) ++count;
    return count - 1;
  }

  TempDir dir_;
};

TEST_F(SearchTest, MeasuresEverythingAndRecommends) {
  const auto source = Must(SourceOfModel(Tiny(), nullptr));
  double last = 0;
  SearchOptions options = Options();
  options.progress = [&](const std::string& what, double done) {
    EXPECT_FALSE(what.empty());
    EXPECT_LE(done, 1.001);
    last = done;
  };
  const SearchOutcome outcome = Must(Search(*source, options));
  EXPECT_GT(last, 0.5);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(outcome.measured.front().candidate.name, kCurrentName);
  for (const char* name : {kCurrentName, kRocksDbName, kRocksDbValuesName}) {
    const Measured* const entry = outcome.Find(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->runs.size(), 2u) << name;
    EXPECT_EQ(entry->failure, "") << name;
    EXPECT_GT(entry->mean.write_amplification, 0.5) << name;
    EXPECT_GT(entry->mean.space_amplification, 0.5) << name;
    EXPECT_GT(entry->mean.restart_ms, 0) << name;
    EXPECT_GT(entry->mean.commit_p99_us, entry->mean.commit_p50_us) << name;
    EXPECT_GT(entry->mean.cpu_us_per_event, 0) << name;
    EXPECT_GT(entry->mean.memory_mib, 0) << name;
    // The same rows whatever the options.
    EXPECT_EQ(entry->mean.content, outcome.measured.front().mean.content) << name;
  }
  // Whole documents against compressed ones: that much is certain.
  EXPECT_GT(outcome.Find(kRocksDbName)->mean.write_amplification,
            outcome.Find(kRocksDbValuesName)->mean.write_amplification * 1.2);
  EXPECT_EQ(Recommend(outcome).size(), kAims.size());
  EXPECT_FALSE(fs::exists(dir_.path("scratch") + "/candidate"));
}

TEST_F(SearchTest, GoesOnAfterAnInterruptionAndMeasuresNothingTwice) {
  const auto source = Must(SourceOfModel(Tiny(), nullptr));
  SearchOptions options = Options();
  options.results = File("results");
  std::stop_source stop;
  options.stop = stop.get_token();
  options.progress = [&](const std::string& what, double) {
    if (what.find("log 4M") != std::string::npos) stop.request_stop();
  };
  const SearchOutcome first = Must(Search(*source, options));
  EXPECT_TRUE(first.interrupted);
  const size_t before = Lines(options.results);
  EXPECT_GT(before, 2u);
  // A run that was being written when the power went.
  std::ofstream(options.results, std::ios::app) << R"({"candidate":"cut o)";

  options.stop = {};
  size_t looked = 0;
  options.progress = [&](const std::string&, double) { ++looked; };
  const SearchOutcome second = Must(Search(*source, options));
  EXPECT_FALSE(second.interrupted);
  const size_t after = Lines(options.results);
  EXPECT_GT(after, before);
  // All of it again: nothing is left to measure.
  const SearchOutcome third = Must(Search(*source, options));
  EXPECT_EQ(Lines(options.results), after);
  ASSERT_EQ(third.measured.size(), second.measured.size());
  for (size_t i = 0; i < third.measured.size(); ++i) {
    EXPECT_EQ(third.measured[i].mean.restart_ms, second.measured[i].mean.restart_ms);
  }
  // And from the file alone.
  const SearchOutcome read = Must(OutcomeOf(*Must(Results::Load(options.results))));
  EXPECT_EQ(read.measured.size(), second.measured.size());
  EXPECT_EQ(Recommend(read)[0].chosen->candidate.name, Recommend(second)[0].chosen->candidate.name);
}

TEST_F(SearchTest, ResultsOfSomethingElseAreNotMixedIn) {
  const auto source = Must(SourceOfModel(Tiny(), nullptr));
  SearchOptions options = Options();
  options.results = File("results");
  options.matrix.resize(1);
  options.rounds = {0.1};
  Must(Search(*source, options));
  WorkloadModel other = Tiny();
  other.seed = 5;
  const auto refused = Search(*Must(SourceOfModel(other, nullptr)), options);
  ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("another workload"), std::string::npos);
  // Half as long is another measurement under the same name.
  options.rounds = {0.05};
  const auto shorter = Search(*source, options);
  ASSERT_EQ(CodeOf(shorter), ErrorCode::kInvalidArgument);
  EXPECT_NE(shorter.error().message.find("0.1, now 0.05"), std::string::npos)
      << shorter.error().message;
  options.rounds = {0.1};
  EXPECT_NE(Must(Results::Load(options.results))->header().version.find("RocksDB "),
            std::string::npos);
  options.memory_limit = size_t{128} << 20;
  EXPECT_EQ(CodeOf(Search(*source, options)), ErrorCode::kInvalidArgument);
  std::ofstream(File("garbage")) << "hello\n";
  options.results = File("garbage");
  EXPECT_FALSE(Search(*source, options));
}

TEST_F(SearchTest, AReportRefusesWhatHoldsOtherRowsToo) {
  const auto source = Must(SourceOfModel(Tiny(), nullptr));
  SearchOptions options = Options();
  options.results = File("results");
  options.rounds = {0.1};
  options.repeats = 1;
  Must(Search(*source, options));
  const std::string name = options.matrix.back().name;
  RunResult wrong = *Must(Results::Load(options.results))->Find({name, 0, 0});
  wrong.measures->content = "other";
  {
    const auto header = Must(Results::Load(options.results))->header();
    ASSERT_TRUE(Must(Results::Open(options.results, header))->Add({name, 0, 0}, wrong));
  }
  for (const SearchOutcome& outcome :
       {Must(OutcomeOf(*Must(Results::Load(options.results)))), Must(Search(*source, options))}) {
    for (const Measured& entry : outcome.measured) {
      EXPECT_EQ(entry.failure.find("other rows") != std::string::npos, entry.candidate.name == name)
          << entry.candidate.name << entry.failure;
    }
  }
}

TEST_F(SearchTest, ADiskBudgetIsKept) {
  const auto source = Must(SourceOfModel(Tiny(), nullptr));
  SearchOptions options = Options();
  options.matrix.resize(4);
  options.rounds = {0.3};
  options.disk_budget = 10'000;
  const SearchOutcome outcome = Must(Search(*source, options));
  const Measured& refused = outcome.measured.back();
  EXPECT_NE(refused.failure.find("disk budget"), std::string::npos) << refused.failure;
  for (const Recommendation& entry : Recommend(outcome)) EXPECT_TRUE(entry.keep_current);
}

TEST_F(SearchTest, AScratchThatCannotBeMadeIsAnErrorAndNothingIsLost) {
  const auto source = Must(SourceOfModel(Tiny(), nullptr));
  SearchOptions options = Options();
  std::ofstream(File("file")) << "x";
  options.folder = File("file") + "/scratch";
  EXPECT_EQ(CodeOf(Search(*source, options)), ErrorCode::kIo);
}

TEST_F(SearchTest, TheSameSeedWritesTheSameRowsInTwoRuns) {
  SearchOptions options = Options();
  options.matrix.resize(3);
  options.rounds = {1};
  options.repeats = 1;
  std::vector<Measures> runs;
  for (int i = 0; i < 2; ++i) {
    const auto source = Must(SourceOfModel(Tiny(), nullptr));
    runs.push_back(Must(Search(*source, options)).measured.front().mean);
  }
  EXPECT_EQ(runs[0].content, runs[1].content);
  // Bytes are not times: the log is the same to the byte, tables nearly.
  EXPECT_NEAR(runs[0].write_amplification / runs[1].write_amplification, 1, 0.15);
}

// A store that was recorded while it worked.
class TraceSearchTest : public SearchTest {
 protected:
  void SetUp() override {
    StoreOptions options;
    options.path = dir_.path();
    const auto store = Must(Store::Open(options));
    const CollectionId pods = Must(store->OpenCollection(larder::testing::SpecOf("pods"))).id;
    std::vector<ObjectPtr> objects;
    for (uint64_t i = 0; i < 300; ++i) objects.push_back(larder::testing::Pod(i));
    larder::testing::PutAll(*store, pods, objects);
    store->WaitForDictionaries();
    Must(StartRecording(*store, {.path = File("trace")}));
    for (uint64_t i = 0; i < 400; ++i) {
      larder::testing::PutAll(*store, pods, {larder::testing::Pod(i % 200, 2 + i / 200)});
      (void)store->Get(pods, larder::testing::PodKey(i % 300));
    }
    Must(StopRecording(*store));
  }
  // Names, sizes and times of everything in the store's directory.
  std::string Listing() const {
    std::vector<std::string> lines;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
      if (!entry.is_regular_file()) continue;
      lines.push_back(fmt::format("{} {} {}", entry.path().string(), entry.file_size(),
                                  entry.last_write_time().time_since_epoch().count()));
    }
    std::sort(lines.begin(), lines.end());
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
  }
  Result<std::unique_ptr<Store>> Reader() const {
    StoreOptions options;
    options.path = dir_.path();
    return Store::OpenReadOnly(options);
  }
};

TEST_F(TraceSearchTest, ReplaysOnCopiesAndLeavesTheStoreAlone) {
  const std::string before = Listing();
  {
    const auto store = Must(Reader());
    const auto source = Must(SourceOfTrace(File("trace"), *store));
    SearchOptions options = Options();
    options.rounds = {1};
    options.repeats = 1;
    const SearchOutcome outcome = Must(Search(*source, options));
    const Measures& current = outcome.measured.front().mean;
    EXPECT_GT(current.write_amplification, 0.9);
    EXPECT_LT(current.write_amplification, 10);
    for (const Measured& entry : outcome.measured) EXPECT_EQ(entry.failure, "");
  }
  EXPECT_EQ(Listing(), before);
}

TEST_F(TraceSearchTest, AModelOfAStoreIsReplayedWithItsObjects) {
  const auto store = Must(Reader());
  WorkloadModel model = Must(ModelOf(*store));
  model.events = 500;
  const auto source = Must(SourceOfModel(model, store.get()));
  SearchOptions options = Options();
  options.matrix.resize(1);
  options.rounds = {1};
  const SearchOutcome outcome = Must(Search(*source, options));
  EXPECT_GT(outcome.measured.front().mean.write_amplification, 0.5);
  model.resources[0].resource = "nodes";
  const auto missing = SourceOfModel(model, store.get());
  ASSERT_EQ(CodeOf(missing), ErrorCode::kInvalidArgument);
  EXPECT_NE(missing.error().message.find("nodes"), std::string::npos);
}

TEST_F(TraceSearchTest, AModelIsReplayedWithTheCollectionThatHasItsObjectsAndAsLargeAsItSays) {
  {
    const auto owner = Must(Store::Open({.path = dir_.path()}));
    // The one with the objects was opened first; it is emptied, and another one filled.
    CollectionSpec spec = larder::testing::SpecOf("pods");
    const CollectionId first = Must(owner->OpenCollection(spec)).id;
    spec.ns = "shop";
    const CollectionId second = Must(owner->OpenCollection(spec)).id;
    ASSERT_LT(first, second);
    Transaction empty = owner->Begin();
    for (uint64_t i = 0; i < 300; ++i) empty.DeleteObject(first, larder::testing::PodKey(i));
    ASSERT_TRUE(owner->Commit(std::move(empty), Durability::kSync));
    std::vector<ObjectPtr> objects;
    for (uint64_t i = 0; i < 50; ++i) objects.push_back(larder::testing::Pod(i));
    larder::testing::PutAll(*owner, second, objects);
  }
  const auto store = Must(Reader());
  const WorkloadModel model = Scaled(Must(ModelOf(*store)), 2);
  const auto source = Must(SourceOfModel(model, store.get()));
  const auto target = Must(Store::Open({.path = dir_.path("target")}));
  ASSERT_TRUE(source->Prepare(*target));
  size_t objects = 0;
  ASSERT_TRUE(source->Base(*target, [&](Step& step) -> Result<void> {
    objects += step.objects;
    return {};
  }));
  EXPECT_EQ(objects, 100u);
}

TEST_F(TraceSearchTest, ATraceOfAnotherStoreIsRefused) {
  const auto other = Must(Store::Open({.path = dir_.path("other")}));
  EXPECT_EQ(CodeOf(SourceOfTrace(File("trace"), *other)), ErrorCode::kInvalidArgument);
}

TEST(Matrix, EveryChangeIsOneThatAStoreTakes) {
  const auto matrix = MakeMatrix({});
  EXPECT_GT(matrix.size(), 40u);
  std::set<std::string> names, texts;
  for (const Candidate& candidate : matrix) {
    EXPECT_TRUE(names.insert(candidate.name).second) << candidate.name;
    if (candidate.baseline) continue;
    EXPECT_TRUE(texts.insert(candidate.engine.ToText()).second) << candidate.name;
    EXPECT_EQ(Must(EngineOptions::Parse(candidate.engine.ToText(), EngineOptions::Use::kMeasure)),
              candidate.engine);
  }
  const Candidate both = Must(Combine({}, matrix[5], matrix.back()));
  EXPECT_EQ(both.changes, 2u);
  EXPECT_EQ(CodeOf(Combine({}, matrix[5], matrix[5])), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace larder::tuning
