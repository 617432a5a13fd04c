// `larder get`, `describe`, `tree` and `history` on a small store.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "tests/tools/sample_store.h"

namespace larder {
namespace {

class GetTest : public ::testing::Test {
 protected:
  void SetUp() override { FillSampleStore(Path()); }
  std::string Path() const { return scratch_ / "store"; }
  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--store", Path()});
    return RunLarder(words);
  }

  ScratchDirectory scratch_;
};

TEST_F(GetTest, SelectsByNamespaceLabelsAndFields) {
  const Outcome web = Run({"get", "po", "-n", "shop", "-l", "app=web", "-o", "name"});
  EXPECT_EQ(web.exit_code, 0) << web.err;
  EXPECT_EQ(web.out, "pod/web-0\npod/web-1\n");
  const Outcome none = Run({"get", "po", "-A", "--field-selector", "spec.nodeName=n2"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("No resources found"), std::string::npos);
}

TEST_F(GetTest, AFieldThatIsAbsentHasTheServersDefault) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"nodes", "spec.unschedulable=false"}, "node/n1\n"},
      {{"nodes", "spec.unschedulable!=false"}, ""},
      {{"nodes", "spec.unschedulable=true"}, ""},
      {{"pods", "spec.hostNetwork=false,metadata.name=db-0"}, "pod/db-0\n"},
      {{"pods", "spec.hostNetwork=,metadata.name=db-0"}, ""},
  };
  for (const auto& [words, expected] : cases) {
    const Outcome got = Run({"get", words[0], "-A", "-o", "name", "--field-selector", words[1]});
    EXPECT_EQ(got.exit_code, 0) << got.err;
    EXPECT_EQ(got.out, expected) << words[1];
  }
}

TEST_F(GetTest, TablesLookLikeKubectls) {
  const Outcome pods = Run({"get", "pods", "-n", "shop"});
  ASSERT_EQ(pods.exit_code, 0) << pods.err;
  EXPECT_EQ(pods.out.substr(0, pods.out.find('\n')), "NAME    READY   STATUS    RESTARTS   AGE");
  EXPECT_NE(pods.out.find("\ndb-0    1/1     Running   2          "), std::string::npos)
      << pods.out;
  const Outcome wide = Run({"get", "pods", "-A", "-o", "wide", "--show-labels", "-L", "app"});
  EXPECT_NE(wide.out.find("NAMESPACE   NAME"), std::string::npos) << wide.out;
  EXPECT_NE(wide.out.find("NOMINATED NODE"), std::string::npos);
  EXPECT_NE(wide.out.find("app=db"), std::string::npos);
  const Outcome nodes = Run({"get", "no", "--no-headers"});
  EXPECT_EQ(nodes.out.substr(0, 21), "n1    Ready   worker ") << nodes.out;
}

TEST_F(GetTest, SeveralResourcesInOneCall) {
  const Outcome both = Run({"get", "deploy,rs", "-n", "shop"});
  ASSERT_EQ(both.exit_code, 0) << both.err;
  EXPECT_NE(both.out.find("deployment.apps/web   2/2"), std::string::npos) << both.out;
  EXPECT_NE(both.out.find("\n\nNAME"), std::string::npos);
  EXPECT_NE(both.out.find("replicaset.apps/web-1"), std::string::npos);
  const Outcome named = Run({"get", "pod/web-0", "deploy/web", "-n", "shop", "-o", "name"});
  EXPECT_EQ(named.out, "pod/web-0\ndeployment.apps/web\n") << named.err;
  EXPECT_EQ(Run({"get", "all", "-n", "shop", "-o", "name"}).out.find("pod/db-0"), 0u);
}

TEST_F(GetTest, CustomKindsHaveTheirPrinterColumns) {
  for (const char* name : {"widgets", "wd", "Widget", "widgets.example.com"}) {
    const Outcome widgets = Run({"get", name, "-n", "shop"});
    ASSERT_EQ(widgets.exit_code, 0) << name << widgets.err;
    EXPECT_EQ(widgets.out, "NAME    SIZE\nsmall   3\n") << name;
  }
  EXPECT_NE(Run({"get", "wd", "-A", "-o", "wide"}).out.find("red"), std::string::npos);
}

TEST_F(GetTest, PrintsDocuments) {
  const Outcome one = Run({"get", "pod", "db-0", "-n", "shop", "-o", "json"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const Json json = Json::parse(one.out, nullptr, false);
  EXPECT_EQ(json["metadata"]["labels"]["app"], "db");
  EXPECT_FALSE(json["metadata"].contains("managedFields"));
  const Outcome list = Run({"get", "pods", "-n", "shop", "-o", "json"});
  const Json items = Json::parse(list.out, nullptr, false);
  ASSERT_FALSE(items.is_discarded()) << list.out;
  EXPECT_EQ(items["kind"], "List");
  EXPECT_EQ(items["items"].size(), 3u);
  const Outcome empty = Run({"get", "pods", "-n", "none", "-o", "json"});
  EXPECT_EQ(Json::parse(empty.out, nullptr, false)["items"].size(), 0u) << empty.out;
  const Outcome yaml =
      Run({"get", "pod/db-0", "-n", "shop", "-o", "yaml", "--show-managed-fields"});
  EXPECT_NE(yaml.out.find("  resourceVersion: \"7\"\n"), std::string::npos) << yaml.out;
  EXPECT_NE(yaml.out.find("    manager: kubelet\n"), std::string::npos) << yaml.out;
  const Outcome lines = Run({"get", "pods", "-A", "-o", "jsonl"});
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 3);
}

TEST_F(GetTest, PathsAndColumnsOfOnesOwn) {
  EXPECT_EQ(Run({"get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.name}"}).out,
            "db-0 web-0 web-1");
  EXPECT_EQ(
      Run({"get", "pods", "-A", "-o",
           R"(jsonpath={range .items[?(@.metadata.labels.app=="web")]}{.metadata.name}{"\n"}{end})"})
          .out,
      "web-0\nweb-1\n");
  EXPECT_EQ(Run({"get", "pods", "-A", "-o",
                 "custom-columns=N:.metadata.name,IMG:spec.containers[*].image,X:.nothing"})
                .out,
            "N       IMG     X\ndb-0    img:1   <none>\nweb-0   img:1   <none>\n"
            "web-1   img:1   <none>\n");
  const Outcome bad = Run({"get", "pods", "-A", "-o", "jsonpath={.items[}"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("jsonpath"), std::string::npos);
}

TEST_F(GetTest, SortsLimitsAndExplains) {
  EXPECT_EQ(
      Run({"get", "pods", "-A", "--sort-by", ".metadata.labels.app", "-o", "name", "--limit", "1"})
          .out,
      "pod/db-0\n");
  EXPECT_EQ(Run({"get", "pods", "-A", "--index", "node=n1", "-o", "name"}).out,
            "pod/db-0\npod/web-0\npod/web-1\n");
  EXPECT_NE(Run({"get", "pods", "-A", "-l", "app=web", "--explain"}).out.find("index app = web"),
            std::string::npos);
  EXPECT_NE(Run({"get", "pods", "-n", "shop", "--explain"}).out.find("scan of namespace shop"),
            std::string::npos);
}

TEST_F(GetTest, SortsAsKubectlDoes) {
  {
    const auto store = Store::Open({.path = Path()});
    const auto put = [&](const std::string& name, const std::string& storage) {
      PutObject(**store, "persistentvolumes",
                R"({"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":")" + name +
                    R"(","uid":")" + name +
                    R"(","resourceVersion":"9"},"spec":{"capacity":{"storage":")" + storage +
                    R"("}}})");
    };
    put("disk-10", "10Gi");
    put("disk-2", "2Gi");
    put("disk-1", "500M");
  }
  const auto sorted = [&](const std::string& path) {
    return Run({"get", "pv", "--sort-by", path, "-o", "name"}).out;
  };
  const std::string prefix = "persistentvolume/disk-";
  EXPECT_EQ(sorted(".metadata.name"), prefix + "1\n" + prefix + "10\n" + prefix + "2\n");
  EXPECT_EQ(sorted(".spec.capacity.storage"), prefix + "1\n" + prefix + "2\n" + prefix + "10\n");
  const Outcome misspelt = Run({"get", "pv", "--sort-by", ".metadata.nam"});
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_EQ(misspelt.out, "");
  EXPECT_NE(misspelt.err.find("nothing has a field .metadata.nam"), std::string::npos)
      << misspelt.err;
  // What some have is enough, and a limit is for each resource.
  EXPECT_EQ(Run({"get", "pods,pv,nodes", "-n", "shop", "--sort-by", ".spec.nodeName", "-o", "name",
                 "--limit", "2"})
                .out,
            "pod/db-0\npod/web-0\n" + prefix + "1\n" + prefix + "10\nnode/n1\n");
}

TEST_F(GetTest, WorksBesideALiveOwner) {
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  const Outcome all = Run({"get", "pods", "-A"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_NE(all.out.find("web-1"), std::string::npos);
}

TEST_F(GetTest, WatchShowsWhatTheOwnerCommits) {
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  RunOptions options;
  options.signal = SIGINT;
  options.stop_when = [&](const std::string& out) {
    return out.find("new-0") != std::string::npos && out.find("Failed") != std::string::npos;
  };
  std::jthread changes([&](const std::stop_token& stop) {
    for (int version = 100; !stop.stop_requested(); ++version) {
      PutPod(**owner, "new-0", "Running", std::to_string(version));
      PutPod(**owner, "db-0", "Failed", std::to_string(++version));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const Outcome watch = RunLarder({"get", "pods", "-n", "shop", "-w", "--store", Path()}, options);
  EXPECT_EQ(watch.exit_code, 0) << watch.err;
  EXPECT_NE(watch.out.find("new-0"), std::string::npos) << watch.out;
}

TEST_F(GetTest, NothingFoundIsSaid) {
  for (const char* command : {"get", "describe", "tree"}) {
    const Outcome outcome = Run({command, "pods", "-n", "empty"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_EQ(outcome.out, "") << command;
    EXPECT_EQ(outcome.err, "No resources found in empty namespace.\n") << command;
  }
  EXPECT_EQ(RunLarder({"--version"}).out, RunLarder({"version"}).out);
}

TEST_F(GetTest, BadInputIsOneClearSentence) {
  const Outcome missing = RunLarder({"get", "pods", "--store", scratch_ / "nothing", "-A"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_NE(missing.err.find("no store at"), std::string::npos) << missing.err;
  const Outcome selector = Run({"get", "pods", "-l", "a=b=c"});
  EXPECT_EQ(selector.exit_code, 2);
  EXPECT_NE(selector.err.find("a=b=c"), std::string::npos) << selector.err;
  const Outcome resource = Run({"get", "gadgets"});
  EXPECT_EQ(resource.exit_code, 1);
  EXPECT_NE(resource.err.find("it has customresourcedefinitions"), std::string::npos);
  const Outcome name = Run({"get", "pod", "nobody", "-n", "shop"});
  EXPECT_EQ(name.exit_code, 1);
  EXPECT_NE(name.err.find("pods \"nobody\" not found"), std::string::npos) << name.err;
  ::mkdir((scratch_ / "other").c_str(), 0700);
  std::ofstream(scratch_ / "other/file") << "x";
  const Outcome other = RunLarder({"get", "pods", "--store", scratch_ / "other"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("is not a larder store"), std::string::npos) << other.err;
  ::chmod(Path().c_str(), 0755);
  const Outcome open = Run({"get", "pods", "-A"});
  EXPECT_EQ(open.exit_code, 3);
  EXPECT_NE(open.err.find("chmod 700"), std::string::npos) << open.err;
}

TEST_F(GetTest, WrongCommandLinesAreNamed) {
  for (const auto& [words, what] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"frobnicate"}, "unknown command \"frobnicate\" for \"larder\""},
           {{"gett"}, "did you mean get?"},
           {{"queue", "lost"}, "unknown command \"lost\" for \"larder queue\""},
           {{"get", "pods", "--frob", "1", "--store", Path()},
            "unknown flag: --frob; see: larder get"},
           {{"get", "pods"}, "LARDER_STORE"},
           {{"get", "pods", "--store", Path(), "-o", "jsonpath"}, "nothing is given behind it"},
           {{"get", "pods", "--store", Path(), "-o", "custom-columns="}, "nothing is given"},
           {{"get", "pods", "--store", Path(), "--limit", "-1"}, "-1 is no number"},
           {{"get", "pods", "-A", "--store", Path(), "--sort-by", "foo["},
            "a bracket is not closed at the end"},
           {{"backup", "prune", "here", "--keep", "0"}, "at least one has to stay"},
           {{"backup", "prune", "here", "--keep", "x"}, "x is no number"},
           {{"help", "frobnicate"}, "there is no command larder frobnicate"}}) {
    const Outcome wrong = RunLarder(words);
    EXPECT_EQ(wrong.exit_code, 2) << words[0];
    EXPECT_NE(wrong.err.find(what), std::string::npos) << wrong.err;
  }
}

TEST_F(GetTest, GlobalOptionsMayStandBehindTheCommandAndHelpIsACommand) {
  const Outcome behind = Run({"get", "pods", "-A", "--log-level", "info"});
  EXPECT_EQ(behind.exit_code, 0) << behind.err;
  EXPECT_EQ(Run({"queue", "show", "pods", "--log-level", "info"}).exit_code, 0);
  const Outcome help = RunLarder({"help"});
  EXPECT_EQ(help.exit_code, 0) << help.err;
  EXPECT_EQ(help.out, RunLarder({"--help"}).out);
  EXPECT_EQ(RunLarder({"help", "queue", "show"}).out, RunLarder({"queue", "show", "--help"}).out);
}

// As kubectl: each object by itself, as it comes.
TEST_F(GetTest, AWatchPrintsEachObjectByItself) {
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  std::jthread changes([&](const std::stop_token& stop) {
    for (int version = 100; !stop.stop_requested(); ++version) {
      PutPod(**owner, "new-0", "Running", std::to_string(version));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const auto watch = [&](const std::string& output, const std::string& until) {
    RunOptions options;
    options.signal = SIGINT;
    options.stop_when = [&](const std::string& out) {
      return out.find(until) != std::string::npos;
    };
    return RunLarder({"get", "pods", "-n", "shop", "-w", "-o", output, "--store", Path()}, options);
  };
  const Outcome path = watch("jsonpath={.metadata.name};", "new-0;new-0;");
  EXPECT_EQ(path.out.rfind("db-0;", 0), 0u) << path.out << path.err;
  EXPECT_NE(path.out.find("new-0;new-0;"), std::string::npos) << path.out;
  const Outcome yaml = watch("yaml", "name: new-0");
  EXPECT_EQ(yaml.out.find("kind: List"), std::string::npos) << yaml.out;
  EXPECT_NE(yaml.out.find("\n---\napiVersion: v1\nkind: Pod\n"), std::string::npos) << yaml.out;
  const Outcome json = watch("json", "\"new-0\"");
  EXPECT_EQ(json.out.rfind("{\n    \"apiVersion\": \"v1\",\n    \"kind\": \"Pod\"", 0), 0u)
      << json.out;
}

TEST_F(GetTest, AWatchOfSeveralHasOneHeaderForEach) {
  const auto owner = Store::Open({.path = Path()});
  ASSERT_TRUE(owner);
  RunOptions options;
  options.signal = SIGINT;
  options.stop_when = [](const std::string& out) {
    size_t seen = 0;
    for (size_t at = 0; (at = out.find("new-0", at)) != std::string::npos; ++at) ++seen;
    return seen >= 3;
  };
  std::jthread changes([&](const std::stop_token& stop) {
    for (int version = 100; !stop.stop_requested(); ++version) {
      PutPod(**owner, "new-0", "Running", std::to_string(version));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const Outcome watch =
      RunLarder({"get", "pods,deploy", "-n", "shop", "-w", "--store", Path()}, options);
  size_t headers = 0;
  for (size_t at = 0; (at = watch.out.find("NAME ", at)) != std::string::npos; ++at) ++headers;
  EXPECT_EQ(headers, 2u) << watch.out;
}

TEST_F(GetTest, AWatchSaysWhatCannotCome) {
  const Outcome index = Run({"get", "pods", "-A", "-w", "--index", "node=n1"});
  EXPECT_EQ(index.exit_code, 2);
  EXPECT_NE(index.err.find("cannot be watched"), std::string::npos) << index.err;
  EXPECT_EQ(Run({"get", "pod", "none", "-n", "shop", "-w"}).exit_code, 1);
  RunOptions options;
  options.signal = SIGINT;
  options.stop_when = [](const std::string& out) { return out.find("web-1") != std::string::npos; };
  const Outcome idle = RunLarder({"get", "pods", "-A", "-w", "--store", Path()}, options);
  EXPECT_NE(idle.err.find("no process has the store open"), std::string::npos) << idle.err;
}

// More than what one thread takes at a time: whole, in order, and only what is selected.
TEST_F(GetTest, LongListsAreWholeAndInOrder) {
  std::set<std::string> names;
  {
    const auto store = Store::Open({.path = Path()});
    for (int i = 0; i < 350; ++i) {
      const std::string name = "p-" + std::to_string(i);
      PutPod(**store, name, i % 2 == 0 ? "Running" : "Failed", "9");
      if (i % 2 == 0) names.insert("pod/" + name);
    }
  }
  const Outcome list =
      Run({"get", "pods", "-n", "shop", "-o", "name", "--field-selector", "status.phase=Running"});
  ASSERT_EQ(list.exit_code, 0) << list.err;
  std::vector<std::string> found;
  std::istringstream lines(list.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("pod/p-", 0) == 0) found.push_back(line);
  }
  EXPECT_EQ(found, std::vector<std::string>(names.begin(), names.end()));
}

TEST_F(GetTest, AReaderThatLeavesEarlyIsNoError) {
  const auto store = Store::Open({.path = Path()});
  for (int i = 0; i < 300; ++i) PutPod(**store, "p-" + std::to_string(i), "Running", "9");
  const Outcome cut =
      RunLarder({"get", "pods", "-A", "-o", "yaml", "--store", Path()}, {.close_stdout_after = 10});
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_EQ(cut.err, "");
}

TEST_F(GetTest, DescribeTreeAndHistory) {
  const Outcome pod = Run({"describe", "pod", "web-0", "-n", "shop"});
  ASSERT_EQ(pod.exit_code, 0) << pod.err;
  EXPECT_NE(pod.out.find("Controlled By:       ReplicaSet/web-1"), std::string::npos) << pod.out;
  EXPECT_NE(pod.out.find("it fell over"), std::string::npos);
  const Outcome tree = Run({"tree", "deploy/web", "-n", "shop"});
  ASSERT_EQ(tree.exit_code, 0) << tree.err;
  EXPECT_NE(tree.out.find("\n└─ReplicaSet/web-1"), std::string::npos) << tree.out;
  EXPECT_NE(tree.out.find("\n  ├─Pod/web-0"), std::string::npos) << tree.out;
  const Outcome history = Run({"history", "pod/web-0", "-n", "shop"});
  ASSERT_EQ(history.exit_code, 0) << history.err;
  EXPECT_NE(history.out.find("written /status"), std::string::npos) << history.out;
  EXPECT_NE(history.out.find("event BackOff"), std::string::npos);
  EXPECT_EQ(Run({"history", "pod/none", "-n", "shop"}).exit_code, 1);
}

TEST_F(GetTest, HistoryBearsFieldsOfAnyName) {
  {
    const auto store = Store::Open({.path = Path()});
    ASSERT_TRUE(store) << store.error().ToString();
    PutObject(**store, "nodes", R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"odd",
        "uid":"o","resourceVersion":"50","managedFields":[{"manager":"m","operation":"Update",
        "fieldsV1":{"x":{"f:a":{}},"f:spec":{"f:b":{}}}}]}})");
  }
  const Outcome history = Run({"history", "node/odd"});
  ASSERT_EQ(history.exit_code, 0) << history.err;
  EXPECT_NE(history.out.find("spec.b"), std::string::npos) << history.out;
}

TEST_F(GetTest, ATreeOfObjectsThatOwnEachOtherEnds) {
  {
    const auto store = Store::Open({.path = Path()});
    for (const char* name : {"a", "b"}) {
      PutObject(**store, "configmaps",
                R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" +
                    std::string(name) + R"(","namespace":"shop","uid":")" + name +
                    R"(","resourceVersion":"9","ownerReferences":[)"
                    R"({"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a"},)"
                    R"({"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":"b"}]}})");
    }
  }
  // Without an end its memory would have none, either.
  const Outcome tree = RunLarder({"-c", "ulimit -v 4000000; exec timeout 20 \"$@\"", "sh",
                                  LARDER_COMMAND, "tree", "cm/a", "-n", "shop", "--store", Path()},
                                 {.program = "sh"});
  ASSERT_EQ(tree.exit_code, 0) << tree.err;
  EXPECT_LE(std::count(tree.out.begin(), tree.out.end(), '\n'), 6) << tree.out;
  EXPECT_NE(tree.out.find("\n├─ConfigMap/a (above)"), std::string::npos) << tree.out;
  EXPECT_NE(tree.out.find("\n└─ConfigMap/b "), std::string::npos) << tree.out;
  EXPECT_NE(tree.out.find("\n  └─ConfigMap/b (above)"), std::string::npos) << tree.out;
}

}  // namespace
}  // namespace larder
