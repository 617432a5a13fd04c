// What a first sync from the real kube-apiserver costs: larder beside client-go's informer, and
// beside fetching the same bytes to nowhere.
//
//   bench_sync [--quick] [--json]      10,000 pods with --quick, else 50,000
//
// Needs Go, for the server (kube/kube.sh) and for client-go; without it, it says so and measures
// nothing. The server and its pods are kept in the user's cache folder, so that only the first run
// loads them. Every measurement is a process of its own, larder and the peers in turn.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/real_pods.h"
#include "bench/support.h"
#include "client/config.h"
#include "informer/shared_informer.h"

namespace larder::bench {
namespace {

Figures Used(SteadyClock::time_point start) {
  const double seconds = SecondsSince(start);
  return {{"seconds", seconds}, {"cpu_seconds", CpuSeconds()}, {"peak_mib", MemoryMiB("VmHWM:")}};
}

// The phases that are processes of their own.

// A first sync into an empty store.
Figures SyncPhase(const std::string& kubeconfig) {
  const auto start = SteadyClock::now();
  const TempDir dir;
  Figures figures;
  {
    const auto transport = OrDie(MakeTransport(OrDie(LoadKubeconfig(kubeconfig))));
    const std::string cluster = OrDie(FetchClusterUid(*transport, {}));
    const auto store = OrDie(Store::Open({.path = dir.Store()}));
    HotTier hot({});
    InformerOptions options;
    options.resource = *LookupResource("pods");
    const auto pods = OrDie(
        SharedInformer::Open({store.get(), &hot, transport.get(), cluster, nullptr}, options));
    pods->Start();
    OrDie(pods->WaitForSync(Clock::Steady::max(), {}));
    figures = Used(start);
    const ReflectorStatus status = pods->Status().reflector;
    figures["objects"] = static_cast<double>(OrDie(pods->GetIndexer().Count()));
    figures["wire_mib"] = static_cast<double>(status.wire_bytes) / (1 << 20);
    figures["body_mib"] = static_cast<double>(status.body_bytes) / (1 << 20);
    pods->Stop();
  }
  return figures;
}

// The answer that larder reads, fetched and thrown away as it comes.
Figures RawPhase(const std::string& kubeconfig) {
  const auto start = SteadyClock::now();
  const ClientConfig config = OrDie(LoadKubeconfig(kubeconfig));
  const std::string command =
      "curl -sf --cacert '" + config.ca_file + "' -H 'Authorization: Bearer " + config.token +
      "' -H 'Accept: application/json' -H 'Accept-Encoding: gzip' -A '" + DefaultUserAgent() +
      "' -o /dev/null '" + config.server + "/api/v1/pods' && echo done";
  if (!Output(command)) Die("curl failed");
  return {{"seconds", SecondsSince(start)}};
}

// Preparing.

class Bench {
 public:
  Bench(bool quick, std::string self) : quick_(quick), self_(std::move(self)) {}

  // False when there is no Go.
  bool Prepare() {
    const std::string script = std::string("'") + LARDER_KUBE + "/kube.sh' ";
    if (!Output("command -v go") || !Output(script + "build >&2 && echo")) return false;
    const uint64_t count = quick_ ? 10'000 : 50'000;
    folder_ = CacheFolder() + "/kube/bench-" + std::to_string(count);
    if (!Output(script + "up '" + folder_ + "' >&2 && echo")) Die("the server did not start");
    ClientConfig config = OrDie(LoadKubeconfig(Kubeconfig()));
    config.qps = 0;
    LoadPods(*OrDie(MakeTransport(config)), count);
    // A server that has just written everything is not the one that a client meets.
    if (!Output(script + "stop '" + folder_ + "' apiserver && " + script + "start '" + folder_ +
                "' apiserver && echo")) {
      Die("the server did not restart");
    }
    const auto peer = BuildPeer(LARDER_PEERS, "client-go");
    peer_ = peer.value_or("");
    return peer.has_value();
  }

  std::vector<Row> Measure() {
    const int rounds = 3;
    for (int round = 0; round < rounds; ++round) {
      for (const char* way : kWays) {
        std::fprintf(stderr, "bench_sync: round %d of %d, %s\n", round + 1, rounds, way);
        for (const auto& [name, value] : Once(way)) measured_[way][name].push_back(value);
      }
    }
    return Rows();
  }

  void Finish() {
    (void)Output(std::string("'") + LARDER_KUBE + "/kube.sh' down '" + folder_ + "'");
  }

 private:
  static constexpr std::array<const char*, 6> kWays = {"raw",
                                                       "larder",
                                                       "client-go json",
                                                       "client-go protobuf",
                                                       "client-go json stream",
                                                       "client-go protobuf stream"};

  std::string Kubeconfig() const { return folder_ + "/kubeconfig"; }

  Figures Once(const std::string& way) {
    std::string command;
    if (way == "raw" || way == "larder") {
      command = "'" + self_ + "' --phase " + way + " '" + Kubeconfig() + "'";
    } else {
      command = std::string("KUBE_FEATURE_WatchListClient=") +
                (way.ends_with("stream") ? "true" : "false") + " '" + peer_ +
                "' sync -kubeconfig '" + Kubeconfig() + "' -media " +
                (way.find("protobuf") != std::string::npos ? "protobuf" : "json");
    }
    const auto out = Output(command);
    if (!out) Die(way + " failed");
    return FiguresIn(*out);
  }

  double Median(const std::string& way, const std::string& name) const {
    return bench::Median(measured_.at(way).at(name));
  }
  double BestPeer(const std::string& name) const {
    double best = 1e300;
    for (const std::string way : kWays) {
      if (way.starts_with("client-go")) best = std::min(best, Median(way, name));
    }
    return best;
  }

  std::vector<Row> Rows() const {
    std::vector<Row> rows;
    for (const std::string way : kWays) {
      rows.push_back({way + ": time", Median(way, "seconds"), "s", {}});
      if (way == "raw") continue;
      rows.push_back({way + ": CPU", Median(way, "cpu_seconds"), "s", {}});
      rows.push_back({way + ": peak memory", Median(way, "peak_mib"), "MiB", {}});
    }
    rows.push_back({"received by larder", Median("larder", "wire_mib"), "MiB", {}});
    rows.push_back({"the same, unpacked", Median("larder", "body_mib"), "MiB", {}});
    rows.push_back({"time of larder / of its bytes to nowhere",
                    Median("larder", "seconds") / Median("raw", "seconds"), "x", 1.15});
    rows.push_back({"CPU of larder / of client-go at its best",
                    Median("larder", "cpu_seconds") / BestPeer("cpu_seconds"), "x", 0.5});
    rows.push_back({"peak memory of larder / of client-go at its best",
                    Median("larder", "peak_mib") / BestPeer("peak_mib"), "x", 0.1});
    return rows;
  }

  const bool quick_;
  const std::string self_;
  std::string folder_;
  std::string peer_;
  std::map<std::string, std::map<std::string, std::vector<double>>> measured_;
};

int Main(const std::vector<std::string>& words, const std::string& self) {
  if (words.size() == 3 && words[0] == "--phase") {
    spdlog::set_level(spdlog::level::err);
    const Figures figures = words[1] == "raw" ? RawPhase(words[2]) : SyncPhase(words[2]);
    std::printf("%s\n", nlohmann::json(figures).dump().c_str());
    return 0;
  }
  bool quick = false;
  bool json_output = false;
  for (const std::string& word : words) {
    if (word != "--quick" && word != "--json") {
      std::fprintf(stderr, "usage: bench_sync [--quick] [--json]\n");
      return 2;
    }
    (word == "--quick" ? quick : json_output) = true;
  }
  Bench bench(quick, self);
  if (!bench.Prepare()) {
    std::fprintf(stderr, "bench_sync: nothing was measured: the server and client-go need Go\n");
    return 0;
  }
  const std::vector<Row> rows = bench.Measure();
  bench.Finish();
  Print(rows, json_output);
  return AllPass(rows) ? 0 : 1;
}

}  // namespace
}  // namespace larder::bench

int main(int argc, char** argv) {
  return larder::bench::Main({argv + 1, argv + argc},
                             std::filesystem::read_symlink("/proc/self/exe"));
}
