// The informer: synced, held, followed.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "bench/peers/larder/peer.h"
#include "bench/real_pods.h"
#include "bench/support.h"
#include "informer/shared_informer.h"
#include "schema/selector.h"

namespace larder::bench {
namespace {

// What every peer's handler does: count, look for the mark, and note how old a change is.
class Handler final : public EventHandler {
 public:
  Handler(std::string until, std::string follow)
      : until_(std::move(until)), follow_(std::move(follow)) {}

  void OnAdd(const ObjectPtr& object, bool) override { Heard(*object); }
  void OnUpdate(const ObjectPtr&, const ObjectPtr& now) override { Heard(*now); }
  void OnDelete(const ObjectPtr& last, bool) override { Heard(*last); }

  bool SawUntil() const { return until_.empty() || saw_until_; }
  // When the mark to follow was heard; 0: not yet.
  double FollowedAt() const { return followed_at_; }
  uint64_t handled() const { return handled_; }
  // From here on the age of changes is noted.
  void NoteDelays() { noting_ = true; }
  // Only after the mark. Milliseconds, sorted.
  std::vector<double>& Delays() {
    std::sort(delays_.begin(), delays_.end());
    return delays_;
  }

 private:
  void Heard(const Object& object) {
    ++handled_;
    if (const auto mark = object.Annotation(kMark)) {
      if (*mark == until_) saw_until_ = true;
      if (*mark == follow_ && followed_at_ == 0) followed_at_ = Now();
    }
    if (!noting_) return;
    if (const auto at = object.Annotation(kWrittenAt)) {
      delays_.push_back(1e3 * (Now() - std::strtod(std::string(*at).c_str(), nullptr) / 1e9));
    }
  }

  const std::string until_;
  const std::string follow_;
  std::atomic<uint64_t> handled_{0};
  std::atomic<bool> saw_until_{false};
  std::atomic<bool> noting_{false};
  std::atomic<double> followed_at_{0};
  std::vector<double> delays_;
};

struct Process {
  explicit Process(const SyncArguments& arguments) {
    if (arguments.store.empty()) temporary.emplace();
    const size_t limit = arguments.memory_mib << 20;
    transport = Connect(arguments.kubeconfig);
    store =
        OrDie(Store::Open({.path = arguments.store.empty() ? temporary->Store() : arguments.store,
                           .memory_limit = limit}));
    hot = std::make_unique<HotTier>(HotTierOptions{.max_bytes = DivideMemory(limit).hot_tier});
    const std::string cluster = OrDie(FetchClusterUid(*transport, {}));
    InformerOptions options;
    options.resource = *LookupResource("pods");
    options.reflector.protobuf = !arguments.json;
    if (arguments.strip) options.transform = StripManagedFields();
    options.indexes = {OrDie(IndexDefinition::ByField("node", "spec.nodeName"))};
    pods = OrDie(
        SharedInformer::Open({store.get(), hot.get(), transport.get(), cluster, nullptr}, options));
    handler = std::make_shared<Handler>(arguments.until, arguments.follow);
    HandlerOptions durable;
    durable.durable_name = "bench";
    registration = OrDie(pods->AddEventHandler(handler, durable));
    pods->Start();
    OrDie(pods->WaitForSync(Clock::Steady::max(), {}));
    while (!pods->HasSynced() || !registration->HasSynced() || !handler->SawUntil() ||
           handler->handled() < arguments.handled) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~Process() { pods->Stop(); }

  std::optional<TempDir> temporary;
  std::unique_ptr<HttpTransport> transport;
  std::unique_ptr<Store> store;
  std::unique_ptr<HotTier> hot;
  std::unique_ptr<SharedInformer> pods;
  std::shared_ptr<Handler> handler;
  SharedInformer::Registration registration;
};

double Percentile(const std::vector<double>& sorted, double share) {
  return sorted.empty()
             ? 0
             : sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void Follow(Process& process) {
  Handler& handler = *process.handler;
  const double cpu = CpuSeconds();
  const uint64_t handled = handler.handled();
  handler.NoteDelays();
  PrintLine({{"ready", true}});
  // Seldom, as in the other peers: a look is no work of an informer's.
  while (handler.FollowedAt() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double used = CpuSeconds() - cpu;
  process.pods->Stop();
  const std::vector<double>& delays = handler.Delays();
  PrintLine({{"followed_at", handler.FollowedAt()},
             {"handled", handler.handled() - handled},
             {"cpu_seconds", used},
             {"delay_p50_ms", Percentile(delays, 0.5)},
             {"delay_p99_ms", Percentile(delays, 0.99)},
             {"peak_mib", MemoryMiB("VmHWM:")}});
}

}  // namespace

void Sync(const SyncArguments& arguments) {
  std::optional<ReceivedBytes> received(std::in_place);
  Process process(arguments);
  nlohmann::ordered_json line = {{"peer", "larder"},
                                 {"seconds", SinceStart()},
                                 {"cpu_seconds", CpuSeconds()},
                                 {"received_bytes", received->Total()},
                                 {"handled", process.handler->handled()},
                                 {"objects", OrDie(process.pods->GetIndexer().Count())}};
  const InformerStatus status = process.pods->Status();
  line["lists"] = status.reflector.lists;
  line["rows_written"] = status.sync.added + status.sync.updated + status.sync.deleted;
  PrintLine(line);
  received.reset();
  std::this_thread::sleep_for(std::chrono::duration<double>(arguments.hold));
  PrintLine({{"peak_mib", MemoryMiB("VmHWM:")},
             {"steady_mib", MemoryMiB("VmRSS:")},
             {"cpu_after_hold_seconds", CpuSeconds()}});
  if (!arguments.follow.empty()) Follow(process);
}

void Reads(const SyncArguments& arguments) {
  constexpr int kTimes = 5;
  Process process(arguments);
  const Indexer& indexer = process.pods->GetIndexer();
  const Lister lister = process.pods->GetLister();
  std::vector<ObjectKey> keys;
  std::vector<std::string> nodes;
  const FieldPath node = OrDie(FieldPath::Parse("spec.nodeName"));
  OrDie(indexer.ForEach({}, [&](const ObjectPtr& object) {
    keys.push_back(object->key());
    if (keys.size() % 97 == 1) nodes.push_back(node.Value(*object).value_or(""));
    return true;
  }));
  // The same pseudo-random walk as in the other peers, and the least of as many times: what a
  // process does in the background after its sync is no part of a get.
  const auto gets = [&](size_t distinct, size_t count, const auto& get) {
    double least = std::numeric_limits<double>::max();
    for (int time = 0; time < kTimes; ++time) {
      const auto start = SteadyClock::now();
      for (size_t i = 0; i < count; ++i) (void)OrDie(get(keys[i * 7919 % distinct]));
      least = std::min(least, SecondsSince(start));
    }
    return least * 1e9 / static_cast<double>(count);
  };
  const auto by_key = [&](const ObjectKey& key) { return indexer.GetByKey(key); };
  const size_t hot = std::min<size_t>(1000, keys.size());
  nlohmann::ordered_json line = {{"peer", "larder"}};
  line["get_hot_ns"] = gets(hot, 200'000, by_key);
  {
    Reader reader = lister.BeginRead();
    line["reader_get_hot_ns"] =
        gets(hot, 200'000, [&](const ObjectKey& key) { return reader.Get(key); });
  }
  line["get_any_ns"] = gets(keys.size(), 20'000, by_key);
  line["lister_get_hot_ns"] =
      gets(hot, 200'000, [&](const ObjectKey& key) { return lister.Get(key); });
  size_t found = 0;
  auto start = SteadyClock::now();
  for (size_t i = 0; i < 100; ++i) {
    found += OrDie(indexer.ByIndex("node", nodes[i % nodes.size()])).size();
  }
  line["by_index_us_per_object"] = SecondsSince(start) * 1e6 / static_cast<double>(found);
  start = SteadyClock::now();
  size_t selected = 0;
  constexpr int kLists = 10;
  for (int i = 0; i < kLists; ++i) {
    Query query;
    query.ns = keys[static_cast<size_t>(i) * 131 % keys.size()].ns;
    query.labels = OrDie(LabelSelector::Parse("app.kubernetes.io/component=api"));
    OrDie(lister.ForEach(query, [&](const ObjectPtr&) {
      ++selected;
      return true;
    }));
  }
  line["select_in_namespace_ms"] = SecondsSince(start) * 1e3 / kLists;
  line["selected"] = selected;
  line["found_by_index"] = found;
  PrintLine(line);
}

}  // namespace larder::bench
