// Guards against slow decay: how many instructions fixed workloads take, counted by valgrind,
// against the recorded counts.
//
//   bench_instructions [--quick] [--json] [--record]
//
// Time is noise on a shared machine; an instruction count is not. Only what the calling thread does
// inside a workload is counted, so that RocksDB's own threads do not matter. Counts depend on the
// compiler, on libraries and on what the processor can do: the file bench/instructions.json says
// which they were recorded with, and elsewhere nothing is judged (exit code 77, which ctest takes
// as skipped). --record writes the file anew: say why in the commit.
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <rocksdb/version.h>
#include <simdjson.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "apiserver/workload.h"
#include "base/base64.h"
#include "bench/support.h"
#include "indexer/indexer.h"
#include "queue/work_queue.h"
#include "schema/wire_to_json.h"

namespace larder::bench {
namespace {

constexpr double kTolerance = 0.03;
constexpr int kSkipped = 77;
constexpr size_t kPods = 150;  // few enough that no dictionary is trained meanwhile
constexpr int kWireRounds = 20;

}  // namespace

// An object as protobuf.
struct WireSample {
  TypeMeta type;
  const WireMessage* message = nullptr;
  std::string bytes;
};

// Those that the tests have: every type of field is among them.
std::vector<WireSample> WireSamples() {
  std::vector<WireSample> samples;
  std::ifstream file(LARDER_WIRE_OBJECTS);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    WireSample sample;
    std::string base64;
    words >> sample.type.api_version >> sample.type.kind >> base64;
    sample.message = WireSchema::BuiltIn().Find(sample.type);
    sample.bytes = DecodeBase64(base64).value_or("");
    if (sample.message == nullptr || sample.bytes.empty()) Die("a wire sample cannot be read");
    samples.push_back(std::move(sample));
  }
  if (samples.empty()) Die("there are no wire samples");
  return samples;
}

struct Fixture {
  Fixture() {
    for (size_t i = 0; i < kPods; ++i) texts.push_back(apiserver::MakePod(1, i));
    store = OrDie(Store::Open({.path = dir.Store()}));
    CollectionSpec spec;
    spec.cluster_uid = "bench";
    spec.resource = OrDie(LookupResource("pods"));
    hot = std::make_unique<HotTier>(HotTierOptions{});
    indexer = OrDie(Indexer::Open(store.get(), hot.get(), spec,
                                  {OrDie(IndexDefinition::ByField("node", "spec.nodeName"))}));
    for (const std::string& text : texts) objects.push_back(OrDie(Object::Parse(text)));
    WorkQueueOptions options;
    options.name = "bench";
    options.store = store.get();
    options.flush_interval = std::chrono::milliseconds(0);  // no thread of its own
    queue = OrDie(WorkQueue::Open(std::move(options)));
  }
  const TempDir dir;
  const std::vector<WireSample> wire = WireSamples();
  std::vector<std::string> texts;
  std::vector<ObjectPtr> objects;
  std::unique_ptr<Store> store;
  std::unique_ptr<HotTier> hot;
  std::unique_ptr<Indexer> indexer;
  std::unique_ptr<WorkQueue> queue;
};

// The workloads are what valgrind is told to count, by name; so they have names that are not
// mangled.
extern "C" {
void larder_count_decode(Fixture& fixture);
void larder_count_decode_wire(Fixture& fixture);
void larder_count_commit(Fixture& fixture);
void larder_count_get(Fixture& fixture);
void larder_count_get_hot(Fixture& fixture);
void larder_count_queue(Fixture& fixture);
}

[[gnu::noinline]] void larder_count_decode(Fixture& fixture) {
  for (const std::string& text : fixture.texts) (void)OrDie(Object::Parse(text));
}

// Nothing is known of the objects before: each byte is converted.
[[gnu::noinline]] void larder_count_decode_wire(Fixture& fixture) {
  std::string json;
  for (int round = 0; round < kWireRounds; ++round) {
    for (const WireSample& sample : fixture.wire) {
      KnownJson known;
      (void)OrDie(WireToJson(*sample.message, sample.type, sample.bytes, {1000}, known, json));
    }
  }
}

[[gnu::noinline]] void larder_count_commit(Fixture& fixture) {
  for (size_t at = 0; at < kPods; at += 10) {
    const auto writer = fixture.indexer->BeginWrite();
    for (size_t i = at; i < at + 10; ++i) {
      const ObjectPtr& object = fixture.objects[i];
      OrDie(writer->Upsert(object, OrDie(fixture.indexer->Prepare(*object))));
    }
    writer->SetCursor({});
    OrDie(writer->Commit(Durability::kRelaxed));
  }
}

[[gnu::noinline]] void larder_count_get(Fixture& fixture) {
  const CollectionId id = fixture.indexer->collection().id;
  for (const ObjectPtr& object : fixture.objects)
    (void)OrDie(fixture.store->Get(id, object->key()));
}

[[gnu::noinline]] void larder_count_get_hot(Fixture& fixture) {
  for (int round = 0; round < 20; ++round) {
    for (const ObjectPtr& object : fixture.objects)
      (void)OrDie(fixture.indexer->GetByKey(object->key()));
  }
}

[[gnu::noinline]] void larder_count_queue(Fixture& fixture) {
  for (int i = 0; i < 5000; ++i) {
    OrDie(fixture.queue->Add("namespace/pod-" + std::to_string(i)));
    fixture.queue->Done(*fixture.queue->Get());
  }
}

namespace {

struct Workload {
  const char* name;
  void (*run)(Fixture&);
  double operations;
};
constexpr std::array<Workload, 6> kWorkloads = {{
    {"larder_count_decode", larder_count_decode, kPods},
    {"larder_count_decode_wire", larder_count_decode_wire, kWireRounds},
    {"larder_count_commit", larder_count_commit, kPods},
    {"larder_count_get", larder_count_get, kPods},
    {"larder_count_get_hot", larder_count_get_hot, 20.0 * kPods},
    {"larder_count_queue", larder_count_queue, 5000},
}};

// Everything once, in this order, so that one run of valgrind is enough for all.
void RunAll() {
  Fixture fixture;
  for (const Workload& workload : kWorkloads) workload.run(fixture);
  // Which instructions of the processor are used here, which under valgrind are fewer.
  std::printf("%s\n", simdjson::get_active_implementation()->name().c_str());
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

nlohmann::ordered_json Surroundings() {
  return {{"compiler", __VERSION__},
          {"build", LARDER_BUILD_TYPE},
          {"libc", ::gnu_get_libc_version()},
          {"rocksdb", fmt::format("{}.{}.{}", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH)},
          {"zstd", ::ZSTD_versionString()},
          {"simdjson", fmt::format("{}.{}.{}", static_cast<int>(simdjson::SIMDJSON_VERSION_MAJOR),
                                   static_cast<int>(simdjson::SIMDJSON_VERSION_MINOR),
                                   static_cast<int>(simdjson::SIMDJSON_VERSION_REVISION))},
          {"valgrind", FirstLine(Output("valgrind --version").value_or(""))}};
}

// Instructions by workload, this thread's only. Adds to the surroundings what they depend on.
Figures Count(const std::string& self, nlohmann::ordered_json* surroundings) {
  const TempDir dir;
  const std::string out = dir.path() + "/out";
  const std::string log = dir.path() + "/log";
  std::string command = "valgrind --tool=callgrind --collect-atstart=no ";
  for (const Workload& workload : kWorkloads) {
    command += fmt::format("--toggle-collect={} ", workload.name);
  }
  command += fmt::format("--callgrind-out-file='{}' '{}' --run 2>'{}'", out, self, log);
  const auto implementation = Output(command);
  if (!implementation) Die("valgrind failed: " + Output("tail -n 20 '" + log + "'").value_or(""));
  (*surroundings)["simdjson_implementation"] = FirstLine(*implementation);
  // Lines like " 66,744,049 (58.98%)  ???:larder_count_commit [/...]".
  std::istringstream lines(
      Output("callgrind_annotate --inclusive=yes --threshold=100 '" + out + "'").value_or(""));
  Figures counts;
  for (std::string line; std::getline(lines, line);) {
    for (const Workload& workload : kWorkloads) {
      if (line.find(fmt::format(":{} ", workload.name)) == std::string::npos) continue;
      std::string digits = line.substr(0, line.find('('));
      std::erase_if(digits, [](char c) { return c < '0' || c > '9'; });
      counts[workload.name] = std::stod(digits);
    }
  }
  if (counts.size() != kWorkloads.size()) Die("valgrind did not count every workload");
  return counts;
}

int Main(const std::vector<std::string>& words, const std::string& self) {
  bool json_output = false, record = false;
  for (const std::string& word : words) {
    if (word == "--run") {
      RunAll();
      return 0;
    }
    if (word == "--json") {
      json_output = true;
    } else if (word == "--record") {
      record = true;
    } else if (word != "--quick") {
      std::fprintf(stderr, "usage: bench_instructions [--quick] [--json] [--record]\n");
      return 2;
    }
  }
  const std::string file = LARDER_INSTRUCTIONS;
  nlohmann::ordered_json surroundings = Surroundings();
  if (surroundings["valgrind"].get_ref<const std::string&>().empty()) {
    std::fprintf(stderr, "bench_instructions: nothing was counted: there is no valgrind\n");
    return kSkipped;
  }
  const Figures counts = Count(self, &surroundings);
  if (record) {
    const nlohmann::ordered_json out = {{"recorded_with", surroundings}, {"instructions", counts}};
    std::ofstream(file) << out.dump(2) << "\n";
    return 0;
  }
  std::ifstream in(file);
  const auto recorded = nlohmann::ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!recorded.is_object()) Die(file + " is no JSON; --record writes it");
  if (recorded["recorded_with"] != surroundings) {
    std::fprintf(stderr, "bench_instructions: not judged: recorded with %s, this is %s\n",
                 recorded["recorded_with"].dump().c_str(), surroundings.dump().c_str());
    return kSkipped;
  }
  Rows rows;
  for (const Workload& workload : kWorkloads) {
    const double before = recorded["instructions"].value(workload.name, 0.0);
    const double now = counts.at(workload.name);
    const std::string name = std::string(workload.name).substr(sizeof "larder_count_" - 1);
    rows.push_back({name + ": instructions each", now / workload.operations, "", {}});
    rows.push_back({name + ": away from the recorded count", std::abs(now / before - 1) * 100, "%",
                    kTolerance * 100});
  }
  Print(rows, json_output);
  if (!AllPass(rows)) {
    std::fprintf(
        stderr,
        "bench_instructions: more than 3 %% away; where that is meant, --record and say why\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace larder::bench

int main(int argc, char** argv) {
  return larder::bench::Main({argv + 1, argv + argc},
                             std::filesystem::read_symlink("/proc/self/exe"));
}
