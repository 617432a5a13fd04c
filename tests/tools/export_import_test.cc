// Objects on their way out of a store and back.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "indexer/indexer.h"
#include "queue/work_queue.h"
#include "tests/tools/commands_fixture.h"
#include "tests/tools/served_store.h"
#include "tools/command.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

TEST_F(CommandsTest, WhatIsNoExportIsNotImported) {
  for (const char* text : {"", "{\"kind\":\"Pod\"}\n", "pods\n"}) {
    const std::string made = scratch_ / "made";
    const Outcome import = RunLarder({"import", "--store", made}, {.input = text});
    EXPECT_EQ(import.exit_code, 2) << import.err;
    EXPECT_NE(import.err.find("larder export"), std::string::npos) << import.err;
    EXPECT_FALSE(fs::exists(made)) << text;
  }
}

TEST_F(CommandsTest, AnObjectOfLevelsWithoutEndIsNotImportedAndEndsNoCommand) {
  const std::string deep =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"deep","namespace":"shop","uid":"u",)"
      R"("resourceVersion":"9"},"spec":)" +
      std::string(500'000, '[') + std::string(500'000, ']') + "}";
  const Outcome pods = Run({"export", "pods"});
  const std::string collection = pods.out.substr(0, pods.out.find('\n') + 1);
  const Outcome import =
      RunLarder({"import", "--store", scratch_ / "copy"}, {.input = collection + deep + "\n"});
  EXPECT_EQ(import.exit_code, 2);
  EXPECT_NE(import.err.find("nested too deeply"), std::string::npos) << import.err;
  {
    const auto store = Store::Open({.path = Path()});
    PutObject(**store, "pods", deep);  // as somebody forges a row
  }
  for (const char* output : {"json", "yaml"}) {
    EXPECT_EQ(Run({"get", "pods", "deep", "-n", "shop", "-o", output}).exit_code, 0) << output;
  }
}

TEST_F(CommandsTest, ExportAndImportLoseNothing) {
  for (const char* file : {"all.jsonl", "all.jsonl.zst"}) {
    const std::string path = scratch_ / file, copy = scratch_ / (std::string(file) + ".store");
    ASSERT_EQ(Run({"export", "-f", path}).exit_code, 0);
    const Outcome imported = RunLarder({"import", "-f", path, "--store", copy});
    ASSERT_EQ(imported.exit_code, 0) << imported.err;
    EXPECT_EQ(RunLarder({"diff", Path(), copy}).exit_code, 0);
    const Json collections =
        Json::parse(RunLarder({"collections", "--json", "--store", copy}).out, nullptr, false);
    EXPECT_EQ(collections[0]["state"], "synced");
    EXPECT_EQ(collections[0]["resourceVersion"], "7");
  }
  EXPECT_LT(fs::file_size(scratch_ / "all.jsonl.zst"), fs::file_size(scratch_ / "all.jsonl"));
  const Outcome some = Run({"export", "nodes"});
  EXPECT_EQ(std::count(some.out.begin(), some.out.end(), '\n'), 3) << some.out;
}

TEST_F(CommandsTest, AnExportGoesWhereItIsTold) {
  const std::string real = scratch_ / "real.jsonl.zst", link = scratch_ / "link.jsonl.zst";
  std::ofstream(real) << "old";
  fs::create_symlink(real, link);
  ASSERT_EQ(Run({"export", "-f", link}).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_GT(fs::file_size(real), 100U);
  ASSERT_EQ(Run({"export", "-f", "/dev/null"}).exit_code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const Outcome full = Run({"export", "-f", "/dev/full"});
  EXPECT_EQ(full.exit_code, 3);
  EXPECT_NE(full.err.find("No space left"), std::string::npos) << full.err;

  // A flipped bit and a lost end are noticed, wherever they are.
  const std::string copy = scratch_ / "copy";
  {
    std::fstream file(real, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(50);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(50);
    file.put(byte);
  }
  EXPECT_EQ(RunLarder({"import", "-f", real, "--store", copy}).exit_code, 2);
  ASSERT_EQ(Run({"export", "-f", real}).exit_code, 0);
  fs::resize_file(real, fs::file_size(real) - 1);
  const Outcome cut = RunLarder({"import", "-f", real, "--store", copy});
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_NE(cut.err.find("cut off"), std::string::npos) << cut.err;
}

TEST_F(CommandsTest, AnImportMakesACollectionWhatTheFileSays) {
  const std::string path = scratch_ / "all.jsonl", old = scratch_ / "old";
  ASSERT_EQ(Run({"export", "-f", path}).exit_code, 0);
  ASSERT_EQ(RunLarder({"import", "-f", path, "--store", old}).exit_code, 0);
  {
    const auto store = Store::Open({.path = old});
    PutPod(**store, "extra-0", "Running", "20");
  }
  ASSERT_EQ(RunLarder({"diff", Path(), old}).exit_code, 1);
  const Outcome again = RunLarder({"import", "-f", path, "--store", old});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(RunLarder({"diff", Path(), old}).exit_code, 0);
  EXPECT_EQ(RunLarder({"verify", "--store", old}).exit_code, 0);
}

TEST_F(CommandsTest, AnExportInTheMiddleOfAListIsNotCalledComplete) {
  const std::string path = scratch_ / "listed", copy = scratch_ / "copy";
  {
    const auto store = Store::Open({.path = path});
    Written pods(store->get(), "pods");
    pods.BeginList();
    pods.Commit({{"a/one", "7"}});
    pods.EndList("1000");
    pods.BeginRewoundList();
  }
  const Outcome exported = RunLarder({"export", "--store", path});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_NE(exported.err.find("pods: not listed to the end"), std::string::npos) << exported.err;
  ASSERT_EQ(RunLarder({"import", "--store", copy}, {.input = exported.out}).exit_code, 0);
  const Json collections =
      Json::parse(RunLarder({"collections", "--json", "--store", copy}).out, nullptr, false);
  ASSERT_EQ(collections.size(), 1u);
  EXPECT_NE(collections[0]["state"], "synced") << collections;
}

TEST_F(CommandsTest, AnImportThatWasCutOffLeavesACollectionThatIsListedAnew) {
  const Outcome pods = Run({"export", "pods"});
  const size_t last = pods.out.rfind('\n', pods.out.size() - 2);
  ASSERT_EQ(Run({"import"}).exit_code, 2) << "nothing is no export";
  const Outcome cut =
      RunLarder({"import", "--store", Path()}, {.input = pods.out.substr(0, last + 1)});
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  for (const Json& collection : RunJson({"collections"})) {
    if (collection["resource"] != "pods") continue;
    EXPECT_NE(collection["state"], "synced");
    return;
  }
  ADD_FAILURE() << "no pods";
}

TEST_F(CommandsTest, ACutExportIsNotTakenForComplete) {
  const Outcome pods = Run({"export", "pods"});
  const size_t last = pods.out.rfind('\n', pods.out.size() - 2);
  const std::string copy = scratch_ / "cut";
  const Outcome imported =
      RunLarder({"import", "--store", copy}, {.input = pods.out.substr(0, last + 1)});
  EXPECT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_NE(imported.err.find("ends in the middle"), std::string::npos) << imported.err;
  const Json collections =
      Json::parse(RunLarder({"collections", "--json", "--store", copy}).out, nullptr, false);
  EXPECT_NE(collections[0]["state"], "synced");
  const Outcome garbage = RunLarder({"import", "--store", copy}, {.input = "garbage\n"});
  EXPECT_EQ(garbage.exit_code, 2);
  EXPECT_NE(garbage.err.find("larder export"), std::string::npos) << garbage.err;
}

}  // namespace
}  // namespace larder
