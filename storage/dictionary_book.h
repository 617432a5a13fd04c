// All dictionaries of a store, and when to make a new one.
//
// The first few hundred objects of a resource are the samples; training runs on a thread of its
// own, and objects encoded meanwhile go without. When the ratio decays (the objects changed), the
// same again: a new dictionary with a new id. A new one is saved, synced, before the first value
// names it. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "storage/dictionary.h"
#include "storage/value_codec.h"

namespace larder {

class DictionaryBook final : public DictionarySource {
 public:
  // Makes a dictionary durable. Called on the training thread, without a lock held.
  using Save =
      std::function<Result<void>(const std::string& resource, const Dictionary& dictionary)>;

  explicit DictionaryBook(Save save);
  ~DictionaryBook() override;

  // One that the store holds already; the highest id of a resource is its current one.
  void Add(const std::string& resource, DictionaryPtr dictionary);
  void Remove(DictionaryId id);

  DictionaryPtr Find(DictionaryId id) const override;
  DictionaryPtr Current(const std::string& resource) const;
  std::vector<std::pair<std::string, DictionaryPtr>> All() const;

  // Tells of an object just encoded: keeps it as a sample where one is wanted, watches the ratio.
  void Observe(const std::string& resource, const ObjectParts& parts, size_t stored_bytes);

  // Waits until no training is under way or wanted.
  void WaitIdle();

 private:
  // Enough to learn from, and a bound on what is held meanwhile.
  static constexpr size_t kSampleCount = 700;
  static constexpr size_t kSampleBytes = size_t{6} << 20;
  // How many objects the ratio is averaged over, and how much worse it may get.
  static constexpr double kRatioWindow = 2000;
  static constexpr double kDecay = 0.7;

  struct Resource {
    DictionaryPtr current;
    DictionarySamples samples;
    size_t sample_bytes = 0;
    bool sampling = true;
    bool training = false;
    double trained_ratio = 0;  // raw / stored just after training
    double recent_ratio = 0;
    size_t observed = 0;  // since the current dictionary
  };

  void TrainLoop(const std::stop_token& stop);
  void TakeSample(Resource& state, const ObjectParts& parts);

  const Save save_;
  mutable std::shared_mutex mutex_;  // guards all below
  std::map<DictionaryId, std::pair<std::string, DictionaryPtr>> by_id_;
  std::map<std::string, Resource> resources_;
  DictionaryId last_id_ = 0;
  std::condition_variable_any wake_;
  std::jthread trainer_;  // last: it uses the rest
};

}  // namespace larder
