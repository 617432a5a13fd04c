#include "storage/dictionary_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace larder {

DictionaryBook::DictionaryBook(Save save)
    : save_(std::move(save)), trainer_([this](const std::stop_token& stop) { TrainLoop(stop); }) {}

DictionaryBook::~DictionaryBook() = default;

void DictionaryBook::Add(const std::string& resource, DictionaryPtr dictionary) {
  std::lock_guard lock(mutex_);
  last_id_ = std::max(last_id_, dictionary->id());
  Resource& state = resources_[resource];
  if (!state.current || state.current->id() < dictionary->id()) {
    state.current = dictionary;
    state.sampling = false;
  }
  by_id_[dictionary->id()] = {resource, std::move(dictionary)};
}

void DictionaryBook::Remove(DictionaryId id) {
  std::lock_guard lock(mutex_);
  by_id_.erase(id);
}

DictionaryPtr DictionaryBook::Find(DictionaryId id) const {
  std::shared_lock lock(mutex_);
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second.second;
}

DictionaryPtr DictionaryBook::Current(const std::string& resource) const {
  std::shared_lock lock(mutex_);
  const auto it = resources_.find(resource);
  return it == resources_.end() ? nullptr : it->second.current;
}

std::vector<std::pair<std::string, DictionaryPtr>> DictionaryBook::All() const {
  std::shared_lock lock(mutex_);
  std::vector<std::pair<std::string, DictionaryPtr>> out;
  for (const auto& [id, entry] : by_id_) out.push_back(entry);
  return out;
}

void DictionaryBook::Observe(const std::string& resource, const ObjectParts& parts,
                             size_t stored_bytes) {
  std::lock_guard lock(mutex_);
  Resource& state = resources_[resource];
  const double ratio = static_cast<double>(parts.envelope.size() + parts.body.size()) /
                       static_cast<double>(std::max<size_t>(stored_bytes, 1));
  ++state.observed;
  const double weight = 1.0 / std::min(kRatioWindow, static_cast<double>(state.observed));
  state.recent_ratio += (ratio - state.recent_ratio) * weight;
  if (state.current && !state.sampling && static_cast<double>(state.observed) >= kRatioWindow) {
    if (state.trained_ratio == 0) state.trained_ratio = state.recent_ratio;
    if (state.recent_ratio < state.trained_ratio * kDecay) {
      spdlog::info("dictionary of {} compresses {:.1f}x, it was {:.1f}x: training a new one",
                   resource, state.recent_ratio, state.trained_ratio);
      state.sampling = true;
    }
  }
  if (state.sampling && !state.training) TakeSample(state, parts);
}

void DictionaryBook::TakeSample(Resource& state, const ObjectParts& parts) {
  state.samples.envelopes.push_back(parts.envelope);
  state.samples.bodies.push_back(parts.body);
  state.sample_bytes += parts.envelope.size() + parts.body.size();
  if (state.samples.bodies.size() < kSampleCount && state.sample_bytes < kSampleBytes) return;
  state.training = true;
  wake_.notify_all();
}

void DictionaryBook::WaitIdle() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] {
    return std::none_of(resources_.begin(), resources_.end(),
                        [](const auto& entry) { return entry.second.training; });
  });
}

void DictionaryBook::TrainLoop(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto wanted = resources_.end();
    const auto find = [&] {
      wanted = std::find_if(resources_.begin(), resources_.end(),
                            [](const auto& entry) { return entry.second.training; });
      return wanted != resources_.end();
    };
    if (!wake_.wait(lock, stop, find)) return;
    const std::string resource = wanted->first;
    Resource& state = wanted->second;  // map nodes stay where they are
    DictionarySamples samples = std::move(state.samples);
    state.samples = {};
    state.sample_bytes = 0;
    const DictionaryId id = ++last_id_;
    lock.unlock();
    Result<DictionaryPtr> trained = TrainDictionary(id, samples);
    if (trained) {
      if (auto saved = save_(resource, **trained); !saved) trained = tl::unexpected(saved.error());
    }
    samples = {};
    lock.lock();
    if (trained) {
      by_id_[id] = {resource, *trained};
      state.current = *trained;
    } else {
      // Objects that teach nothing (all tiny, all alike) or a full disk: go on without, try again
      // when the ratio asks.
      spdlog::debug("no dictionary for {}: {}", resource, trained.error().message);
    }
    state.sampling = !trained;
    state.training = false;
    state.observed = 0;
    state.trained_ratio = 0;
    state.recent_ratio = 0;
    wake_.notify_all();
  }
}

}  // namespace larder
