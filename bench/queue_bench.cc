// What the durable work queue costs, beside client-go's queue in memory.
//
//   bench_queue [--quick] [--json] [--only cycles|sync|pending]
//
// Every phase runs in a process of its own, so that memory is measured clean. The peer
// (bench/peers/go) needs Go; it is built into the user's cache folder. Without Go its column is
// left out and says so.
#include <prometheus/registry.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <latch>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bench/support.h"
#include "queue/work_queue.h"
#include "storage/store.h"

namespace larder::bench {
namespace {

// Runs `phase` in a child process.
Figures InChild(const std::function<Figures()>& phase) {
  int ends[2];
  if (::pipe(ends) != 0) Die("no pipe");
  const pid_t child = ::fork();
  if (child < 0) Die("no process");
  if (child == 0) {
    ::close(ends[0]);
    const std::string text = nlohmann::json(phase()).dump();
    if (::write(ends[1], text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      Die("pipe");
    std::_Exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> chunk;
  for (ssize_t size; (size = ::read(ends[0], chunk.data(), chunk.size())) > 0;) {
    text.append(chunk.data(), static_cast<size_t>(size));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) Die("a phase failed");
  return nlohmann::json::parse(text).get<Figures>();
}

std::unique_ptr<Store> OpenStore(const TempDir& dir) {
  StoreOptions options;
  options.path = dir.Store();
  return OrDie(Store::Open(options));
}

std::unique_ptr<WorkQueue> OpenQueue(Store* store, prometheus::Registry* metrics = nullptr) {
  WorkQueueOptions options;
  options.name = "bench";
  options.store = store;
  options.metrics = metrics;
  return OrDie(WorkQueue::Open(std::move(options)));
}

std::string Key(int thread, int number) {
  std::array<char, 48> text;
  const int size = std::snprintf(text.data(), text.size(), "namespace-%d/pod-%08d", thread, number);
  return {text.data(), static_cast<size_t>(size)};
}

// Cycles of Add, Get, Done a second, as the peer does them.
double Cycles(WorkQueue& queue, int threads, int cycles) {
  const int each = cycles / threads;
  std::vector<std::vector<std::string>> keys(static_cast<size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    for (int i = 0; i < each; ++i) keys[static_cast<size_t>(t)].push_back(Key(t, i));
  }
  const auto start = SteadyClock::now();
  {
    std::vector<std::jthread> workers;
    workers.reserve(keys.size());
    for (const std::vector<std::string>& mine : keys) {
      workers.emplace_back([&queue, &mine] {
        for (const std::string& key : mine) {
          OrDie(queue.Add(key));
          queue.Done(*queue.Get());
        }
      });
    }
  }
  return each * threads / SecondsSince(start);
}

Figures CyclePhase(int cycles) {
  const TempDir dir;
  const auto store = OpenStore(dir);
  Figures figures;
  for (const int threads : {1, 2, 8}) {
    figures["durable " + std::to_string(threads)] =
        Cycles(*OpenQueue(store.get()), threads, cycles);
  }
  figures["memory 1"] = Cycles(*OpenQueue(nullptr), 1, cycles);
  prometheus::Registry registry;
  figures["metrics 1"] = Cycles(*OpenQueue(store.get(), &registry), 1, cycles);
  return figures;
}

// Items added a second, each on disk when its call returns. `round`: items are new in each.
double SyncAdds(WorkQueue& queue, int round, int threads, int items) {
  const int each = items / threads;
  // Starting the threads is not what is measured.
  std::latch begin(threads + 1);
  std::vector<std::jthread> producers;
  producers.reserve(static_cast<size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    producers.emplace_back([&queue, &begin, round, t, threads, each] {
      AddOptions options;
      options.durability = Durability::kSync;
      begin.arrive_and_wait();
      for (int i = 0; i < each; ++i) {
        OrDie(queue.AddWithOptions(Key(threads * 1000 + t, round * each + i), options));
      }
    });
  }
  begin.arrive_and_wait();
  const auto start = SteadyClock::now();
  producers.clear();
  return each * threads / SecondsSince(start);
}

// Commits of a small note a second, each synced: what the disk itself allows.
double Syncs(Store& store, int count) {
  const auto start = SteadyClock::now();
  for (int i = 0; i < count; ++i) {
    Transaction transaction = store.Begin();
    transaction.PutNote("bench", std::to_string(i));
    OrDie(store.Commit(std::move(transaction), Durability::kSync));
  }
  return count / SecondsSince(start);
}

Figures SyncPhase(bool quick) {
  const TempDir dir;
  const auto store = OpenStore(dir);
  const auto queue = OpenQueue(store.get());
  // In turns: what a sync costs changes from one second to the next on a shared disk.
  constexpr int kRounds = 5;
  std::map<std::string, std::vector<double>> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rounds["syncs"].push_back(Syncs(*store, quick ? 20 : 100));
    rounds["alone"].push_back(SyncAdds(*queue, round, 1, quick ? 20 : 200));
    rounds["group"].push_back(SyncAdds(*queue, round, 256, 256 * (quick ? 40 : 200)));
  }
  Figures figures;
  for (const auto& [name, values] : rounds) figures[name] = Median(values);
  return figures;
}

// Nanoseconds of one Add and one Get with so many items pending.
Figures CostPhase(int pending) {
  const TempDir dir;
  const auto store = OpenStore(dir);
  const auto queue = OpenQueue(store.get());
  for (int i = 0; i < pending; ++i) OrDie(queue->Add(Key(0, i)));
  OrDie(queue->Flush());
  // Small rounds: the same work at any depth, and one round that the flush disturbs does not count
  // much.
  constexpr int kRound = 500;
  std::vector<double> add;
  std::vector<double> get;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> keys;
    keys.reserve(kRound);
    for (int i = 0; i < kRound; ++i) keys.push_back(Key(1 + round, i));
    auto start = SteadyClock::now();
    for (const std::string& key : keys) OrDie(queue->Add(key));
    add.push_back(SecondsSince(start) * 1e9 / kRound);
    std::vector<std::string> taken;
    taken.reserve(kRound);
    start = SteadyClock::now();
    for (int i = 0; i < kRound; ++i) taken.push_back(*queue->Get());
    get.push_back(SecondsSince(start) * 1e9 / kRound);
    for (const std::string& key : taken) queue->Done(key);
  }
  return {{"add", Median(add)}, {"get", Median(get)}};
}

Figures FillPhase(const TempDir& dir, int items) {
  const auto store = OpenStore(dir);
  const auto queue = OpenQueue(store.get());
  const auto start = SteadyClock::now();
  for (int i = 0; i < items; ++i) OrDie(queue->Add(Key(0, i)));
  OrDie(queue->Flush(Durability::kSync));
  return {{"seconds", SecondsSince(start)}, {"resident", MemoryMiB("VmRSS:")}};
}

Figures RestartPhase(const TempDir& dir, size_t items) {
  const auto start = SteadyClock::now();
  const auto store = OpenStore(dir);
  const auto queue = OpenQueue(store.get());
  const std::string first = *queue->Get();
  Figures figures{{"first", SecondsSince(start)}};
  OrDie(queue->WaitUntilLoaded());
  figures["loaded"] = SecondsSince(start);
  figures["resident"] = MemoryMiB("VmRSS:");
  if (queue->Len() + 1 != items) Die("items are missing after the restart");
  queue->Done(first);
  return figures;
}

// Threads to cycles a second; empty when there is no Go.
std::map<int, double> RunPeer(int cycles) {
  const auto program = BuildPeer(LARDER_PEERS, "client-go");
  if (!program) return {};
  std::map<int, double> figures;
  for (const int threads : {1, 2, 8}) {
    const auto line = Output("'" + *program + "' queue -cycles " + std::to_string(cycles) +
                             " -threads " + std::to_string(threads));
    if (!line) Die("client-go failed");
    figures[threads] = FiguresIn(*line).at("cycles_per_second");
  }
  return figures;
}

void CycleRows(bool quick, Rows* rows, std::string* note) {
  const int cycles = quick ? 400'000 : 1'000'000;
  // Ours and theirs in turn, so that whatever else the machine does hits both.
  std::map<std::string, std::vector<double>> ours;
  std::map<int, std::vector<double>> theirs;
  for (int round = 0; round < (quick ? 3 : 5); ++round) {
    for (const auto& [name, rate] : InChild([cycles] { return CyclePhase(cycles); })) {
      ours[name].push_back(rate);
    }
    for (const auto& [threads, rate] : RunPeer(cycles)) theirs[threads].push_back(rate);
  }
  if (theirs.empty())
    *note = "client-go was left out: no Go toolchain that can build bench/peers/go";
  for (const int threads : {1, 2, 8}) {
    const std::string suffix = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    const double rate = Median(ours["durable " + std::to_string(threads)]);
    std::optional<double> bar;
    if (theirs.empty() && threads == 1) bar = 1.05e6;
    rows->push_back({"Add, Get, Done; durable, relaxed; " + suffix, rate, "cycles/s", bar, true});
    if (theirs.empty()) continue;
    const double peer = Median(theirs[threads]);
    rows->push_back({"client-go, in memory; " + suffix, peer, "cycles/s", {}});
    rows->push_back({"larder / client-go; " + suffix, rate / peer, "x", 1.0, true});
  }
  const double plain = Median(ours["durable 1"]);
  rows->push_back({"in memory; 1 thread", Median(ours["memory 1"]), "cycles/s", {}});
  rows->push_back({"what metrics add to a cycle; 1 thread",
                   1e9 / Median(ours["metrics 1"]) - 1e9 / plain, "ns", 150.0});
}

void SyncRows(bool quick, Rows* rows) {
  Figures sync = InChild([quick] { return SyncPhase(quick); });
  rows->push_back({"a sync of the store's log", 1e6 / sync["syncs"], "us", {}});
  rows->push_back({"sync adds, one caller: a sync each", sync["alone"], "items/s", {}});
  rows->push_back({"sync adds, 256 callers: group commit", sync["group"], "items/s", {}});
  rows->push_back({"group commit / a sync each", sync["group"] / sync["alone"], "x", 20.0, true});
}

void PendingRows(bool quick, Rows* rows) {
  const int many = quick ? 200'000 : 1'000'000;
  const std::string pending = std::to_string(many) + " pending";
  Figures few = InChild([] { return CostPhase(1000); });
  Figures full = InChild([many] { return CostPhase(many); });
  rows->push_back({"Add, 1000 pending", few["add"], "ns", {}});
  rows->push_back({"Add, " + pending, full["add"], "ns", {}});
  rows->push_back({"Get, 1000 pending", few["get"], "ns", {}});
  rows->push_back({"Get, " + pending, full["get"], "ns", {}});
  rows->push_back({"Add and Get: " + pending + " / 1000",
                   (full["add"] + full["get"]) / (few["add"] + few["get"]), "x", 2.0});

  const TempDir dir;
  Figures fill = InChild([&dir, many] { return FillPhase(dir, many); });
  rows->push_back({"adding and syncing " + pending, fill["seconds"], "s", {}});
  rows->push_back({"memory of the process, " + pending, fill["resident"], "MiB", 200.0});
  Figures restart = InChild([&dir, many] { return RestartPhase(dir, static_cast<size_t>(many)); });
  rows->push_back({"restart to first Get, " + pending, restart["first"], "s", 1.0});
  rows->push_back({"restart to all loaded", restart["loaded"], "s", {}});
  rows->push_back({"memory after the restart", restart["resident"], "MiB", 200.0});
}

int Main(bool quick, bool json_output, std::string_view only) {
  Rows rows;
  std::string note;
  if (only.empty() || only == "cycles") CycleRows(quick, &rows, &note);
  if (only.empty() || only == "sync") SyncRows(quick, &rows);
  if (only.empty() || only == "pending") PendingRows(quick, &rows);
  Print(rows, json_output, note);
  return AllPass(rows) ? 0 : 1;
}

}  // namespace
}  // namespace larder::bench

int main(int argc, char** argv) {
  bool quick = false;
  bool json_output = false;
  std::string_view only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") {
      quick = true;
    } else if (argument == "--json") {
      json_output = true;
    } else if (argument == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      std::fprintf(stderr, "usage: bench_queue [--quick] [--json] [--only cycles|sync|pending]\n");
      return 2;
    }
  }
  return larder::bench::Main(quick, json_output, only);
}
