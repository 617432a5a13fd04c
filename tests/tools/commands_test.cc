// The commands that look after a store: figures, verification, snapshots, queues, indexes, files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "apiserver/simulator.h"
#include "indexer/indexer.h"
#include "queue/work_queue.h"
#include "reflector/shard_selector.h"
#include "tests/queue/damage.h"
#include "tests/tools/commands_fixture.h"
#include "tests/tools/sample_store.h"
#include "tools/command.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

TEST_F(CommandsTest, AnExceptionIsAMessageAndAnExitCode) {
  const Outcome demo = RunLarder({"demo"}, {.environment = {"TMPDIR=" + (scratch_ / "nowhere")}});
  EXPECT_EQ(demo.exit_code, 3) << demo.err;
  EXPECT_EQ(demo.err.rfind("larder: ", 0), 0U) << demo.err;
}

TEST_F(CommandsTest, CollectionsAndStats) {
  const Json collections = RunJson({"collections"});
  EXPECT_EQ(collections.size(), 8u);
  EXPECT_EQ(collections[0]["resource"], "pods");
  EXPECT_EQ(collections[0]["state"], "synced");
  const Json stats = RunJson({"stats"});
  EXPECT_EQ(stats["collections"][0]["objects"], 3);
  EXPECT_GT(stats["collections"][0]["jsonBytes"], stats["collections"][0]["objects"]);
  // All were written at one moment of the past, so they change, but not all the time.
  EXPECT_GT(stats["collections"][0]["churn"]["updatesPerSecond"], 0);
  EXPECT_EQ(stats["families"].size(), 5u);
  EXPECT_GE(stats["families"][1]["rows"], 10);
  EXPECT_EQ(stats["queues"][0]["dead"], 1);
  const Outcome text = Run({"stats"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("disk: "), std::string::npos) << text.out;
}

TEST_F(CommandsTest, WhatWasNotCountedIsNotZero) {
  const Json stats = RunJson({"stats", "--fast"});
  for (const char* figure : {"objects", "jsonBytes", "storedBytes"}) {
    EXPECT_TRUE(stats["collections"][0][figure].is_null()) << figure;
  }
  const Outcome text = Run({"stats", "--fast"});
  const std::string row = text.out.substr(text.out.find("\npods "));
  EXPECT_NE(row.find("synced         -"), std::string::npos) << text.out;
  // No time is not 1970.
  for (const Json& item : RunJson({"queue", "show", "pods"})) {
    EXPECT_EQ(item["notBefore"].is_null(), item["state"] != "delayed") << item;
  }
  ASSERT_EQ(Run({"queue", "drain", "pods", "--all"}).exit_code, 0);
  {
    const auto store = Store::Open({.path = Path()});
    Transaction transaction = (*store)->Begin();
    transaction.PutQueueItem("pods", "shop/web-1", 9,
                             {.added_ms = 1'700'000'000'000, .dead = true});
    ASSERT_TRUE((*store)->Commit(std::move(transaction), Durability::kSync));
  }
  EXPECT_TRUE(RunJson({"queue", "ls"})[0]["oldest"].is_null());
}

TEST_F(CommandsTest, StatsSayWhoHasTheStoreOpen) {
  EXPECT_EQ(RunJson({"stats"})["ownerPid"], 0);
  const auto owner = Store::Open({.path = Path()});
  EXPECT_EQ(RunJson({"stats"})["ownerPid"], ::getpid());
}

TEST_F(CommandsTest, AStoreThatIsNotThereIsNoAnswer) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"verify"}, {"get", "pods"}, {"stats"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--store", scratch_ / "none"});
    EXPECT_EQ(RunLarder(all).exit_code, 3) << words.front();
  }
  EXPECT_EQ(RunLarder({"diff", Path(), scratch_ / "none"}).exit_code, 3);
}

TEST_F(CommandsTest, VerifySaysThatAllIsSound) {
  const Outcome sound = Run({"verify"});
  EXPECT_EQ(sound.exit_code, 0) << sound.out;
  EXPECT_NE(sound.out.find("all sound"), std::string::npos);
  EXPECT_EQ(RunJson({"verify"})["objects"], 10);
}

TEST_F(CommandsTest, VerifyNamesDamageAndRepairKeepsTheRest) {
  ASSERT_NO_FATAL_FAILURE(Damage());
  const Outcome damaged = Run({"verify"});
  EXPECT_EQ(damaged.exit_code, 1) << damaged.out << damaged.err;
  EXPECT_NE((damaged.out + damaged.err).find("--repair"), std::string::npos)
      << damaged.out << damaged.err;
  EXPECT_NE(damaged.out.find("objects of pods: "), std::string::npos) << damaged.out;
  std::set<std::string> lines;
  std::istringstream text(damaged.out);
  for (std::string line; std::getline(text, line);) {
    EXPECT_TRUE(lines.insert(line).second) << "twice: " << line;
  }
  const Outcome repaired = Run({"verify", "--repair"});
  EXPECT_EQ(repaired.exit_code, 0) << repaired.out << repaired.err;
  EXPECT_NE(repaired.out.find("kept "), std::string::npos) << repaired.out;
  // Nobody knows what was in a block that cannot be read.
  EXPECT_NE(repaired.out.find("could not be read, and how much was there is not known"),
            std::string::npos)
      << repaired.out;
  EXPECT_EQ(repaired.out.find("lost 0 objects"), std::string::npos) << repaired.out;
  EXPECT_EQ(Run({"verify"}).exit_code, 0);
}

TEST_F(CommandsTest, VerifyNamesAnIndexEntryByItsIndexAndObject) {
  {
    const auto store = Store::Open({.path = Path()});
    const auto collections = (*store)->Collections();
    const CollectionId pods = collections->front().id;
    const auto indexes = (*store)->IndexRecords(pods);
    Transaction transaction = (*store)->Begin();
    transaction.PutIndexKey(pods, indexes->front().id, "n9", {"shop", "ghost"}, "u");
    ASSERT_TRUE((*store)->Commit(std::move(transaction), Durability::kSync));
  }
  const Outcome stray = Run({"verify"});
  EXPECT_EQ(stray.exit_code, 1);
  EXPECT_NE(stray.out.find(" of pods, n9 -> shop/ghost: leads to no object\n"), std::string::npos)
      << stray.out;
}

TEST_F(CommandsTest, WhoMeetsDamageNamesTheRepair) {
  ASSERT_NO_FATAL_FAILURE(Damage());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"get", "pods", "-A"}, {"export"}, {"stats"}}) {
    const Outcome met = Run(words);
    EXPECT_EQ(met.exit_code, 1) << words.front();
    EXPECT_NE(met.err.find("larder verify --repair --store " + Path()), std::string::npos)
        << met.err;
  }
  const Outcome doctor = Run({"doctor"});
  EXPECT_EQ(doctor.exit_code, 1) << doctor.err;
  EXPECT_NE(doctor.out.find("problem the store is damaged"), std::string::npos) << doctor.out;
}

TEST_F(CommandsTest, SnapshotsAreMadeReadRestoredAndRemoved) {
  ASSERT_EQ(Run({"snapshot", "create", "before"}).exit_code, 0);
  EXPECT_EQ(Run({"snapshot", "create", "before"}).exit_code, 2);  // it is there already
  {
    const auto store = Store::Open({.path = Path()});
    DeletePod(**store, "db-0", "20");
    PutPod(**store, "web-0", "Failed", "21");
    PutPod(**store, "new-0", "Running", "22");
  }
  EXPECT_EQ(RunJson({"snapshot", "ls"})[0]["name"], "before");
  const std::string snapshot = Path() + "/snapshots/before";
  EXPECT_NE(RunLarder({"get", "pods", "-A", "--store", snapshot}).out.find("db-0"),
            std::string::npos);
  const Outcome diff = RunLarder({"diff", snapshot, Path()});
  EXPECT_EQ(diff.exit_code, 1) << diff.err;
  EXPECT_NE(
      diff.out.find("pods                                                 1         1         1"),
      std::string::npos)
      << diff.out;
  EXPECT_NE(diff.out.find("- pods shop/db-0"), std::string::npos);
  EXPECT_NE(diff.out.find("+ pods shop/new-0"), std::string::npos);
  EXPECT_NE(diff.out.find("status.phase: \"Running\" -> \"Failed\""), std::string::npos);
  EXPECT_EQ(RunLarder({"diff", Path(), Path()}).exit_code, 0);
  ASSERT_EQ(Run({"snapshot", "restore", "before"}).exit_code, 0);
  EXPECT_EQ(RunLarder({"diff", snapshot, Path()}).exit_code, 0);
  EXPECT_EQ(Run({"snapshot", "rm", "before"}).exit_code, 0);
  EXPECT_EQ(RunJson({"snapshot", "ls"}).size(), 0u);
  EXPECT_EQ(Run({"snapshot", "restore", "before"}).exit_code, 1);
}

TEST_F(CommandsTest, SnapshotsAndBackupsAreMadeBesideARunningOwner) {
  const std::string backups = scratch_ / "backups", other = scratch_ / "other";
  {
    const auto owner = Store::Open({.path = Path()});
    ASSERT_TRUE(owner);
    PutPod(**owner, "unsynced-0", "Running", "30");
    const Outcome made = Run({"snapshot", "create", "live"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    const Outcome taken = Run({"snapshot", "create", "live"});
    EXPECT_EQ(taken.exit_code, 2) << taken.err;
    EXPECT_NE(taken.err.find("already"), std::string::npos) << taken.err;
    const Outcome backup = Run({"backup", "create", backups});
    EXPECT_EQ(backup.exit_code, 0) << backup.err;
    // What was made for it is gone again.
    const Json snapshots = RunJson({"snapshot", "ls"});
    ASSERT_EQ(snapshots.size(), 1u) << snapshots;
    EXPECT_EQ(snapshots[0]["name"], "live");
    // The owner went on meanwhile.
    PutPod(**owner, "later-0", "Running", "31");
  }
  ASSERT_EQ(RunLarder({"backup", "restore", backups, "--store", other}).exit_code, 0);
  const Outcome pods = RunLarder({"get", "pods", "-A", "--store", other});
  EXPECT_NE(pods.out.find("unsynced-0"), std::string::npos) << pods.out;
  EXPECT_EQ(pods.out.find("later-0"), std::string::npos) << pods.out;
  EXPECT_NE(RunLarder({"get", "pods", "-A", "--store", Path()}).out.find("later-0"),
            std::string::npos);
}

TEST_F(CommandsTest, WhatNeedsTheStoreToItselfSaysSo) {
  ASSERT_EQ(Run({"snapshot", "create", "x"}).exit_code, 0);
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"compact"},
                                                {"snapshot", "restore", "x"},
                                                {"queue", "drain", "pods", "--all"},
                                                {"index", "rebuild", "pods", "node"}}) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 3) << words[0];
    EXPECT_NE(outcome.err.find("needs the store to itself"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("pid " + std::to_string(::getpid())), std::string::npos)
        << outcome.err;
  }
  for (const char* word : {"stats", "verify", "collections"}) {
    EXPECT_EQ(Run({word}).exit_code, 0) << word;
  }
}

TEST_F(CommandsTest, QueueShowBearsItemsOfAnyBytesAndHasTheErrorsOfThoseThatAreTriedAgain) {
  {
    const auto store = Store::Open({.path = Path()});
    ASSERT_TRUE(store) << store.error().ToString();
    const auto queue = WorkQueue::Open({.name = "bytes", .store = store->get()});
    ASSERT_TRUE(queue) << queue.error().ToString();
    EXPECT_TRUE((*queue)->AddRateLimited("not \xff UTF-8", "the reason"));
  }
  const Json items = RunJson({"queue", "show", "bytes"});
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0]["item"], "not \ufffd UTF-8");
  EXPECT_EQ(items[0]["lastError"], "the reason");
}

TEST_F(CommandsTest, VerifyNamesInJsonADamagedItemOfAnyBytes) {
  testing::PutDamagedQueueRecord(Path(), "pods", "not \xff UTF-8", 9);
  const Outcome outcome = Run({"verify", "--json"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  const Json report = Json::parse(outcome.out, nullptr, false);
  ASSERT_EQ(report.value("problemCount", 0), 1) << outcome.out;
  EXPECT_EQ(report["problems"][0]["place"], "queue pods, not \ufffd UTF-8");
}

TEST_F(CommandsTest, QueuesAreShownAndChanged) {
  const Json queues = RunJson({"queue", "ls"});
  EXPECT_EQ(queues[0]["ready"], 1);
  EXPECT_EQ(queues[0]["delayed"], 1);
  EXPECT_EQ(queues[0]["dead"], 1);
  const Outcome show = Run({"queue", "show", "pods", "--dead"});
  EXPECT_NE(show.out.find("the database is on fire"), std::string::npos) << show.out;
  EXPECT_EQ(show.out.find("web-0"), std::string::npos);
  EXPECT_EQ(Run({"queue", "show", "nothing"}).exit_code, 1);
  EXPECT_EQ(Run({"queue", "requeue", "pods", "shop/web-0"}).exit_code, 1);  // is not dead
  EXPECT_EQ(Run({"queue", "requeue", "pods", "shop/db-0"}).exit_code, 0);
  EXPECT_EQ(RunJson({"queue", "ls"})[0]["ready"], 2);
  EXPECT_EQ(Run({"queue", "drain", "pods"}).exit_code, 2);
  EXPECT_EQ(Run({"queue", "drain", "pods", "--all"}).exit_code, 0);
  EXPECT_EQ(RunJson({"queue", "ls"}).size(), 0u);
}

TEST_F(CommandsTest, DeadLettersOfARunningProcessAreChangedByIt) {
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  const Outcome closed = Run({"queue", "requeue", "pods", "shop/db-0"});
  EXPECT_EQ(closed.exit_code, 1) << closed.err;
  EXPECT_NE(closed.err.find("has no queue pods open"), std::string::npos) << closed.err;

  WorkQueueOptions options;
  options.name = "pods";
  options.store = owner->get();
  const auto queue = WorkQueue::Open(std::move(options));
  ASSERT_TRUE(queue);
  ASSERT_TRUE((*queue)->WaitUntilLoaded());
  EXPECT_EQ(Run({"queue", "requeue", "pods", "shop/web-0"}).exit_code, 1);  // is not dead
  const Outcome requeued = Run({"queue", "requeue", "pods", "--all"});
  EXPECT_EQ(requeued.exit_code, 0) << requeued.err;
  EXPECT_EQ(requeued.out, "requeued 1 dead letter of pods\n");
  EXPECT_TRUE((*queue)->DeadLetters().empty());
  EXPECT_EQ((*queue)->Len(), 2U);
}

TEST_F(CommandsTest, IndexesAreShownAndBuiltAnew) {
  EXPECT_EQ(RunJson({"index", "ls"}).size(), 2u);
  const Json values = RunJson({"index", "values", "po", "app"});
  EXPECT_EQ(values, Json::parse(R"([{"value":"db","objects":1},{"value":"web","objects":2}])"));
  EXPECT_EQ(Run({"index", "get", "po", "app", "web", "--keys"}).out, "shop/web-0\nshop/web-1\n");
  EXPECT_NE(Run({"index", "get", "po", "app", "db"}).out.find("db-0"), std::string::npos);
  const Outcome rebuilt = Run({"index", "rebuild", "pods", "node"});
  EXPECT_EQ(rebuilt.exit_code, 0) << rebuilt.err;
  EXPECT_EQ(RunJson({"index", "values", "pods", "node"})[0]["objects"], 3);
  EXPECT_EQ(RunJson({"index", "ls"}).size(), 2u);
  EXPECT_EQ(Run({"index", "values", "pods", "nothing"}).exit_code, 1);
}

TEST_F(CommandsTest, AnAnswerThatCannotBeWrittenIsAnError) {
  const Outcome full = RunLarder({"-c", "'" + std::string(LARDER_COMMAND) +
                                            "' get pods -A --store '" + Path() + "' >/dev/full"},
                                 {.program = "/bin/sh"});
  EXPECT_EQ(full.exit_code, 3);
  EXPECT_NE(full.err.find("No space left"), std::string::npos) << full.err;
}

TEST_F(CommandsTest, AMissingTableIsAnErrorAndNotAStoreWithLess) {
  ASSERT_EQ(Run({"compact"}).exit_code, 0);
  for (const auto& entry : fs::directory_iterator(Path())) {
    if (entry.path().extension() == ".sst") fs::remove(entry.path());
  }
  for (const char* command : {"collections", "stats", "export"}) {
    const Outcome outcome = Run({command});
    EXPECT_EQ(outcome.exit_code, 1) << command << outcome.out;
    EXPECT_NE(outcome.err.find("verify --repair"), std::string::npos) << command << outcome.err;
  }
}

TEST_F(CommandsTest, DiffWithTheLiveCluster) {
  auto simulator = apiserver::Simulator::Start({});
  ASSERT_TRUE(simulator);
  ASSERT_TRUE((*simulator)->Load(5));
  const Outcome diff = RunLarder({"diff", Path(), "--live", "--server", (*simulator)->Url(),
                                  "--resources", "pods", "--json", "--counts"});
  EXPECT_EQ(diff.exit_code, 1) << diff.err;
  const Json json = Json::parse(diff.out, nullptr, false);
  EXPECT_EQ(json[0]["removed"], 3);
  EXPECT_EQ(json[0]["added"], 5);
}

TEST_F(CommandsTest, DiffOfAResourceThatOnlyOneStoreHasComparesItWithNothing) {
  const std::string nodes = scratch_ / "nodes.jsonl", other = scratch_ / "other";
  ASSERT_EQ(Run({"export", "nodes", "-f", nodes}).exit_code, 0);
  ASSERT_EQ(RunLarder({"import", "-f", nodes, "--store", other}).exit_code, 0);
  const std::pair<std::pair<std::string, std::string>, const char*> cases[] = {
      {{Path(), other}, "removed"}, {{other, Path()}, "added"}};
  for (const auto& [stores, what] : cases) {
    const Outcome diff = RunLarder(
        {"diff", stores.first, stores.second, "--resources", "no,pods", "--json", "--counts"});
    EXPECT_EQ(diff.exit_code, 1) << diff.err;
    const Json json = Json::parse(diff.out, nullptr, false);
    ASSERT_EQ(json.size(), 2u) << diff.out;
    EXPECT_EQ(json[0]["resource"], "nodes");
    EXPECT_EQ(json[1][what], 3) << diff.out;
  }
  const Outcome neither = RunLarder({"diff", Path(), other, "--resources", "pods,leases"});
  EXPECT_EQ(neither.exit_code, 1);
  EXPECT_NE(neither.err.find("leases"), std::string::npos) << neither.err;
}

TEST_F(CommandsTest, DiffWithTheLiveClusterLooksAtTheShardThatIsStored) {
  auto simulator = apiserver::Simulator::Start({});
  ASSERT_TRUE(simulator);
  ASSERT_TRUE((*simulator)->Load(5));
  const std::string path = scratch_ / "shards";
  {
    const auto store = Store::Open({.path = path});
    for (const uint32_t part : {0U, 1U}) {
      CollectionSpec spec;
      spec.resource = *LookupResource("pods");
      spec.shard = ShardSelector::ForPart(part, 2);
      ASSERT_TRUE((*store)->OpenCollection(spec));
    }
  }
  const Outcome diff =
      RunLarder({"diff", path, "--live", "--server", (*simulator)->Url(), "--json", "--counts"});
  const Json json = Json::parse(diff.out, nullptr, false);
  ASSERT_EQ(json.size(), 2u) << diff.out << diff.err;
  EXPECT_EQ(json[0]["added"].get<int>() + json[1]["added"].get<int>(), 5) << diff.out;
}

TEST_F(CommandsTest, AnIndexOverAPathWithANumberSignIsBuiltAnew) {
  {
    const auto store = Store::Open({.path = Path()});
    CollectionSpec spec;
    spec.cluster_uid = "c";
    spec.resource = *LookupResource("configmaps");
    ASSERT_TRUE(Indexer::Open(store->get(), nullptr, spec,
                              {*IndexDefinition::ByField("odd", "data['a#b']")}));
  }
  ASSERT_EQ(Run({"index", "rebuild", "configmaps", "odd"}).exit_code, 0);
  const Json list = RunJson({"index", "ls"});
  EXPECT_NE(list.dump().find("a#b"), std::string::npos) << list;
}

void ExpectDescriptions(const CLI::App& app, const std::string& path) {
  for (const CLI::Option* option : app.get_options()) {
    EXPECT_FALSE(option->get_description().empty()) << path << " " << option->get_name();
  }
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!child->get_group().empty()) ExpectDescriptions(*child, path + " " + child->get_name());
  }
}

TEST(HelpTest, EveryOptionIsDescribed) {
  CLI::App app("larder", "larder");
  tools::Context context;
  tools::AddCommands(app, context);
  ExpectDescriptions(app, "larder");
}

TEST_F(CommandsTest, CompletionAndManualKnowEveryCommand) {
  const std::string help = RunLarder({"--help"}).out;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome script = RunLarder({"completion", shell});
    EXPECT_EQ(script.exit_code, 0);
    EXPECT_NE(script.out.find("snapshot"), std::string::npos);
    EXPECT_NE(script.out.find("restore"), std::string::npos);
  }
  // What bash offers for the last of these words.
  const auto complete = [&](const std::string& words) {
    return RunLarder(
               {"-c", "cd " + scratch_.path() +
                          "; source <(" LARDER_COMMAND " completion bash); COMP_WORDS=(" + words +
                          "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _larder; "
                          "echo ${COMPREPLY[@]}"},
               {.program = "/bin/bash"})
        .out;
  };
  EXPECT_EQ(complete("larder snapshot re"), "restore\n");
  EXPECT_EQ(complete("larder get al"), "all\n");
  EXPECT_EQ(complete("larder run al"), "\n");
  std::ofstream(scratch_ / "notes.json") << "{}";
  for (const char* flag : {"import --file", "export -f", "run --options", "tune replay --workload",
                           "serve --write-kubeconfig", "get --encryption-key-file"}) {
    EXPECT_EQ(complete(std::string("larder ") + flag + " no"), "notes.json\n") << flag;
  }
  EXPECT_EQ(complete("larder get --store st"), "store\n");
  const Outcome man = RunLarder({"man", "snapshot", "create"});
  EXPECT_EQ(man.exit_code, 0);
  EXPECT_NE(man.out.find(".TH larder-snapshot-create 1"), std::string::npos) << man.out;
  EXPECT_EQ(RunLarder({"man", "nothing"}).exit_code, 2);
}

}  // namespace
}  // namespace larder
