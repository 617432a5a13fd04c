#include "tools/parallel_list.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace larder::tools {
namespace {

constexpr size_t kRange = 1000;    // objects that one thread takes at a time
constexpr size_t kMostAhead = 16;  // ranges that may wait to be printed
// Below this, starting threads costs more than it saves.
constexpr size_t kWorthwhile = 500;

// As the store orders keys.
bool ComesBefore(const ObjectKey& a, const ObjectKey& b) {
  return a.ns == b.ns ? a.name < b.name : a.ns + "/" < b.ns + "/";
}

class ParallelScan {
 public:
  ParallelScan(Store& store, const CollectionInfo& info, const Query& query, const Printer& printer)
      : store_(store), info_(info), query_(query), printer_(printer) {}

  // The last key of each range; the last range has no end.
  Result<size_t> Plan() {
    size_t count = 0;
    LARDER_RETURN_IF_ERROR(
        store_.ScanHeads(info_.id, query_.ns, [&](const ObjectKey& key, const ObjectHead&) {
          if (++count % kRange == 0) ends_.push_back(key);
          return true;
        }));
    results_.resize(ends_.size() + 1);
    return count;
  }

  Result<void> Run(const std::function<bool(Rendered)>& sink) {
    std::vector<std::jthread> threads;
    const size_t count =
        std::min<size_t>(results_.size(), std::max(1u, std::thread::hardware_concurrency()));
    for (size_t i = 0; i < count; ++i) {
      threads.emplace_back([this] { Work(); });
    }
    const Result<void> outcome = Deliver(sink);
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    return outcome;
  }

 private:
  struct RangeResult {
    bool done = false;
    std::vector<Rendered> rows;
    std::optional<Error> error;
  };

  void Work() {
    for (;;) {
      size_t mine = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
          return ended_ || next_ == results_.size() || next_ < delivered_ + kMostAhead;
        });
        if (ended_ || next_ == results_.size()) return;
        mine = next_++;
      }
      RangeResult result = Read(mine);
      std::lock_guard lock(mutex_);
      results_[mine] = std::move(result);
      changed_.notify_all();
    }
  }

  RangeResult Read(size_t range) const {
    RangeResult result;
    result.done = true;
    const ObjectKey after = range == 0 ? ObjectKey{} : ends_[range - 1];
    const ObjectKey* const end = range < ends_.size() ? &ends_[range] : nullptr;
    const auto read = store_.Scan(info_.id, query_.ns, after, [&](const ObjectPtr& object) {
      const ObjectKey key = object->key();
      if (end && ComesBefore(*end, key)) return false;
      if (query_.labels.Matches(*object) && query_.fields.Matches(*object)) {
        result.rows.push_back(printer_.Render(object));
      }
      return !end || key != *end;
    });
    if (!read) result.error = read.error();
    return result;
  }

  Result<void> Deliver(const std::function<bool(Rendered)>& sink) {
    for (size_t i = 0; i < results_.size(); ++i) {
      RangeResult result;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return results_[i].done; });
        result = std::move(results_[i]);
        delivered_ = i + 1;
      }
      changed_.notify_all();
      if (result.error) return tl::unexpected(*result.error);
      for (Rendered& row : result.rows) {
        if (!sink(std::move(row))) return {};
      }
    }
    return {};
  }

  Store& store_;
  const CollectionInfo& info_;
  const Query& query_;
  const Printer& printer_;
  std::vector<ObjectKey> ends_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<RangeResult> results_;
  size_t next_ = 0;
  size_t delivered_ = 0;
  bool ended_ = false;
};

// Does the planner find nothing better than reading everything?
Result<bool> IsScan(Store& store, const CollectionInfo& info, const Query& query) {
  LARDER_ASSIGN_OR_RETURN(const auto indexer, Indexer::Attach(&store, info));
  LARDER_ASSIGN_OR_RETURN(const std::string plan, Lister(indexer.get()).Explain(query));
  return plan.rfind("scan ", 0) == 0;
}

}  // namespace

Result<void> ForEachRendered(Store& store, const StoredResource& resource, const Query& query,
                             const Printer& printer, const std::function<bool(Rendered)>& sink) {
  if (resource.collections.size() == 1 && query.limit == 0 && query.continue_token.empty()) {
    const CollectionInfo& info = resource.collections.front();
    LARDER_ASSIGN_OR_RETURN(const bool scan, IsScan(store, info, query));
    if (scan) {
      ParallelScan parallel(store, info, query, printer);
      LARDER_ASSIGN_OR_RETURN(const size_t count, parallel.Plan());
      if (count >= kWorthwhile) return parallel.Run(sink);
    }
  }
  return ForEachObject(store, resource, query,
                       [&](const ObjectPtr& object) { return sink(printer.Render(object)); });
}

}  // namespace larder::tools
