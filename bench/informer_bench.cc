// What informers do under load: a handler that blocks for good, many collections in little memory,
// and a restart with many objects beside client-go's start on the same server.
//
//   bench_informer [--quick] [--json] [--only blocked|many|restart]
//
// The simulated API server runs in this process; every measured informer runs in a process of its
// own, so that memory and start-up are measured clean. The peer (bench/peers/go) needs Go; it
// is built into the user's cache folder. Without Go its rows are left out, and a note says so.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apiserver/simulator.h"
#include "base/process.h"
#include "bench/support.h"
#include "client/config.h"
#include "informer/factory.h"

namespace larder::bench {
namespace {

constexpr auto kPatience = std::chrono::minutes(5);
constexpr size_t kMiB = size_t{1} << 20;

// ---- in the measured processes

// What a process with informers has.
struct Parts {
  Parts(const std::string& url, const std::string& path, size_t memory_limit) {
    store = OrDie(Store::Open({.path = path, .memory_limit = memory_limit}));
    hot =
        std::make_unique<HotTier>(HotTierOptions{.max_bytes = DivideMemory(memory_limit).hot_tier});
    transport = OrDie(MakeTransport(ForUrl(url)));
    cluster = OrDie(FetchClusterUid(*transport, {}));
  }
  InformerContext Context() const { return {store.get(), hot.get(), transport.get(), cluster}; }

  std::unique_ptr<Store> store;
  std::unique_ptr<HotTier> hot;
  std::unique_ptr<HttpTransport> transport;
  std::string cluster;
};

InformerOptions Pods() {
  InformerOptions options;
  options.resource = OrDie(LookupResource("pods"));
  return options;
}

template <typename Condition>
void WaitFor(const Condition& condition, const char* what) {
  const auto deadline = SteadyClock::now() + kPatience;
  while (!condition()) {
    if (SteadyClock::now() > deadline) Die(std::string("waited in vain for ") + what);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// Knows the newest version of each key, as it was told; blocks when asked to.
class Follower final : public EventHandler {
 public:
  // `end` is the name of the pod that ends a round.
  explicit Follower(std::string end = {}) : end_(std::move(end)) {}
  void OnAdd(const ObjectPtr& object, bool) override { Heard(object, false); }
  void OnUpdate(const ObjectPtr&, const ObjectPtr& now) override { Heard(now, false); }
  void OnDelete(const ObjectPtr& last, bool) override { Heard(last, true); }

  void Block(bool yes) {
    blocked_ = yes;
    blocked_.notify_all();
  }
  // Has the last pod arrived?
  bool Ended() const { return ended_; }
  // Only after the informer was stopped, or when nothing can arrive.
  const std::map<std::string, std::string>& Known() const { return known_; }
  uint64_t calls() const { return calls_; }

 private:
  void Heard(const ObjectPtr& object, bool gone) {
    blocked_.wait(true);
    ++calls_;
    const std::string key = object->key().ToString();
    if (gone) {
      known_.erase(key);
    } else {
      known_[key] = object->resource_version();
    }
    if (!gone && object->name() == end_) ended_ = true;
  }

  const std::string end_;
  std::atomic<bool> blocked_{false};
  std::atomic<bool> ended_{false};
  std::atomic<uint64_t> calls_{0};
  std::map<std::string, std::string> known_;
};

// First, with an empty store, fills it. Then: what happened while nothing ran comes as one stream
// of events, to nine handlers, or to nine and one that blocks.
Figures BlockedPhase(const std::string& url, const std::string& path, const std::string& end) {
  const bool blocked = end.starts_with("blocked");
  const Parts parts(url, path, 64 * kMiB);
  const auto informer = OrDie(SharedInformer::Open(parts.Context(), Pods()));
  const bool first = !informer->Status().cursor.Complete();
  std::vector<std::shared_ptr<Follower>> followers;
  std::vector<SharedInformer::Registration> registrations;
  for (int i = 0; i < (blocked ? 10 : 9); ++i) {
    followers.push_back(std::make_shared<Follower>(end));
    registrations.push_back(OrDie(informer->AddEventHandler(followers.back())));
  }
  if (first) {
    informer->Start();
    OrDie(informer->WaitForSync(SteadyClock::now() + kPatience, {}));
    informer->Stop();
    parts.store->WaitForDictionaries();
    return {{"objects", static_cast<double>(OrDie(informer->GetIndexer().Count()))}};
  }
  for (const auto& registration : registrations) {
    WaitFor([&] { return registration->HasSynced(); }, "the handlers");
  }
  if (blocked) followers.back()->Block(true);
  Figures figures;
  figures["before"] = MemoryMiB("VmRSS:");
  const auto start = SteadyClock::now();
  informer->Start();
  WaitFor(
      [&] {
        return std::all_of(followers.begin(), followers.begin() + 9,
                           [](const auto& follower) { return follower->Ended(); });
      },
      "the last event");
  figures["seconds"] = SecondsSince(start);
  figures["peak"] = MemoryMiB("VmHWM:");
  figures["calls"] = static_cast<double>(followers[0]->calls());
  if (!blocked) return figures;
  const ListenerStats stats = registrations.back()->Stats();
  figures["buffered"] = static_cast<double>(stats.buffered);
  figures["rows"] = static_cast<double>(stats.rows);
  figures["merged"] = static_cast<double>(stats.merged);
  const auto unblocked = SteadyClock::now();
  followers.back()->Block(false);
  WaitFor(
      [&] {
        const ListenerStats now = registrations.back()->Stats();
        return !now.spilling && now.buffered == 0;
      },
      "the blocked handler");
  figures["catch up"] = SecondsSince(unblocked);
  std::map<std::string, std::string> truth;
  OrDie(informer->GetIndexer().ForEach({}, [&](const ObjectPtr& object) {
    truth[object->key().ToString()] = object->resource_version();
    return true;
  }));
  informer->Stop();
  size_t wrong = 0;
  for (const auto& [key, version] : truth) {
    const auto known = followers.back()->Known().find(key);
    if (known == followers.back()->Known().end() || known->second != version) ++wrong;
  }
  for (const auto& [key, version] : followers.back()->Known()) wrong += truth.count(key) == 0;
  figures["wrong"] = static_cast<double>(wrong);
  return figures;
}

size_t ThreadsNamed(std::string_view wanted) {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == wanted;
  }
  return count;
}

// What whole informers, with their store, take of a core while nothing happens, in percent.
double IdlePercent() {
  constexpr auto kSettle = std::chrono::seconds(3);  // watches are accepted, compactions end
  constexpr auto kHold = std::chrono::seconds(10);
  std::this_thread::sleep_for(kSettle);
  const auto start = SteadyClock::now();
  const double cpu = CpuSeconds();
  std::this_thread::sleep_for(kHold);
  return 100 * (CpuSeconds() - cpu) / SecondsSince(start);
}

// Many collections: the same pods under as many selectors.
Figures ManyPhase(const std::string& url, const std::string& path, int informers) {
  const Parts parts(url, path, 128 * kMiB);
  SharedInformerFactory factory(parts.Context());
  for (int i = 0; i < informers; ++i) {
    InformerOptions options = Pods();
    options.field_selector = "metadata.name!=none-" + std::to_string(i);
    OrDie(factory.ForResource(options));
  }
  const auto start = SteadyClock::now();
  factory.Start();
  OrDie(factory.WaitForCacheSync(SteadyClock::now() + kPatience, {}));
  Figures figures;
  figures["seconds"] = SecondsSince(start);
  for (const FactoryInformerStatus& one : factory.Status()) {
    figures["objects"] += static_cast<double>(one.status.sync.objects);
  }
  figures["peak"] = MemoryMiB("VmHWM:");
  figures["resident"] = MemoryMiB("VmRSS:");
  figures["idle percent"] = IdlePercent();
  figures["network threads"] = static_cast<double>(ThreadsNamed("larder-net"));
  factory.Shutdown();
  return figures;
}

// A whole process: from its start to synced, handler included.
Figures RestartPhase(const std::string& url, const std::string& path,
                     SteadyClock::time_point process_start) {
  const Parts parts(url, path, 64 * kMiB);
  const auto informer = OrDie(SharedInformer::Open(parts.Context(), Pods()));
  auto follower = std::make_shared<Follower>();
  HandlerOptions durable;
  durable.durable_name = "bench";
  const auto registration = OrDie(informer->AddEventHandler(follower, durable));
  informer->Start();
  WaitFor([&] { return informer->HasSynced() && registration->HasSynced(); }, "the first sync");
  Figures figures;
  figures["seconds"] = SecondsSince(process_start);
  figures["calls"] = static_cast<double>(follower->calls());
  figures["lists"] = static_cast<double>(informer->Status().reflector.lists);
  figures["objects"] = static_cast<double>(informer->Status().sync.objects);
  figures["peak"] = MemoryMiB("VmHWM:");
  return figures;
}

int RunPhase(const std::vector<std::string>& arguments) {
  spdlog::set_level(spdlog::level::warn);
  const std::string& phase = arguments.at(0);
  const std::string& url = arguments.at(1);
  const std::string& path = arguments.at(2);
  Figures figures;
  if (phase == "blocked") {
    figures = BlockedPhase(url, path, arguments.at(3));
  } else if (phase == "many") {
    figures = ManyPhase(url, path, std::stoi(arguments.at(3)));
  } else {
    const SteadyClock::time_point start(std::chrono::nanoseconds(std::stoll(arguments.at(3))));
    figures = RestartPhase(url, path, start);
  }
  std::printf("%s\n", nlohmann::json(figures).dump().c_str());
  return 0;
}

// ---- in the process that measures

Figures InChild(const std::string& phase, const std::string& url, const std::string& path,
                const std::string& last) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string out =
      Output("'" + self + "' --phase " + phase + " '" + url + "' '" + path + "' " + last)
          .value_or("");
  // The figures are the last line; warnings may stand before it.
  const size_t end = out.find_last_not_of('\n');
  const size_t begin = out.find_last_of('\n', end) + 1;
  const auto json = nlohmann::json::parse(out.substr(begin), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) Die("phase " + phase + " failed");
  return json.get<Figures>();
}

std::unique_ptr<apiserver::Simulator> StartServer(uint64_t pods) {
  auto simulator = OrDie(apiserver::Simulator::Start({}));
  OrDie(simulator->Load(pods));
  return simulator;
}

void BlockedRows(bool quick, Rows* rows) {
  const uint64_t events = quick ? 10'000 : 50'000;
  const auto simulator = StartServer(2000);
  OrDie(simulator->CreateNamespace("bench"));
  const TempDir dir;
  InChild("blocked", simulator->Url(), dir.Store(), "fill");
  std::map<bool, std::vector<double>> seconds;
  std::map<bool, std::vector<double>> peak;
  Figures last;
  const auto follow = [&](uint64_t count, bool blocked, uint64_t round) {
    simulator->RunChurn(count, {.create = 1, .update = 8, .remove = 1, .seed = round + 1});
    const std::string end = fmt::format("{}-{}-{}", blocked ? "blocked" : "free", count, round);
    OrDie(simulator->Create("pods", R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" +
                                        end + R"(","namespace":"bench"},"spec":{}})"));
    return InChild("blocked", simulator->Url(), dir.Store(), end);
  };
  std::vector<double> late_peak;
  for (uint64_t round = 0; round < (quick ? 3 : 5); ++round) {
    // As many as the server's history holds.
    late_peak.push_back(follow(events * 8 / 5, true, round).at("peak"));
    // In turn, so that whatever else the machine does hits both; the order changes from round to
    // round.
    for (const bool blocked : {round % 2 == 0, round % 2 != 0}) {
      const Figures figures = follow(events, blocked, round);
      seconds[blocked].push_back(figures.at("seconds"));
      peak[blocked].push_back(figures.at("peak"));
      if (blocked) last = figures;
    }
  }
  const std::string count = std::to_string(events) + " events";
  rows->push_back({count + " to nine handlers", Median(seconds[false]), "s", {}});
  rows->push_back({"the same beside one that is blocked for good", Median(seconds[true]), "s", {}});
  rows->push_back(
      {"with the blocked one / without", Median(seconds[true]) / Median(seconds[false]), "x", 1.1});
  rows->push_back({"peak memory without it", Median(peak[false]), "MiB", {}});
  rows->push_back({"peak memory with it", Median(peak[true]), "MiB", {}});
  rows->push_back({"peak memory with it, 1.6 times the events", Median(late_peak), "MiB", {}});
  rows->push_back({"peak memory with it, 1.6 times the events / these events",
                   Median(late_peak) / Median(peak[true]), "x", 1.1});
  rows->push_back({"changes that wait for it in memory", last.at("buffered"), "changes", 1024.0});
  rows->push_back({"rows that wait for it on disk, one a key", last.at("rows"), "rows", {}});
  rows->push_back({"unblocked, until it has heard all", last.at("catch up"), "s", {}});
  rows->push_back({"keys whose final state it does not know", last.at("wrong"), "keys", 0.0});
}

void ManyRows(bool quick, Rows* rows) {
  const int informers = quick ? 10 : 50;
  const uint64_t objects = quick ? 2000 : 10'000;
  const auto simulator = StartServer(objects);
  const TempDir dir;
  const Figures first = InChild("many", simulator->Url(), dir.Store(), std::to_string(informers));
  const Figures again = InChild("many", simulator->Url(), dir.Store(), std::to_string(informers));
  const std::string what =
      std::to_string(informers) + " informers x " + std::to_string(objects) + " objects";
  rows->push_back({what + ", stored", first.at("objects"), "objects",
                   static_cast<double>(objects) * informers, true});
  rows->push_back({what + ", first start", first.at("seconds"), "s", {}});
  rows->push_back({what + ", peak memory of the process", first.at("peak"), "MiB", 128.0});
  rows->push_back({what + ", restart", again.at("seconds"), "s", {}});
  rows->push_back({what + ", peak memory of a restart", again.at("peak"), "MiB", 128.0});
  rows->push_back({what + ", network threads", again.at("network threads"), "threads", 1.0});
  rows->push_back({what + ", idle, of a core", again.at("idle percent"), "%", 1.0});
}

void RestartRows(bool quick, Rows* rows, std::string* note) {
  const uint64_t objects = quick ? 10'000 : 100'000;
  const auto simulator = StartServer(objects);
  const TempDir dir;
  const auto run = [&] {
    const auto now = SteadyClock::now().time_since_epoch();
    return InChild("restart", simulator->Url(), dir.Store(),
                   std::to_string(std::chrono::nanoseconds(now).count()));
  };
  const Figures first = run();
  if (first.at("objects") != static_cast<double>(objects)) Die("objects are missing");
  const auto peer = BuildPeer(LARDER_PEERS, "client-go");
  if (!peer) {
    *note = "client-go was left out: no Go toolchain that can build bench/peers/go";
  }
  std::vector<double> ours;
  std::vector<double> theirs;
  Figures last;
  double peer_peak = 0;
  for (int round = 0; round < (quick ? 2 : 3); ++round) {
    simulator->RunChurn(100, {.seed = static_cast<uint64_t>(round) + 1});
    last = run();
    ours.push_back(last.at("seconds"));
    if (!peer) continue;
    const auto lines = Output("'" + *peer + "' sync -server '" + simulator->Url() + "'");
    if (!lines) Die("client-go failed");
    const Figures figures = FiguresIn(*lines);
    peer_peak = figures.at("peak_mib");
    theirs.push_back(figures.at("seconds"));
  }
  const std::string what = std::to_string(objects) + " objects: ";
  rows->push_back({what + "first start, until synced and heard", first.at("seconds"), "s", {}});
  rows->push_back({what + "restart, until synced and heard", Median(ours), "s", 1.0});
  rows->push_back({what + "lists of the restart", last.at("lists"), "lists", 0.0});
  rows->push_back({what + "calls of the durable handler", last.at("calls"), "calls", 200.0});
  rows->push_back({what + "peak memory of the restart", last.at("peak"), "MiB", {}});
  if (theirs.empty()) return;
  rows->push_back({what + "client-go's start on the same server", Median(theirs), "s", {}});
  rows->push_back({what + "client-go's peak memory", peer_peak, "MiB", {}});
  rows->push_back({"client-go's start / larder's restart", Median(theirs) / Median(ours), "x",
                   quick ? 1.0 : 5.0, true});
}

int Main(bool quick, bool json_output, std::string_view only) {
  spdlog::set_level(spdlog::level::warn);
  Rows rows;
  std::string note;
  if (only.empty() || only == "blocked") BlockedRows(quick, &rows);
  if (only.empty() || only == "many") ManyRows(quick, &rows);
  if (only.empty() || only == "restart") RestartRows(quick, &rows, &note);
  Print(rows, json_output, note);
  return AllPass(rows) ? 0 : 1;
}

}  // namespace
}  // namespace larder::bench

int main(int argc, char** argv) {
  larder::PrepareProcess();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 5 && arguments[0] == "--phase") {
    return larder::bench::RunPhase({arguments.begin() + 1, arguments.end()});
  }
  bool quick = false;
  bool json_output = false;
  std::string_view only;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--quick") {
      quick = true;
    } else if (arguments[i] == "--json") {
      json_output = true;
    } else if (arguments[i] == "--only" && i + 1 < arguments.size()) {
      only = arguments[++i];
    } else {
      std::fprintf(stderr,
                   "usage: bench_informer [--quick] [--json] [--only blocked|many|restart]\n");
      return 2;
    }
  }
  return larder::bench::Main(quick, json_output, only);
}
