#include "bench/real_pods.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "apiserver/workload.h"
#include "bench/support.h"
#include "client/api_client.h"

namespace larder::bench {
namespace {

// Calls work(i) for each i below `count`, on `threads` threads.
template <typename Work>
void InParallel(uint64_t count, unsigned threads, const Work& work) {
  std::atomic<uint64_t> next = 0;
  std::vector<std::jthread> workers;
  for (unsigned worker = 0; worker < threads; ++worker) {
    workers.emplace_back([&] {
      for (uint64_t i = next++; i < count; i = next++) work(i);
    });
  }
}

// A server that is being filled by a machine that does other things, too, does not always answer in
// time.
template <typename Call>
auto Persistently(const Call& call) {
  auto result = call();
  for (int more = 5; !result && result.error().IsRetryable() && more > 0; --more) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    result = call();
  }
  return result;
}

}  // namespace

void LoadPods(HttpTransport& transport, uint64_t count) {
  ApiClient client(transport);
  const Resource pods = *LookupResource("pods");
  const auto page = client.List(pods, {.limit = 1});
  uint64_t there = 0;
  if (page) {
    there = page->items.size() + static_cast<uint64_t>(page->remaining_item_count.value_or(0));
  }
  if (there == count) return;
  std::fprintf(stderr, "loading %llu pods, once\n", static_cast<unsigned long long>(count));
  const apiserver::PodSource source({});
  for (uint32_t i = 0; i < source.shape().namespaces; ++i) {
    (void)client.Create(*LookupResource("namespaces"),
                        {{"metadata", {{"name", source.NamespaceName(i)}}}});
  }
  // Where an earlier load was cut off, its last few pods may have gaps between them.
  const uint64_t first = there > 1000 ? there - 1000 : 0;
  InParallel(count - first, 16, [&](uint64_t number) {
    Json pod = Json::parse(apiserver::MakePod(1, first + number));
    for (const char* field : {"uid", "resourceVersion", "managedFields", "deletionTimestamp"}) {
      pod["metadata"].erase(field);
    }
    auto made = Persistently(
        [&] { return client.Create(pods, pod, {.field_manager = "kube-controller-manager"}); });
    if (!made && made.error().code == ErrorCode::kAlreadyExists) return;
    Json created = OrDie(std::move(made))->ToMutable();
    created["status"] = pod["status"];
    auto updated = Persistently(
        [&] { return client.UpdateStatus(pods, created, {.field_manager = "kubelet"}); });
    // A try that was given up after its time may have got through.
    if (!updated && updated.error().code == ErrorCode::kConflict) return;
    OrDie(std::move(updated));
  });
}

void WritePods(HttpTransport& transport, const PodWrites& writes) {
  ApiClient client(transport);
  const Resource pods = *LookupResource("pods");
  const apiserver::PodSource source({});
  const auto patch = [&](uint64_t i, const std::string& mark) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    Json annotations = {{kWrittenAt, std::to_string(std::chrono::nanoseconds(now).count())}};
    if (!mark.empty()) annotations[kMark] = mark;
    OrDie(client.Patch(pods, source.Key(i % writes.pods), PatchType::kJsonMerge,
                       {{"metadata", {{"annotations", annotations}}}}));
  };
  const auto start = SteadyClock::now();
  InParallel(writes.count, writes.threads, [&](uint64_t i) {
    if (writes.rate > 0) {
      std::this_thread::sleep_until(
          start + std::chrono::duration_cast<SteadyClock::duration>(
                      std::chrono::duration<double>(static_cast<double>(i) / writes.rate)));
    }
    patch(i, {});
  });
  if (!writes.mark.empty()) patch(0, writes.mark);
}

}  // namespace larder::bench
