// `larder tune` as a person uses it: record or model, replay, report, run with what it wrote.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "apiserver/simulator.h"
#include "apiserver/workload.h"
#include "storage/mailbox.h"
#include "tests/tools/sample_store.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

// One candidate beside the baselines: enough to see everything work.
constexpr const char* kOne = "--candidate=larder.max_log_bytes=4M";

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TuneTest : public ::testing::Test {
 protected:
  std::string Path() const { return scratch_ / "store"; }
  // A store with some pods, closed.
  void Fill(uint64_t pods) {
    const auto store = Store::Open({.path = Path()});
    ASSERT_TRUE(store);
    CollectionSpec spec;
    spec.cluster_uid = "c";
    spec.resource = *LookupResource("pods");
    const CollectionId id = (*store)->OpenCollection(spec)->id;
    for (uint64_t i = 0; i < pods; ++i) Put(**store, id, i, 0);
  }
  static void Put(Store& store, CollectionId id, uint64_t index, uint32_t revision) {
    Transaction transaction = store.Begin();
    const ObjectPtr pod = *Object::Parse(apiserver::MakePod(1, index, revision));
    transaction.PutObject(id, *store.Encode(id, *pod));
    ASSERT_TRUE(store.Commit(std::move(transaction), Durability::kRelaxed));
  }
  Outcome Replay(std::vector<std::string> words, const RunOptions& options = {}) const {
    words.insert(words.begin(), {"tune", "replay", "--scratch", scratch_.path()});
    return RunLarder(words, options);
  }

  ScratchDirectory scratch_;
};

TEST_F(TuneTest, RecordsALiveStoreAndReplaysTheTraceOnACopy) {
  Fill(100);
  const std::string trace = scratch_ / "trace";
  EXPECT_EQ(RunLarder({"tune", "record", "--store", Path(), "--for", "50ms"}).exit_code, 3);
  {
    StoreOptions options;
    options.path = Path();
    options.sync_interval = std::chrono::milliseconds(5);
    const auto store = Store::Open(options);
    ASSERT_TRUE(store);
    std::atomic<bool> stop{false};
    std::jthread writer([&] {
      for (uint64_t i = 0; !stop.load(); ++i) {
        Put(**store, 1, i % 100, static_cast<uint32_t>(i));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    const Outcome recorded =
        RunLarder({"tune", "record", "--store", Path(), "--for", "200ms", "-f", trace});
    stop.store(true);
    ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
    EXPECT_NE(recorded.out.find("pods"), std::string::npos) << recorded.out;
    EXPECT_NE(recorded.out.find("commits"), std::string::npos) << recorded.out;
  }
  const Outcome replayed =
      Replay({"--store", Path(), "--workload", trace, kOne, "--repeats", "1", "-o", "json"});
  ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
  const Json json = Json::parse(replayed.out, nullptr, false);
  EXPECT_EQ(json["recommendations"].size(), 4u) << replayed.out;
  EXPECT_EQ(json["candidates"][0]["name"], "current");

  // Of another store, cut off, not there, nothing at all.
  ScratchDirectory elsewhere;
  FillSampleStore(elsewhere / "other");
  const Outcome other = Replay({"--store", elsewhere / "other", "--workload", trace});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("another store"), std::string::npos) << other.err;
  EXPECT_EQ(Replay({"--workload", trace}).exit_code, 2);
  fs::resize_file(trace, fs::file_size(trace) - 10);
  const Outcome cut = Replay({"--store", Path(), "--workload", trace});
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_NE(cut.err.find("cut off"), std::string::npos) << cut.err;
  EXPECT_EQ(Replay({"--store", Path()}).exit_code, 2);
  EXPECT_EQ(Replay({"--profile", "nothing"}).exit_code, 2);
}

TEST_F(TuneTest, AProfileEndsInATableAPageAndOptionsThatRunTakes) {
  const std::string results = scratch_ / "results", options = scratch_ / "tuned";
  const std::vector<std::string> words = {"--profile", "event-flood",     "--scale", "0.01",
                                          kOne,        "--repeats",       "1",       "--results",
                                          results,     "--aim",           "restart", "--tolerance",
                                          "10",        "--write-options", options};
  const Outcome table = Replay(words);
  ASSERT_EQ(table.exit_code, 0) << table.err;
  for (const char* word : {"CANDIDATE", "rocksdb-defaults", "balanced: ", "wear: ", "against "}) {
    EXPECT_NE(table.out.find(word), std::string::npos) << word << "\n" << table.out;
  }
  const Outcome html =
      RunLarder({"tune", "report", results, "-o", "html", "-f", scratch_ / "page.html"});
  ASSERT_EQ(html.exit_code, 0) << html.err;
  const std::string page = ReadAll(scratch_ / "page.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);  // fetches nothing

  auto simulator = apiserver::Simulator::Start({});
  ASSERT_TRUE(simulator);
  ASSERT_TRUE((*simulator)->Load(50));
  const std::vector<std::string> run = {
      "run",      "pods", "--store", Path(), "--server", (*simulator)->Url(), "--until-synced",
      "--options"};
  const auto with = [&](const std::string& file) {
    std::vector<std::string> all = run;
    all.push_back(file);
    return RunLarder(all);
  };
  EXPECT_EQ(with(options).exit_code, 0);
  std::ofstream(options, std::ios::app) << "\n[DBOptions]\nmake_it_fast=true\n";
  const Outcome unknown = with(options);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("make_it_fast"), std::string::npos) << unknown.err;
  EXPECT_EQ(with(scratch_ / "missing").exit_code, 2);
}

TEST_F(TuneTest, CtrlCKeepsWhatWasMeasuredAndTheSameCommandGoesOn) {
  const std::string results = scratch_ / "results";
  const std::vector<std::string> words = {"--profile", "event-flood", "--scale",   "0.02", kOne,
                                          "--repeats", "1",           "--results", results};
  // As soon as two measurements are there.
  RunOptions options;
  options.signal = SIGINT;
  options.signal_after = std::chrono::seconds(30);
  options.stop_when = [&](const std::string&) {
    const std::string text = ReadAll(results);
    return std::count(text.begin(), text.end(), '\n') >= 3;
  };
  const Outcome cut = Replay(words, options);
  const std::string kept = ReadAll(results);
  EXPECT_GE(std::count(kept.begin(), kept.end(), '\n'), 3);
  // It may have been done before the signal came; then there was nothing to interrupt.
  if (cut.exit_code != 0) {
    EXPECT_EQ(cut.exit_code, 130) << cut.err;
    EXPECT_NE(cut.err.find("goes on from there"), std::string::npos) << cut.err;
  }
  const Outcome rest = Replay(words);
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  // What was measured is not measured again: every line is still there.
  const std::string all = ReadAll(results);
  std::istringstream lines(kept.substr(0, kept.rfind('\n') + 1));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_NE(all.find(line), std::string::npos) << line;
  }
  // Nothing is left behind.
  for (const auto& entry : fs::directory_iterator(scratch_.path())) {
    EXPECT_EQ(entry.path().filename().string().rfind("larder-tune-", 0), std::string::npos);
  }
}

// On a disk of 2 MiB of its own, where a file system may be mounted.
TEST_F(TuneTest, AFullDiskIsAnErrorThatKeepsTheResultsAndLeavesTheStoreAlone) {
  Fill(200);
  const std::string small = scratch_ / "small", results = scratch_ / "results",
                    model = scratch_ / "model.json";
  ASSERT_TRUE(fs::create_directory(small));
  ASSERT_EQ(RunLarder({"tune", "model", "--store", Path(), "--file", model}).exit_code, 0);
  Json shorter = Json::parse(ReadAll(model));
  shorter["events"] = 400;
  std::ofstream(model) << shorter;
  std::map<std::string, std::string> before;
  for (const auto& entry : fs::directory_iterator(Path())) {
    before[entry.path()] = ReadAll(entry.path());
  }
  const auto replay = [&](const char* size) {
    RunOptions options;
    options.program = "unshare";
    return RunLarder(
        {"--user",     "--map-root-user",
         "--mount",    "sh",
         "-c",         R"(mount -t tmpfs -o size="$1" none "$2" || exit 77; shift 2; exec "$@")",
         "sh",         size,
         small,        LARDER_COMMAND,
         "tune",       "replay",
         "--store",    Path(),
         "--workload", model,
         kOne,         "--repeats",
         "1",          "--scratch",
         small,        "--results",
         results},
        options);
  };
  const Outcome full = replay("2m");
  if (full.exit_code == 77 || full.exit_code == 127 || full.err.rfind("unshare:", 0) == 0) {
    GTEST_SKIP() << "nothing can be mounted here: " << full.err;
  }
  EXPECT_EQ(full.exit_code, 3) << full.err;
  EXPECT_TRUE(full.err.find("No space left") != std::string::npos ||
              full.err.find("is full") != std::string::npos)
      << full.err;
  for (const auto& [path, bytes] : before) EXPECT_EQ(ReadAll(path), bytes) << path;
  EXPECT_TRUE(fs::exists(results));
  // With room the same command goes on.
  const Outcome rest = replay("64m");
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
}

TEST_F(TuneTest, AppliesOptionsToAStoreAndTakesThemBack) {
  Fill(1);
  const std::string file = scratch_ / "options";
  std::ofstream(file) << "[Larder]\nmax_log_bytes=8M\n[DBOptions]\nmax_background_jobs=3\n";
  const Outcome applied = RunLarder({"tune", "apply", "--store", Path(), file});
  EXPECT_EQ(applied.exit_code, 0) << applied.err;
  EXPECT_NE(applied.out.find("larder.max_log_bytes=8388608 at the next start"), std::string::npos)
      << applied.out;
  EXPECT_NE(applied.out.find("1 of 2 options"), std::string::npos) << applied.out;
  EXPECT_EQ((*Store::Open({.path = Path()}))->options().max_log_bytes, 8u << 20);
  std::ofstream(file) << "[DBOptions]\natomic_flush=false\n";
  const Outcome refused = RunLarder({"tune", "apply", "--store", Path(), file});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("atomic_flush"), std::string::npos) << refused.err;
  EXPECT_EQ((*Store::Open({.path = Path()}))->options().max_log_bytes, 8u << 20);
  EXPECT_EQ(RunLarder({"tune", "apply", "--store", Path()}).exit_code, 2);
  EXPECT_EQ(RunLarder({"tune", "apply", "--store", Path(), "--remove"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(AppliedOptionsPath(Path())));
  EXPECT_NE(RunLarder({"tune", "options"}).out.find("larder.max_log_bytes"), std::string::npos);
}

}  // namespace
}  // namespace larder
