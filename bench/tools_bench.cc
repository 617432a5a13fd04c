// How quick the command is on a large store: from the start of the process to its end.
//
//   tools_bench [--quick] [--json] [--store DIR]
//
// Fills a store with 100,000 pods from the simulator (10,000 with --quick) and runs each command
// several times in a fresh process; the median counts. A store that is given is used as it is.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apiserver/simulator.h"
#include "schema/object.h"
#include "storage/store.h"

namespace larder {
namespace {

struct Timed {
  double seconds = 0;
  bool failed = false;
  size_t lines = 0;
};

Timed Run(std::vector<std::string> words) {
  words.insert(words.begin(), LARDER_COMMAND);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int out[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return {0, true, 0};
  const auto begin = std::chrono::steady_clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDERR_FILENO);
    ::execv(LARDER_COMMAND, argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  Timed timed;
  char chunk[65536];
  for (ssize_t size = 0; (size = ::read(out[0], chunk, sizeof chunk)) > 0;) {
    timed.lines += static_cast<size_t>(std::count(chunk, chunk + size, '\n'));
  }
  ::close(out[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  timed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  timed.failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return timed;
}

bool Fill(const std::string& store, uint64_t objects) {
  std::fprintf(stderr, "filling a store with %llu pods\n",
               static_cast<unsigned long long>(objects));
  apiserver::SimulatorOptions options;
  auto simulator = apiserver::Simulator::Start(options);
  if (!simulator || !(*simulator)->Load(objects)) return false;
  return !Run({"run", "pods", "--store", store, "--server", (*simulator)->Url(), "--until-synced",
               "--index", "pods:node=spec.nodeName"})
              .failed;
}

// A namespace, a node and an app that the store has.
struct Sample {
  std::string ns, node, app;
  uint64_t objects = 0;
};

Sample TakeSample(const std::string& path) {
  Sample sample;
  const auto store = Store::OpenReadOnly({.path = path});
  if (!store) return sample;
  const auto collections = (*store)->Collections();
  if (!collections) return sample;
  for (const CollectionInfo& info : *collections) {
    if (info.spec.resource.resource != "pods") continue;
    (void)(*store)->Scan(info.id, {}, {}, [&](const ObjectPtr& pod) {
      sample.ns = pod->ns();
      sample.app = pod->Label("app.kubernetes.io/name").value_or("");
      const Json json = pod->ToMutable();
      if (json.contains("spec")) sample.node = json["spec"].value("nodeName", "");
      return sample.node.empty();
    });
    (void)(*store)->ScanHeads(
        info.id, {}, [&](const ObjectKey&, const ObjectHead&) { return ++sample.objects != 0; });
  }
  return sample;
}

struct Row {
  std::string name;
  std::vector<std::string> words;
  double most_ms;  // 0: judged by objects a second
  double least_rate;
};

int Main(bool quick, bool json_output, std::string store) {
  const std::string scratch =
      (std::filesystem::temp_directory_path() / "larder-tools-bench").string();
  if (store.empty()) {
    std::filesystem::remove_all(scratch);
    store = scratch + "/store";
    if (!Fill(store, quick ? 10'000 : 100'000)) {
      std::fprintf(stderr, "tools_bench: the store could not be filled\n");
      return 1;
    }
  }
  const Sample sample = TakeSample(store);
  const std::vector<Row> rows = {
      {"get pods -n " + sample.ns, {"get", "pods", "-n", sample.ns}, 100, 0},
      {"get pods -A --index node=...",
       {"get", "pods", "-A", "--index", "node=" + sample.node},
       100,
       0},
      {"get pods -A -l (label)=" + sample.app,
       {"get", "pods", "-A", "-l", "app.kubernetes.io/name=" + sample.app},
       1000,
       0},
      {"stats", {"stats"}, 2000, 0},
      {"verify", {"verify"}, 0, 30'000},
  };
  Json out = Json::array();
  if (!json_output) {
    std::printf("%llu pods\n\n%-36s %10s %12s %12s  %s\n",
                static_cast<unsigned long long>(sample.objects), "larder", "rows", "median",
                "asked", "");
  }
  bool all = true;
  for (const Row& row : rows) {
    std::vector<std::string> words = row.words;
    words.insert(words.end(), {"--store", store});
    std::vector<double> times;
    Timed last;
    for (int i = 0; i < (quick ? 3 : 7); ++i) {
      last = Run(words);
      if (last.failed) std::fprintf(stderr, "tools_bench: %s failed\n", row.name.c_str());
      times.push_back(last.seconds);
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    const double rate = static_cast<double>(sample.objects) / median;
    const bool pass =
        !last.failed && (row.most_ms > 0 ? median * 1000 <= row.most_ms : rate >= row.least_rate);
    all = all && pass;
    if (json_output) {
      out.push_back({{"command", row.name},
                     {"rows", last.lines},
                     {"milliseconds", median * 1000},
                     {"pass", pass}});
    } else if (row.most_ms > 0) {
      std::printf("%-36s %10zu %9.0f ms %9.0f ms  %s\n", row.name.c_str(), last.lines,
                  median * 1000, row.most_ms, pass ? "pass" : "short");
    } else {
      std::printf("%-36s %10zu %10.0f/s %10.0f/s  %s\n", row.name.c_str(), last.lines, rate,
                  row.least_rate, pass ? "pass" : "short");
    }
  }
  if (json_output) std::printf("%s\n", out.dump(2).c_str());
  std::filesystem::remove_all(scratch);
  return all ? 0 : 1;
}

}  // namespace
}  // namespace larder

int main(int argc, char** argv) {
  bool quick = false, json = false;
  std::string store;
  for (int i = 1; i < argc; ++i) {
    quick = quick || std::strcmp(argv[i], "--quick") == 0;
    json = json || std::strcmp(argv[i], "--json") == 0;
    if (std::strcmp(argv[i], "--store") == 0 && i + 1 < argc) store = argv[i + 1];
  }
  return larder::Main(quick, json, store);
}
