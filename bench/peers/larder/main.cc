// larder as a peer, and what prepares a server for all of them.
//
//   bench_larder_peer sync --kubeconfig FILE [--store DIR] [--hold S] [--until MARK] [--follow
//   MARK] bench_larder_peer reads --kubeconfig FILE bench_larder_peer queue --cycles N --threads N
//   bench_larder_peer load --kubeconfig FILE --pods N
//   bench_larder_peer write --kubeconfig FILE --count N --pods N [--rate R] [--mark MARK]
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "base/process.h"
#include "bench/peers/larder/peer.h"
#include "bench/real_pods.h"

int main(int argc, char** argv) {
  using namespace larder::bench;
  SinceStart();
  larder::PrepareProcess();
  spdlog::set_level(spdlog::level::err);
  CLI::App app("larder as a peer in ./dev bench peers");
  app.require_subcommand(1);

  SyncArguments sync;
  const auto informer = [&](const char* name, const char* what) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option("--kubeconfig", sync.kubeconfig)->required();
    command->add_option("--store", sync.store, "Kept; without one the store is temporary");
    command->add_option("--memory", sync.memory_mib, "The store's limit in MiB");
    command->add_flag("--json", sync.json, "Ask for JSON and no protobuf, to compare");
    command->add_flag("--strip", sync.strip, "Keep no managedFields");
    return command;
  };
  CLI::App* command = informer("sync", "Sync, or resume, and follow");
  command->add_option("--hold", sync.hold, "Seconds until steady memory is measured");
  command->add_option("--until", sync.until, "Synced means: also heard of this mark");
  command->add_option("--handled", sync.handled, "Synced means: also so many calls of the handler");
  command->add_option("--follow", sync.follow, "Go on until this mark");
  command->callback([&] { Sync(sync); });
  informer("reads", "Sync, then read")->callback([&] { Reads(sync); });

  int cycles = 1'000'000;
  int threads = 1;
  command = app.add_subcommand("queue", "Cycles of Add, Get, Done");
  command->add_option("--cycles", cycles);
  command->add_option("--threads", threads);
  command->callback([&] { QueueCycles(cycles, threads); });

  std::string kubeconfig;
  uint64_t pods = 0;
  command = app.add_subcommand("load", "Fill a server with pods");
  command->add_option("--kubeconfig", kubeconfig)->required();
  command->add_option("--pods", pods)->required();
  command->callback([&] { LoadPods(*Connect(kubeconfig), pods); });

  PodWrites writes;
  command = app.add_subcommand("write", "Patch pods, each with the time of its patch");
  command->add_option("--kubeconfig", kubeconfig)->required();
  command->add_option("--count", writes.count)->required();
  command->add_option("--pods", writes.pods)->required();
  command->add_option("--rate", writes.rate, "Patches a second; 0: as fast as it goes");
  command->add_option("--mark", writes.mark, "What the last patch says");
  command->callback([&] { WritePods(*Connect(kubeconfig), writes); });

  CLI11_PARSE(app, argc, argv);
  return 0;
}
