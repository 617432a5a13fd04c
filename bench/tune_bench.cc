// What `larder tune` promises: recording costs next to nothing, recommendations beat RocksDB's own
// defaults, and larder's defaults are near the best that there is.
//
//   tune_bench [--quick] [--json] [--profile NAME] [--results DIR]
//
// The overhead is measured on what an informer does for an event (parse, encode, commit with an
// index key and a queue item, a get now and then), in rounds with and without a recording, one
// after the other. Each profile is a whole search; --results keeps what was measured, so that the
// next run goes on from it.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "bench/support.h"
#include "storage/store.h"
#include "storage/trace.h"
#include "tuning/content.h"
#include "tuning/recommend.h"
#include "tuning/search.h"

namespace larder::bench {
namespace {

struct Arguments {
  bool quick = false;
  bool json = false;
  std::string profile;
  std::string results;
};

class Overhead {
 public:
  explicit Overhead(bool quick) : events_(quick ? 4000 : 20'000), rounds_(quick ? 5 : 15) {
    store_ = OrDie(Store::Open({.path = dir_.Store()}));
    CollectionSpec spec;
    spec.cluster_uid = "bench";
    spec.resource = OrDie(LookupResource("pods"));
    pods_ = OrDie(store_->OpenCollection(spec)).id;
    kind_.resource = spec.resource;
    for (uint64_t i = 0; i < kDocuments; ++i) {
      documents_.emplace_back(OrDie(tuning::MakeObject(kind_, i, 1, i + 1))->json());
    }
    // The dictionary first: without one encoding costs three times as much.
    Round();
    store_->WaitForDictionaries();
    Round();
  }

  Rows Measure() {
    std::vector<double> wall, cpu;
    for (int i = 0; i < rounds_; ++i) {
      const auto [plain_wall, plain_cpu] = Round();
      OrDie(StartRecording(*store_,
                           {.path = dir_.path() + "/trace", .max_bytes = uint64_t{4} << 30}));
      const auto [wall_now, cpu_now] = Round();
      const TraceSummary summary = OrDie(StopRecording(*store_));
      if (summary.dropped != 0) Die("operations were left out");
      wall.push_back(wall_now / plain_wall);
      cpu.push_back(cpu_now / plain_cpu);
    }
    const double bytes = static_cast<double>(std::filesystem::file_size(dir_.path() + "/trace")) /
                         static_cast<double>(events_);
    return {
        {"recording: time of an event, against without", Median(wall), "x", 1.03, false,
         fmt::format("median of {} pairs of rounds", rounds_)},
        {"recording: processor time of an event, against without",
         Median(cpu),
         "x",
         {},
         false,
         fmt::format("the recorder's own thread included; {:.0f} B an event in the trace", bytes)}};
  }

 private:
  static constexpr uint64_t kDocuments = 2000;

  std::pair<double, double> Round() {
    const double cpu = CpuSeconds();
    const auto begin = SteadyClock::now();
    for (uint64_t i = 0; i < events_; ++i) {
      const ObjectPtr object = OrDie(Object::Parse(documents_[i % kDocuments]));
      Transaction transaction = store_->Begin();
      transaction.PutObject(pods_, OrDie(store_->Encode(pods_, *object)));
      transaction.PutIndexKey(pods_, 1, "node-1", object->key(), object->uid());
      transaction.PutQueueItem("q", object->name(), i, {});
      OrDie(store_->Commit(std::move(transaction), Durability::kRelaxed));
      if (i % 2 == 0) (void)OrDie(store_->Get(pods_, object->key()));
    }
    return {SecondsSince(begin), CpuSeconds() - cpu};
  }

  const uint64_t events_;
  const int rounds_;
  TempDir dir_;
  std::unique_ptr<Store> store_;
  tuning::ContentKind kind_;
  CollectionId pods_ = 0;
  std::vector<std::string> documents_;
};

void Profile(const tuning::WorkloadModel& profile, const Arguments& arguments, Rows& rows) {
  TempDir dir;
  const auto source =
      OrDie(tuning::SourceOfModel(tuning::Scaled(profile, arguments.quick ? 0.05 : 1), nullptr));
  tuning::SearchOptions options;
  options.matrix = arguments.quick ? tuning::MakeSmallMatrix({}) : tuning::MakeMatrix({});
  if (arguments.quick) options.rounds = {0.3, 1};
  options.folder = dir.path() + "/scratch";
  if (!arguments.results.empty()) options.results = arguments.results + "/" + profile.name;
  options.progress = [&](const std::string& what, double done) {
    std::cerr << fmt::format("{}: {:.0f}% {}\n", profile.name, done * 100, what);
  };
  const tuning::SearchOutcome outcome = OrDie(tuning::Search(*source, options));
  const tuning::Measured& current = *outcome.Find(tuning::kCurrentName);
  for (const tuning::Recommendation& entry : tuning::Recommend(outcome)) {
    for (const char* name : {tuning::kRocksDbName, tuning::kRocksDbValuesName}) {
      const tuning::Comparison comparison =
          tuning::Compare(entry.aim, entry.chosen->mean, outcome.Find(name)->mean);
      rows.push_back({fmt::format("{}, {}: against {}", profile.name, ToString(entry.aim), name),
                      comparison.aim_factor,
                      "x better",
                      {},
                      true,
                      fmt::format("{}; at worst {:.2f} times the {}",
                                  entry.keep_current ? "current" : entry.chosen->candidate.name,
                                  comparison.worst_factor, comparison.worst)});
    }
  }
  rows.push_back({fmt::format("{}: larder's defaults behind the front", profile.name),
                  tuning::PercentBehindFront(outcome, current), "%", 10, false});
}

int Main(const std::vector<std::string>& words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--quick") {
      arguments.quick = true;
    } else if (words[i] == "--json") {
      arguments.json = true;
    } else if (words[i] == "--profile" && i + 1 < words.size()) {
      arguments.profile = words[++i];
    } else if (words[i] == "--results" && i + 1 < words.size()) {
      arguments.results = words[++i];
    } else {
      std::cerr << "usage: tune_bench [--quick] [--json] [--profile NAME | --profile none] "
                   "[--results DIR]\n";
      return 2;
    }
  }
  Rows rows = Overhead(arguments.quick).Measure();
  for (const tuning::WorkloadModel& profile : tuning::Profiles()) {
    if (!arguments.profile.empty() && profile.name != arguments.profile) continue;
    Profile(profile, arguments, rows);
  }
  Print(rows, arguments.json);
  return AllPass(rows) ? 0 : 1;
}

}  // namespace
}  // namespace larder::bench

int main(int argc, char** argv) { return larder::bench::Main({argv + 1, argv + argc}); }
