// What the store costs: size, ingestion, gets, lists, memory, opening.
//
//   store_bench [--quick] [--json] [--dir DIR]
//
// Prints one row for each figure with its bar. All in one run, on one machine, so that the figures
// stand beside each other; Debian's RocksDB has its assertions on, a release build is faster. Pods
// are made by the workload generator of the simulated API server, 9 KB each on average. The full
// run holds 1 GB of them in memory before it starts.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "apiserver/workload.h"
#include "bench/support.h"
#include "indexer/indexer.h"
#include "indexer/lister.h"
#include "storage/maintenance.h"
#include "storage/store.h"

namespace larder::bench {
namespace {

constexpr uint64_t kSeed = 1;

class Bench {
 public:
  Bench(std::string dir, bool quick) : dir_(std::move(dir)), quick_(quick) {}

  Rows Run() {
    Ingest();
    Compacted();
    HotGet();
    ColdGet();
    IndexList();
    Memory();
    Million();
    return std::move(rows_);
  }

  static CollectionSpec Pods() {
    CollectionSpec spec;
    spec.cluster_uid = "bench";
    spec.resource = OrDie(LookupResource("pods"));
    return spec;
  }
  static std::vector<IndexDefinition> Indexes() {
    return {OrDie(IndexDefinition::ByField("node", "spec.nodeName")),
            OrDie(IndexDefinition::ByField("phase", "status.phase"))};
  }

 private:
  static constexpr size_t kBatch = 256;

  void Add(Row row) {
    std::cerr << fmt::format("{}: {:.3g} {}\n", row.name, row.value, row.unit);
    rows_.push_back(std::move(row));
  }

  void Open() {
    store_ = OrDie(Store::Open({.path = dir_ + "/pods"}));
    hot_ = std::make_unique<HotTier>(
        HotTierOptions{.max_bytes = DivideMemory(store_->options().memory_limit).hot_tier});
    indexer_ = OrDie(Indexer::Open(store_.get(), hot_.get(), Pods(), Indexes()));
  }

  // Two workers, each parses, compresses and computes index values for a batch, then commits it.
  void Ingest() {
    const size_t count = quick_ ? 10'000 : 100'000;
    std::cerr << "making " << count << " pods\n";
    std::vector<std::string> documents;
    documents.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      documents.push_back(apiserver::MakePod(kSeed, i));
      json_bytes_ += documents.back().size();
    }
    Open();
    std::atomic<size_t> next{0};
    const double cpu = CpuSeconds();
    const auto begin = SteadyClock::now();
    {
      std::vector<std::jthread> workers;
      workers.reserve(2);
      for (int i = 0; i < 2; ++i) {
        workers.emplace_back([&] {
          for (size_t at; (at = next.fetch_add(kBatch)) < documents.size();) {
            CommitBatch(documents, at, std::min(at + kBatch, documents.size()));
          }
        });
      }
    }
    const double seconds = SecondsSince(begin), used = CpuSeconds() - cpu;
    const double megabytes = static_cast<double>(json_bytes_) / 1e6;
    count_ = count;
    Add({"JSON in, committed with two indexes, two cores", megabytes / seconds, "MB/s", 300, true,
         fmt::format("{:.0f} MB/s by processor time; {:.1f} us of it an object, {} B each",
                     megabytes / (used / 2), used * 1e6 / static_cast<double>(count),
                     json_bytes_ / count)});
  }

  void CommitBatch(const std::vector<std::string>& documents, size_t from, size_t to) {
    std::vector<std::pair<ObjectPtr, Indexer::Prepared>> batch;
    batch.reserve(to - from);
    for (size_t i = from; i < to; ++i) {
      ObjectPtr object = OrDie(Object::Parse(documents[i]));
      Indexer::Prepared prepared = OrDie(indexer_->Prepare(*object));
      batch.emplace_back(std::move(object), std::move(prepared));
    }
    const auto writer = indexer_->BeginWrite();
    for (const auto& [object, prepared] : batch) {
      OrDie(writer->Upsert(object, prepared, Indexer::Writer::Expect::kAbsent));
    }
    OrDie(writer->Commit(Durability::kRelaxed));
  }

  void Compacted() {
    store_->WaitForDictionaries();
    OrDie(Compact(*store_));
    const StoreStats stats = OrDie(GetStats(*store_));
    uint64_t tables = 0;
    std::string each;
    for (const FamilyStats& family : stats.families) {
      tables += family.table_bytes;
      if (family.table_bytes / count_ != 0)
        each += fmt::format(", {} {}", family.name, family.table_bytes / count_);
    }
    Add({"stored bytes, all families, against the same as JSON",
         static_cast<double>(json_bytes_) / static_cast<double>(tables), "x smaller", 12, true,
         fmt::format("{} B an object{}", tables / count_, each)});
  }

  std::vector<ObjectKey> RandomKeys(size_t how_many, size_t among) {
    std::mt19937_64 random(7);
    const apiserver::PodSource pods({.seed = kSeed});
    std::vector<ObjectKey> keys;
    for (size_t i = 0; i < how_many; ++i) keys.push_back(pods.Key(random() % among));
    return keys;
  }

  void HotGet() {
    constexpr size_t kObjects = 1000, kGets = 2'000'000;
    const std::vector<ObjectKey> keys = RandomKeys(20'000, kObjects);
    std::unordered_map<std::string, ObjectPtr> map;
    std::shared_mutex mutex;
    std::vector<std::string> names;
    for (const ObjectKey& key : keys) {
      map[key.ToString()] = OrDie(indexer_->GetByKey(key));
      names.push_back(key.ToString());
    }
    double map_best = 1e9, hot_best = 1e9;
    size_t sum = 0;
    for (int round = 0; round < 5; ++round) {
      auto begin = SteadyClock::now();
      for (size_t i = 0; i < kGets; ++i) {
        ObjectPtr object;
        {
          std::shared_lock lock(mutex);
          object = map.find(names[i % names.size()])->second;
        }
        sum += object->json().size();
      }
      map_best = std::min(map_best, SecondsSince(begin));
      begin = SteadyClock::now();
      for (size_t i = 0; i < kGets; ++i)
        sum += (*indexer_->GetByKey(keys[i % keys.size()]))->json().size();
      hot_best = std::min(hot_best, SecondsSince(begin));
    }
    if (sum == 0) Die("nothing was read");
    Add({"hot get, against std::unordered_map under a shared lock", hot_best / map_best, "x", 2,
         false,
         fmt::format("{:.0f} ns against {:.0f}", hot_best * 1e9 / kGets, map_best * 1e9 / kGets)});
  }

  // The median time of a get that decodes and reads one field, page cache warm.
  static double MedianGet(const Store& store, CollectionId collection,
                          const std::vector<ObjectKey>& keys, const FieldPath& path) {
    for (size_t i = 0; i < keys.size(); i += 3) (void)OrDie(store.Get(collection, keys[i]));
    std::vector<double> times;
    for (const ObjectKey& key : keys) {
      const auto begin = SteadyClock::now();
      const ObjectPtr object = OrDie(store.Get(collection, key));
      if (!path.Value(*object)) Die("no " + path.text() + " in " + key.ToString());
      times.push_back(SecondsSince(begin) * 1e6);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                     times.end());
    return times[times.size() / 2];
  }

  void ColdGet() {
    const FieldPath path = OrDie(FieldPath::Parse("spec.nodeName"));
    const double median =
        MedianGet(*store_, indexer_->collection().id, RandomKeys(20'000, count_), path);
    Add({"cold get, decoded, one field read, median", median, "us", 15, false,
         "page cache warm, no block cache hit assumed"});
  }

  void IndexList() {
    size_t entries = 0, bytes = 0;
    const auto begin = SteadyClock::now();
    for (int round = 0; round < 5; ++round) {
      OrDie(indexer_->ForEachIndexed(
          "phase", "Running",
          [&](const IndexEntry& entry) {
            bytes += entry.key.name.size() + entry.uid.size();
            return ++entries != 0;
          },
          indexer_->TakeView()));
    }
    const double seconds = SecondsSince(begin);
    if (entries == 0 || bytes == 0) Die("the index is empty");
    Add({"list by index, per object, metadata only", seconds * 1e6 / static_cast<double>(entries),
         "us", 1, false, fmt::format("{} entries", entries / 5)});
  }

  // In a process of its own, because this one holds the documents.
  void Memory() {
    indexer_.reset();
    store_.reset();
    hot_.reset();
    int from[2];
    if (::pipe(from) != 0) Die("no pipe");
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string count = std::to_string(count_), path = dir_ + "/pods";
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(from[1], 1);
      ::execl(self.c_str(), self.c_str(), "--serve", path.c_str(), count.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(from[1]);
    std::string text;
    char bytes[256];
    for (ssize_t size; (size = ::read(from[0], bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<size_t>(size));
    ::close(from[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) Die("the serving process failed");
    Add({"resident memory of the process serving this, memory_limit 64 MiB", std::stod(text), "MiB",
         128, false, "most it ever had, with gets, lists and commits"});
  }

  struct Filled {
    double get_us = 0;
    double open_ms = 0;
  };

  // Small objects, so that a million of them are made in reasonable time.
  Filled FillAndMeasure(const std::string& name, size_t count) {
    CollectionSpec spec;
    spec.cluster_uid = "bench";
    spec.resource = OrDie(LookupResource("configmaps"));
    const auto key = [](size_t i) {
      return ObjectKey{fmt::format("ns-{}", i % 100),
                       fmt::format("map-{:08}", i * 7919 % 100'000'000)};
    };
    const StoreOptions options{.path = dir_ + "/" + name};
    CollectionId id = 0;
    {
      const auto store = OrDie(Store::Open(options));
      id = OrDie(store->OpenCollection(spec)).id;
      for (size_t at = 0; at < count; at += 1000) {
        Transaction transaction = store->Begin();
        for (size_t i = at; i < std::min(at + 1000, count); ++i) {
          const ObjectKey k = key(i);
          const ObjectPtr object = OrDie(Object::Parse(fmt::format(
              R"({{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{}","namespace":"{}","uid":"{:08x}-d195-4b0f-a2f7-0fba5a30035d","resourceVersion":"{}","labels":{{"app":"a-{}"}}}},"data":{{"key":"value-{}","log":"info"}}}})",
              k.name, k.ns, i, i + 1, i % 50, i)));
          transaction.PutObject(id, OrDie(store->Encode(id, *object)));
        }
        OrDie(store->Commit(std::move(transaction), Durability::kRelaxed));
      }
      OrDie(Compact(*store));
    }
    Filled out;
    out.open_ms = 1e9;
    for (int i = 0; i < 3; ++i) {
      const auto begin = SteadyClock::now();
      const auto store = OrDie(Store::Open(options));
      (void)OrDie(store->OpenCollection(spec));
      out.open_ms = std::min(out.open_ms, SecondsSince(begin) * 1e3);
    }
    const auto store = OrDie(Store::Open(options));
    std::mt19937_64 random(5);
    std::vector<ObjectKey> keys;
    keys.reserve(20'000);
    for (int i = 0; i < 20'000; ++i) keys.push_back(key(random() % count));
    out.get_us = MedianGet(*store, id, keys, OrDie(FieldPath::Parse("data.key")));
    return out;
  }

  void Million() {
    const size_t large = quick_ ? 100'000 : 1'000'000;
    const Filled few = FillAndMeasure("few", 10'000);
    const Filled many = FillAndMeasure("many", large);
    Add({fmt::format("cold get at {} objects, against 10000", large), many.get_us / few.get_us, "x",
         2, false,
         fmt::format("{:.1f} us against {:.1f}; small objects", many.get_us, few.get_us)});
    Add({fmt::format("open with {} objects", large), many.open_ms, "ms", 1000, false,
         fmt::format("{:.1f} ms with 10000; small objects", few.open_ms)});
    Add({"open time against the number of objects", many.open_ms / few.open_ms, "x",
         static_cast<double>(large) / 10'000 / 4, false,
         fmt::format("{}x the objects", large / 10'000)});
  }

  const std::string dir_;
  const bool quick_;
  Rows rows_;
  size_t count_ = 0;
  size_t json_bytes_ = 0;
  std::unique_ptr<Store> store_;
  std::unique_ptr<HotTier> hot_;
  std::unique_ptr<Indexer> indexer_;
};

// The process whose memory is measured: gets hot and cold, lists, and commits of updates.
int Serve(const std::string& path, size_t count) {
  const auto store = OrDie(Store::Open({.path = path}));
  HotTier hot({.max_bytes = DivideMemory(store->options().memory_limit).hot_tier});
  const auto indexer = OrDie(Indexer::Open(store.get(), &hot, Bench::Pods(), Bench::Indexes()));
  const apiserver::PodSource pods({.seed = kSeed});
  const Lister lister(indexer.get());
  std::atomic<bool> stop{false};
  std::jthread writer([&] {
    std::mt19937_64 random(3);
    for (uint32_t revision = 1; !stop.load(); ++revision) {
      const auto batch = indexer->BeginWrite();
      for (int i = 0; i < 100; ++i) {
        const ObjectPtr object =
            OrDie(Object::Parse(apiserver::MakePod(kSeed, random() % count, revision)));
        OrDie(
            batch->Upsert(object, OrDie(indexer->Prepare(*object)), Indexer::Writer::Expect::kAny));
      }
      OrDie(batch->Commit(Durability::kRelaxed));
    }
  });
  std::mt19937_64 random(4);
  for (int i = 0; i < 100'000; ++i) (void)OrDie(indexer->GetByKey(pods.Key(random() % count)));
  for (int i = 0; i < 20; ++i) {
    OrDie(lister.ForEach({.index = {{"node", pods.NodeName(random() % 100)}}},
                         [](const ObjectPtr&) { return true; }));
    OrDie(indexer->ForEachIndexed(
        "phase", "Running", [](const IndexEntry&) { return true; }, indexer->TakeView()));
  }
  size_t scanned = 0;
  OrDie(indexer->ForEach({}, [&](const ObjectPtr&) { return ++scanned < 50'000; }));
  stop.store(true);
  writer.join();
  std::cout << MemoryMiB("VmHWM:") << std::endl;
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  bool quick = false, json = false;
  std::string dir;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--quick") {
      quick = true;
    } else if (arguments[i] == "--json") {
      json = true;
    } else if (arguments[i] == "--dir" && i + 1 < arguments.size()) {
      dir = arguments[++i];
    } else if (arguments[i] == "--serve" && i + 2 < arguments.size()) {
      return Serve(arguments[i + 1], std::stoull(arguments[i + 2]));
    } else {
      std::cerr << "usage: store_bench [--quick] [--json] [--dir DIR]\n";
      return 2;
    }
  }
  std::optional<TempDir> own;
  if (dir.empty()) dir = own.emplace().path();
  const Rows rows = Bench(dir, quick).Run();
  Print(rows, json);
  return 0;
}

}  // namespace
}  // namespace larder::bench

int main(int argc, char** argv) { return larder::bench::Main({argv + 1, argv + argc}); }
