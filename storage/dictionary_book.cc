#include "storage/dictionary_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/mutex.h"
#include "base/thread_name.h"

namespace larder {
namespace {

// How many keys are kept to sample from, and how much is read of them.
constexpr size_t kSampleKeys = 1000;
constexpr size_t kSampleBytes = size_t{2} << 20;
// Fewer teach nothing that lasts.
constexpr size_t kMinSamples = 100;
constexpr uint64_t kFirstTraining = 200;
constexpr uint64_t kGrowth = 10;
// One sample in this many is left out of training, to compare on.
constexpr size_t kHoldOut = 10;
// How much smaller values must get for a new dictionary to be worth moving to.
constexpr double kWorthwhile = 0.97;
// How many objects the ratio is averaged over, and how much worse it may get. Objects that come one
// after the other are often of one workload, so that the samples look better than the rest will be:
// two thirds of their ratio is usual.
constexpr uint64_t kRatioWindow = 2000;
constexpr double kDecay = 0.55;
// For so long a value made with a dictionary may be on its way to its commit.
constexpr std::chrono::minutes kStillOnItsWay{10};

double CompressedBytes(const std::vector<std::string>& samples, const Dictionary& dictionary,
                       int level) {
  Compressor compressor;
  size_t total = 0;
  for (const std::string& sample : samples) {
    total += compressor.Compress(sample, &dictionary, level).value_or("").size();
  }
  return static_cast<double>(total);
}

double RawBytes(const std::vector<std::string>& samples) {
  size_t total = 0;
  for (const std::string& sample : samples) total += sample.size();
  return static_cast<double>(total);
}

}  // namespace

class DictionaryBook::Page {
 public:
  explicit Page(std::string resource_in) : resource(std::move(resource_in)) {}

  const std::string resource;
  mutable Mutex mutex;
  DictionaryPtr current LARDER_GUARDED_BY(mutex);
  bool asked_for LARDER_GUARDED_BY(mutex) = false;  // somebody has this page, and compresses
  bool wanted LARDER_GUARDED_BY(mutex) = false;
  uint64_t observed LARDER_GUARDED_BY(mutex) = 0;               // objects, ever
  uint64_t train_at LARDER_GUARDED_BY(mutex) = kFirstTraining;  // when `observed` gets here
  std::vector<std::pair<CollectionId, ObjectKey>> sample LARDER_GUARDED_BY(mutex);  // a reservoir
  uint64_t sampled_from LARDER_GUARDED_BY(mutex) = 0;
  std::minstd_rand random LARDER_GUARDED_BY(mutex);
  uint64_t in_window LARDER_GUARDED_BY(mutex) = 0;
  double recent_ratio LARDER_GUARDED_BY(mutex) = 0;  // raw / stored, averaged
  // What the current dictionary did to objects of its time that it was not trained on. 0: not
  // known, it is from an earlier run; then the first window shows it.
  double trained_ratio LARDER_GUARDED_BY(mutex) = 0;

  // Every object seen since the last training has the same chance to be in the sample.
  void Sample(CollectionId collection, const ObjectKey& key) LARDER_REQUIRES(mutex) {
    ++sampled_from;
    if (sample.size() < kSampleKeys) {
      sample.emplace_back(collection, key);
      return;
    }
    const uint64_t place = std::uniform_int_distribution<uint64_t>(0, sampled_from - 1)(random);
    if (place < kSampleKeys) sample[place] = {collection, key};
  }

  // True when values have become clearly larger than they were.
  bool Decayed(double ratio) LARDER_REQUIRES(mutex) {
    ++in_window;
    recent_ratio += (ratio - recent_ratio) / static_cast<double>(std::min(in_window, kRatioWindow));
    if (!current || in_window < kRatioWindow) return false;
    if (trained_ratio == 0) trained_ratio = recent_ratio;
    return recent_ratio < trained_ratio * kDecay;
  }

  void Restart() LARDER_REQUIRES(mutex) {
    sample.clear();
    sampled_from = 0;
    in_window = 0;
    recent_ratio = 0;
  }
};

DictionaryBook::DictionaryBook(Hooks hooks)
    : hooks_(std::move(hooks)),
      trainer_([this](const std::stop_token& stop) { TrainLoop(stop); }) {}

DictionaryBook::~DictionaryBook() { Stop(); }

void DictionaryBook::Stop() {
  trainer_.request_stop();
  if (trainer_.joinable()) trainer_.join();
}

DictionaryBook::Page& DictionaryBook::FindOrMakePage(const std::string& resource) {
  std::unique_ptr<Page>& page = pages_[resource];
  if (!page) page = std::make_unique<Page>(resource);
  return *page;
}

DictionaryBook::Page* DictionaryBook::PageOf(const std::string& resource) {
  WriterLock lock(mutex_);
  Page& page = FindOrMakePage(resource);
  MutexLock page_lock(page.mutex);
  page.asked_for = true;
  return &page;
}

DictionaryPtr DictionaryBook::Current(const Page& page) const {
  MutexLock lock(page.mutex);
  return page.current;
}

DictionaryPtr DictionaryBook::CurrentOf(const std::string& resource) const {
  ReaderLock lock(mutex_);
  const auto page = pages_.find(resource);
  return page == pages_.end() ? nullptr : Current(*page->second);
}

void DictionaryBook::Add(const std::string& resource, DictionaryPtr dictionary) {
  WriterLock lock(mutex_);
  Page& page = FindOrMakePage(resource);
  last_id_ = std::max(last_id_, dictionary->id());
  MutexLock page_lock(page.mutex);
  if (!page.current || page.current->id() <= dictionary->id()) {
    page.current = dictionary;
    page.observed = std::max(page.observed, dictionary->seen());
    page.train_at = dictionary->seen() * kGrowth;
  }
  // The right side of an assignment is evaluated first: the id must be read before the move.
  const DictionaryId id = dictionary->id();
  by_id_[id] = Entry{resource, std::move(dictionary)};
}

DictionaryPtr DictionaryBook::Find(DictionaryId id) const {
  ReaderLock lock(mutex_);
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second.dictionary;
}

std::vector<std::pair<std::string, DictionaryPtr>> DictionaryBook::All() const {
  ReaderLock lock(mutex_);
  std::vector<std::pair<std::string, DictionaryPtr>> out;
  for (const auto& [id, entry] : by_id_) {
    if (!entry.dropped) out.emplace_back(entry.resource, entry.dictionary);
  }
  return out;
}

std::vector<DictionaryId> DictionaryBook::Retire() {
  WriterLock lock(mutex_);
  // Who asks for the page from here on does not find it there.
  for (const auto& [resource, page] : pages_) {
    MutexLock page_lock(page->mutex);
    if (!page->asked_for) page->current.reset();
  }
  std::vector<DictionaryId> out;
  for (const auto& [id, entry] : by_id_) {
    if (entry.dropped) continue;
    const auto page = pages_.find(entry.resource);
    const bool current = page != pages_.end() && Current(*page->second) == entry.dictionary;
    const auto replaced = replaced_at_.find(id);
    const bool lately =
        replaced != replaced_at_.end() && hooks_.clock->Now() - replaced->second < kStillOnItsWay;
    if (!current && !lately && entry.dictionary.use_count() == 1) out.push_back(id);
  }
  return out;
}

void DictionaryBook::SetDropped(DictionaryId id, bool dropped) {
  WriterLock lock(mutex_);
  const auto it = by_id_.find(id);
  if (it != by_id_.end()) it->second.dropped = dropped;
}

std::optional<std::pair<std::string, DictionaryPtr>> DictionaryBook::Dropped(
    DictionaryId id) const {
  ReaderLock lock(mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end() || !it->second.dropped) return std::nullopt;
  return std::pair(it->second.resource, it->second.dictionary);
}

void DictionaryBook::Observe(Page& page, CollectionId collection, const ObjectKey& key,
                             size_t raw_bytes, size_t stored_bytes) {
  const double ratio =
      static_cast<double>(raw_bytes) / static_cast<double>(std::max<size_t>(stored_bytes, 1));
  MutexLock lock(page.mutex);
  ++page.observed;
  page.Sample(collection, key);
  // One that is being trained needs the sample as it is.
  if (!page.wanted && page.Decayed(ratio)) {
    spdlog::info("dictionary of {} compresses {:.1f}x, it was {:.1f}x: training a new one",
                 page.resource, page.recent_ratio, page.trained_ratio);
    // From the objects as they are now.
    page.Restart();
    page.train_at = std::min(page.train_at, page.observed + kSampleKeys);
  }
  if (!page.wanted && page.observed >= page.train_at) {
    page.wanted = true;
    Want(page);
  }
}

void DictionaryBook::Want(Page& page) {
  MutexLock lock(wake_mutex_);
  wanted_.push_back(&page);
  wake_.notify_all();
}

void DictionaryBook::TrainFrom(Page& page, std::vector<std::pair<CollectionId, ObjectKey>> sample) {
  {
    MutexLock lock(page.mutex);
    page.observed = std::max<uint64_t>(page.observed, sample.size());
    page.sample = std::move(sample);
    if (!page.wanted) {
      page.wanted = true;
      Want(page);
    }
  }
  WaitIdle();
}

void DictionaryBook::WaitIdle() {
  MutexLock lock(wake_mutex_);
  wake_.wait(wake_mutex_, trainer_.get_stop_token(),
             [this]() LARDER_REQUIRES(wake_mutex_) { return wanted_.empty(); });
}

Result<DictionaryBook::Trained> DictionaryBook::Train(Page& page, DictionaryId id) {
  std::vector<std::pair<CollectionId, ObjectKey>> keys;
  DictionaryPtr current;
  uint64_t seen = 0;
  {
    MutexLock lock(page.mutex);
    keys = page.sample;
    current = page.current;
    seen = page.observed;
  }
  TrainingSamples samples;
  samples.bytes.reserve(kSampleBytes);
  std::vector<std::string> held_out;
  size_t bytes = 0;
  for (size_t i = 0; i < keys.size() && bytes < kSampleBytes; ++i) {
    auto parts = hooks_.load(keys[i].first, keys[i].second);
    if (!parts) continue;  // not committed yet, or deleted since
    bytes += parts->raw.size();
    if (i % kHoldOut == 0) {
      held_out.push_back(std::move(parts->raw));
    } else {
      samples.Add(parts->raw);
    }
  }
  if (samples.sizes.size() + held_out.size() < kMinSamples) {
    return MakeError(ErrorCode::kNotReady, "only {} samples are stored yet", samples.sizes.size());
  }
  LARDER_ASSIGN_OR_RETURN(DictionaryPtr trained,
                          TrainDictionary(id, seen, samples, hooks_.dictionary_bytes));
  const auto ratio = [&held_out](double stored) {
    return RawBytes(held_out) / std::max(stored, 1.0);
  };
  const double after = CompressedBytes(held_out, *trained, hooks_.level);
  if (current) {
    const double before = CompressedBytes(held_out, *current, hooks_.level);
    if (after > before * kWorthwhile) return Trained{nullptr, ratio(before)};
  }
  LARDER_RETURN_IF_ERROR(hooks_.save(page.resource, *trained));
  return Trained{std::move(trained), ratio(after)};
}

void DictionaryBook::TrainLoop(const std::stop_token& stop) {
  NameThread("larder-train");
  for (;;) {
    Page* page = nullptr;
    {
      MutexLock lock(wake_mutex_);
      const auto wanted = [this]() LARDER_REQUIRES(wake_mutex_) { return !wanted_.empty(); };
      if (!wake_.wait(wake_mutex_, stop, wanted)) return;
      page = wanted_.front();
    }
    DictionaryId id = 0;
    {
      WriterLock lock(mutex_);
      id = ++last_id_;
    }
    Result<Trained> trained = Train(*page, id);
    {
      WriterLock lock(mutex_);
      MutexLock page_lock(page->mutex);
      if (trained) {
        if (trained->dictionary) {
          if (page->current) replaced_at_[page->current->id()] = hooks_.clock->Now();
          by_id_[id] = Entry{page->resource, trained->dictionary};
          page->current = std::move(trained->dictionary);
        }
        page->trained_ratio = trained->ratio;
        page->train_at = page->observed * kGrowth;
        page->Restart();
      } else {
        // Nothing stored yet, nothing to learn (all tiny, all alike), or a full disk: later again.
        spdlog::debug("no dictionary for {}: {}", page->resource, trained.error().message);
        page->train_at = page->observed + kFirstTraining;
      }
      page->wanted = false;
    }
    MutexLock lock(wake_mutex_);
    wanted_.erase(wanted_.begin());
    wake_.notify_all();
  }
}

}  // namespace larder
