#include "tools/parallel_list.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "storage/encoded_scan.h"

namespace larder::tools {
namespace {

// Rows in a batch: few enough that the last ones do not leave a core idle for long.
constexpr size_t kListBatch = 100;
constexpr size_t kMostAhead = 64;  // batches that may wait to be printed

class ParallelScan {
 public:
  using Sink = std::function<bool(Rendered)>;

  ParallelScan(Store& store, const CollectionInfo& info, const Query& query, const Printer& printer)
      : store_(store), info_(info), query_(query), printer_(printer) {}

  ~ParallelScan() {
    {
      MutexLock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

  Result<void> Run(const Sink& sink) {
    Batch batch;
    Result<void> outcome;
    bool go_on = true;
    const auto take = [&](Result<bool> delivered) {
      if (!delivered) outcome = tl::unexpected(delivered.error());
      go_on = delivered && *delivered;
      return go_on;
    };
    LARDER_RETURN_IF_ERROR(ScanEncoded(store_, info_.id, query_.ns, [&](EncodedObject row) {
      batch.rows.push_back(std::move(row));
      if (batch.rows.size() < kListBatch) return true;
      Submit(std::exchange(batch, {}));
      return take(Deliver(sink, kMostAhead));
    }));
    if (!go_on) return outcome;
    if (threads_.empty()) {
      // So few that starting threads would cost more than it saves.
      Process(batch);
      batch.done = true;
      MutexLock lock(mutex_);
      batches_.push_back(std::move(batch));
    } else {
      Submit(std::move(batch));
    }
    (void)take(Deliver(sink, 0));
    return outcome;
  }

 private:
  struct Batch {
    std::vector<EncodedObject> rows;
    std::vector<Rendered> rendered;
    std::optional<Error> error;
    bool taken = false;
    bool done = false;
  };

  void Submit(Batch batch) {
    {
      MutexLock lock(mutex_);
      batches_.push_back(std::move(batch));
    }
    changed_.notify_all();
    const size_t most = std::max(1U, std::thread::hardware_concurrency());
    if (threads_.size() < most) {
      threads_.emplace_back([this] { Work(); });
    }
  }

  // Hands over, in order, what is ready, and waits until at most `ahead` batches are left.
  Result<bool> Deliver(const Sink& sink, size_t ahead) {
    for (;;) {
      Batch batch;
      {
        MutexLock lock(mutex_);
        if (batches_.empty()) return true;
        while (batches_.size() > ahead && !batches_.front().done) changed_.wait(mutex_);
        if (!batches_.front().done) return true;
        batch = std::move(batches_.front());
        batches_.pop_front();
      }
      if (batch.error) return tl::unexpected(*batch.error);
      for (Rendered& rendered : batch.rendered) {
        if (!sink(std::move(rendered))) return false;
      }
    }
  }

  void Work() {
    for (;;) {
      Batch* mine = nullptr;  // a deque's elements stay where they are
      {
        MutexLock lock(mutex_);
        while (!ended_ && (mine = Untaken()) == nullptr) changed_.wait(mutex_);
        if (ended_) return;
        mine->taken = true;
      }
      Process(*mine);
      {
        MutexLock lock(mutex_);
        mine->done = true;
      }
      changed_.notify_all();
    }
  }

  Batch* Untaken() LARDER_REQUIRES(mutex_) {
    const auto found = std::find_if(batches_.begin(), batches_.end(),
                                    [](const Batch& batch) { return !batch.taken; });
    return found == batches_.end() ? nullptr : &*found;
  }

  void Process(Batch& batch) const {
    for (const EncodedObject& row : batch.rows) {
      const auto object = store_.Decode(info_.id, row.key, row.value);
      if (!object) {
        // Read by itself, a damaged row's error names the table that it is in.
        const auto again = store_.Get(info_.id, row.key);
        batch.error = again ? object.error() : again.error();
        return;
      }
      if (query_.labels.Matches(**object) && query_.fields.Matches(**object)) {
        batch.rendered.push_back(printer_.Render(*object));
      }
    }
  }

  Store& store_;
  const CollectionInfo& info_;
  const Query& query_;
  const Printer& printer_;
  Mutex mutex_;  // a batch belongs to the thread that took it until done
  std::condition_variable_any changed_;
  std::deque<Batch> batches_ LARDER_GUARDED_BY(mutex_);
  bool ended_ LARDER_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
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
  const StoredResource within = resource.Within(query.ns);
  if (within.collections.size() == 1 && query.limit == 0 && query.continue_token.empty()) {
    const CollectionInfo& info = within.collections.front();
    LARDER_ASSIGN_OR_RETURN(const bool scan, IsScan(store, info, query));
    if (scan) return ParallelScan(store, info, query, printer).Run(sink);
  }
  return ForEachObject(store, within, query,
                       [&](const ObjectPtr& object) { return sink(printer.Render(object)); });
}

}  // namespace larder::tools
