// Operations made up from a model, the same for the same seed.
#include <cmath>
#include <ctime>
#include <deque>
#include <random>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "schema/object.h"
#include "storage/keys.h"
#include "storage/measure.h"
#include "tuning/content.h"
#include "tuning/source.h"

namespace larder::tuning {
namespace {

constexpr size_t kBaseBatch = 256;
constexpr IndexId kFirstIndex = 1;
constexpr const char* kQueue = "tuning";

std::chrono::nanoseconds ThreadCpu() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// One resource of the model while it changes.
struct Population {
  ResourceModel model;
  ContentKind kind;
  CollectionId collection = 0;
  std::vector<ObjectKey> stored;  // the objects of a given store; index i is the i-th
  // Which objects there are. Deleting the oldest takes from the front; deleting any swaps with the
  // back first.
  std::deque<uint64_t> alive;
  uint64_t next = 0;
  std::deque<std::pair<uint64_t, uint32_t>> to_follow;  // new objects and the updates due to them
};

class ModelSource final : public WorkSource {
 public:
  ModelSource(WorkloadModel model, const Store* store) : model_(std::move(model)), store_(store) {}

  Result<void> Init() {
    for (const ResourceModel& entry : model_.resources) {
      Population population;
      population.model = entry;
      LARDER_ASSIGN_OR_RETURN(population.kind.resource, LookupResource(entry.resource));
      population.kind.json_bytes = entry.json_bytes;
      population.kind.seed = model_.seed;
      if (store_) LARDER_RETURN_IF_ERROR(LoadKeys(population));
      populations_.push_back(std::move(population));
    }
    if (store_) {
      LARDER_ASSIGN_OR_RETURN(base_, FingerprintOf(*store_));
    }
    return {};
  }

  std::string Name() const override { return model_.name; }
  std::string Fingerprint() const override {
    const std::string text = ToJson(model_) + base_;
    return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
  }
  bool Burst() const override { return model_.burst; }
  uint64_t Steps() const override {
    const double per_event =
        1 / model_.events_per_commit + model_.gets_per_event + model_.scans_per_thousand / 1000;
    return static_cast<uint64_t>(static_cast<double>(model_.events) * per_event);
  }

  Result<void> Prepare(Store& store) override {
    for (Population& population : populations_) {
      CollectionSpec spec;
      spec.cluster_uid = "tuning";
      spec.resource = population.kind.resource;
      LARDER_ASSIGN_OR_RETURN(const CollectionInfo info, store.OpenCollection(spec));
      population.collection = info.id;
      Transaction transaction = store.Begin();
      transaction.SetCursor(info.id, {"1", SyncState::kSynced, 1, 0});
      LARDER_RETURN_IF_ERROR(store.Commit(std::move(transaction), Durability::kRelaxed));
    }
    return {};
  }

  Result<void> Base(Store& store, const Batch& batch) override {
    random_.seed(model_.seed);
    version_ = 1;
    events_ = generation_ = 0;
    gets_ = scans_ = 0;
    revisions_.clear();
    done_.clear();
    for (Population& population : populations_) {
      const uint64_t count = population.model.objects;
      population.alive.clear();
      population.to_follow.clear();
      population.next = count;
      for (uint64_t i = 0; i < count;) {
        Step step(store);
        for (const uint64_t end = std::min<uint64_t>(i + kBaseBatch, count); i < end; ++i) {
          population.alive.push_back(i);
          LARDER_RETURN_IF_ERROR(Put(population, i, 0, step));
        }
        LARDER_RETURN_IF_ERROR(batch(step));
      }
    }
    return {};
  }

  Result<bool> Next(Step& step) override {
    if (gets_ >= 1) {
      gets_ -= 1;
      Get(step);
      return true;
    }
    if (scans_ >= 1) {
      scans_ -= 1;
      Scan(step);
      return true;
    }
    if (events_ >= model_.events) return false;
    std::geometric_distribution<uint64_t> more(1 / model_.events_per_commit);
    const uint64_t count = std::min({1 + more(random_), model_.events - events_, uint64_t{4096}});
    for (uint64_t i = 0; i < count; ++i) LARDER_RETURN_IF_ERROR(Event(step));
    events_ += count;
    const auto n = static_cast<double>(count);
    gets_ += n * model_.gets_per_event;
    scans_ += n * model_.scans_per_thousand / 1000;
    step.sync = Chance(model_.synced_commits);
    return true;
  }

 private:
  bool Chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }

  Result<void> LoadKeys(Population& population) {
    LARDER_ASSIGN_OR_RETURN(const auto collections, store_->Collections());
    for (const CollectionInfo& info : collections) {
      if (info.spec.resource.ToString() != population.kind.resource.ToString()) continue;
      LARDER_RETURN_IF_ERROR(
          store_->ScanHeads(info.id, {}, [&](const ObjectKey& key, const ObjectHead&) {
            population.stored.push_back(key);
            return true;
          }));
      if (population.stored.empty()) continue;
      source_ids_[population.kind.resource.ToString()] = info.id;
      break;
    }
    if (population.stored.empty()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "the workload has {}, but the store {} has none; replay it without --store, "
                       "or make a model of this store: larder tune model --store {}",
                       population.model.resource, store_->options().path, store_->options().path);
    }
    return {};
  }

  // The object as it is in the given store, with another version; beyond those that there are, a
  // copy under another name.
  Result<ObjectPtr> FromStore(const Population& population, uint64_t index) {
    const size_t count = population.stored.size();
    const auto id = source_ids_.find(population.kind.resource.ToString());
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr object,
                            store_->Get(id->second, population.stored[index % count]));
    Json json = object->ToMutable();
    json["metadata"]["resourceVersion"] = std::to_string(version_);
    if (index >= count) {
      json["metadata"]["name"] = fmt::format("{}-{}", std::string(object->name()), index);
      json["metadata"]["uid"] = fmt::format("{:08x}-0000-4000-8000-{:012x}", index, version_);
    }
    return Object::FromJson(json);
  }

  Result<ObjectPtr> Make(const Population& population, uint64_t index, uint32_t revision) {
    ++version_;
    if (store_) return FromStore(population, index);
    return MakeObject(population.kind, index, revision, version_);
  }

  uint32_t& Revision(const Population& population, uint64_t index) {
    return revisions_[{population.collection, index}];
  }

  // Index values move as an object's do: now and then.
  std::string IndexValue(unsigned index, uint64_t object, uint32_t revision) const {
    return index == 0 ? fmt::format("node-{}", object % 500)
                      : fmt::format("state-{}", (object * 7 + revision / 2) % 5);
  }

  Result<void> Put(Population& population, uint64_t index, uint32_t revision, Step& step) {
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr object, Make(population, index, revision));
    LARDER_RETURN_IF_ERROR(step.PutObject(population.collection, *object));
    const ObjectKey key = object->key();
    for (unsigned i = 0; i < population.model.indexes; ++i) {
      const IndexId id = kFirstIndex + i;
      const std::string value = IndexValue(i, index, revision);
      if (revision > 0) {
        const std::string before = IndexValue(i, index, revision - 1);
        if (before == value) continue;
        step.transaction.DeleteIndexKey(population.collection, id, before, key);
      }
      step.transaction.PutIndexKey(population.collection, id, value, key, object->uid());
    }
    return {};
  }

  Result<void> Delete(Population& population, uint64_t index, Step& step) {
    const uint32_t revision = Revision(population, index);
    revisions_.erase({population.collection, index});
    LARDER_ASSIGN_OR_RETURN(const ObjectKey key, KeyOf(population, index));
    step.transaction.DeleteObject(population.collection, key);
    for (unsigned i = 0; i < population.model.indexes; ++i) {
      step.transaction.DeleteIndexKey(population.collection, kFirstIndex + i,
                                      IndexValue(i, index, revision), key);
    }
    return {};
  }

  Result<ObjectKey> KeyOf(const Population& population, uint64_t index) {
    if (store_ && index < population.stored.size()) return population.stored[index];
    if (!store_) return KeyOfObject(population.kind, index);
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr object, FromStore(population, index));
    return object->key();
  }

  // One that is alive, by the model's skew: u^(1/(1-skew)) gathers at the front.
  size_t Pick(const Population& population) {
    const double u = std::uniform_real_distribution<>(0, 1)(random_);
    const double at = std::pow(u, 1 / (1 - population.model.skew));
    const size_t count = population.alive.size();
    return std::min(count - 1, static_cast<size_t>(at * static_cast<double>(count)));
  }

  Result<void> Update(Population& population, uint64_t index, Step& step) {
    return Put(population, index, ++Revision(population, index), step);
  }

  Result<void> Event(Step& step) {
    Population& population = PickPopulation();
    LARDER_RETURN_IF_ERROR(Change(population, step));
    step.transaction.SetCursor(population.collection,
                               {std::to_string(version_), SyncState::kSynced, 1, 0});
    if (Chance(model_.queue_items_per_event - std::floor(model_.queue_items_per_event)))
      Queue(step);
    for (double i = 1; i <= model_.queue_items_per_event; ++i) Queue(step);
    return {};
  }

  Population& PickPopulation() {
    double total = 0;
    const auto weight = [](const Population& p) {
      return p.model.updates + p.model.creates * (1 + p.model.updates_after_create) +
             p.model.deletes;
    };
    for (const Population& population : populations_) total += weight(population);
    double at = std::uniform_real_distribution<>(0, total)(random_);
    for (Population& population : populations_) {
      at -= weight(population);
      if (at < 0) return population;
    }
    return populations_.front();
  }

  Result<void> Change(Population& population, Step& step) {
    const ResourceModel& model = population.model;
    // New objects are changed soon after, in the order in which they came.
    if (!population.to_follow.empty() &&
        Chance(
            model.creates * model.updates_after_create /
            (model.updates + model.creates * (1 + model.updates_after_create) + model.deletes))) {
      auto [index, left] = population.to_follow.front();
      population.to_follow.pop_front();
      if (left > 1) population.to_follow.emplace_back(index, left - 1);
      if (revisions_.contains({population.collection, index})) {
        return Update(population, index, step);
      }
    }
    const double at =
        std::uniform_real_distribution<>(0, model.updates + model.creates + model.deletes)(random_);
    const bool create = at >= model.updates && at < model.updates + model.creates;
    if (create || population.alive.empty()) {
      const uint64_t index = population.next++;
      population.alive.push_back(index);
      Revision(population, index) = 0;
      if (model.updates_after_create > 0) {
        population.to_follow.emplace_back(index, model.updates_after_create);
      }
      return Put(population, index, 0, step);
    }
    if (at < model.updates || population.alive.size() < 2) {
      return Update(population, population.alive[Pick(population)], step);
    }
    if (!model.deletes_oldest) {
      std::swap(population.alive[Pick(population)], population.alive.front());
    }
    const uint64_t index = population.alive.front();
    population.alive.pop_front();
    return Delete(population, index, step);
  }

  // Work is queued with the change and acknowledged a little later.
  void Queue(Step& step) {
    const std::string item = fmt::format("team-{}/work-{}", generation_ % 40, generation_ % 5000);
    ++generation_;
    step.transaction.PutQueueItem(kQueue, item, generation_, {.added_ms = 1, .not_before_ms = 1});
    done_.emplace_back(item, generation_);
    if (done_.size() > 64) {
      step.transaction.DeleteQueueItem(kQueue, done_.front().first, done_.front().second);
      done_.pop_front();
    }
  }

  void Get(Step& step) {
    step.kind = TraceStep::Kind::kGet;
    Population& population = PickPopulation();
    if (population.alive.empty()) return;
    if (const auto key = KeyOf(population, population.alive[Pick(population)])) {
      step.key = keys::Object(population.collection, *key);
    }
  }

  void Scan(Step& step) {
    step.kind = TraceStep::Kind::kScan;
    step.rows = model_.scan_rows;
    Population& population = PickPopulation();
    const bool by_index = population.model.indexes > 0 && Chance(0.7);
    step.family = by_index ? Family::kIndexes : Family::kObjects;
    step.key = by_index ? keys::IndexValuePrefix(population.collection, kFirstIndex,
                                                 fmt::format("node-{}", random_() % 500))
                        : keys::CollectionPrefix(population.collection);
  }

  const WorkloadModel model_;
  const Store* const store_;
  std::string base_;  // FingerprintOf the store
  std::vector<Population> populations_;
  std::map<std::string, CollectionId> source_ids_;
  std::mt19937_64 random_;
  uint64_t version_ = 1;
  uint64_t events_ = 0;
  uint64_t generation_ = 0;
  double gets_ = 0, scans_ = 0;  // due
  std::map<std::pair<CollectionId, uint64_t>, uint32_t> revisions_;
  std::deque<std::pair<std::string, uint64_t>> done_;
};

}  // namespace

Result<void> Step::PutObject(CollectionId collection, const Object& object) {
  const auto before = ThreadCpu();
  LARDER_ASSIGN_OR_RETURN(const EncodedObject encoded, store->Encode(collection, object));
  encode_cpu += ThreadCpu() - before;
  ++objects;
  transaction.PutObject(collection, encoded);
  return {};
}

Result<std::unique_ptr<WorkSource>> SourceOfModel(const WorkloadModel& model, const Store* store) {
  LARDER_RETURN_IF_ERROR(Check(model));
  auto source = std::make_unique<ModelSource>(model, store);
  LARDER_RETURN_IF_ERROR(source->Init());
  return std::unique_ptr<WorkSource>(std::move(source));
}

}  // namespace larder::tuning
