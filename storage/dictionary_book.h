// All dictionaries of a store, and when to make a new one.
//
// While objects of a resource are encoded, a uniform sample of their keys is kept (keys only, so it
// costs little memory). At 200 objects, and again each time their number has grown tenfold, a
// thread of its own reads that sample back from the store, trains, and compares on objects left out
// of the training: a new dictionary that is not clearly better is forgotten. The same happens when
// the ratio decays because the objects have changed. Objects encoded meanwhile use what there is. A
// new dictionary is saved, synced, before the first value names it. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "storage/collection.h"
#include "storage/dictionary.h"
#include "storage/value_codec.h"

namespace larder {

class DictionaryBook final : public DictionarySource {
 public:
  // Both are called on the training thread, without a lock held.
  struct Hooks {
    // Makes a dictionary durable.
    std::function<Result<void>(const std::string& resource, const Dictionary& dictionary)> save;
    // A stored object, as it would be compressed.
    std::function<Result<ObjectParts>(CollectionId collection, const ObjectKey& key)> load;
    Clock* clock = RealClock();
    // Of the store's options.
    size_t dictionary_bytes = kDictionaryBytes;
    int level = kValueLevel;
  };

  explicit DictionaryBook(Hooks hooks);
  ~DictionaryBook() override;

  // One resource's page in the book, for who is going to compress with it. Stays where it is as
  // long as the book does.
  class Page;
  Page* PageOf(const std::string& resource);
  DictionaryPtr Current(const Page& page) const;
  // Of a resource whose page nobody may have asked for.
  DictionaryPtr CurrentOf(const std::string& resource) const;
  // Tells of an object just encoded.
  void Observe(Page& page, CollectionId collection, const ObjectKey& key, size_t raw_bytes,
               size_t stored_bytes);

  // One that the store holds already, in the place of another with its id; the highest id of a
  // resource is its current one.
  void Add(const std::string& resource, DictionaryPtr dictionary);
  // Also one that was dropped: a snapshot may still see values that name it.
  DictionaryPtr Find(DictionaryId id) const override;
  // Those that the store holds.
  std::vector<std::pair<std::string, DictionaryPtr>> All() const;
  // Takes those out of use that nobody can be compressing with any more, and returns them: not
  // current for some minutes, or of a resource whose page nobody has asked for (it is encrypted
  // now, or has no collection), and held by no compaction.
  std::vector<DictionaryId> Retire();
  // Whether the store holds it no longer.
  void SetDropped(DictionaryId id, bool dropped);
  // One of those, and its resource; nullopt: it is not.
  std::optional<std::pair<std::string, DictionaryPtr>> Dropped(DictionaryId id) const;

  // Trains from these stored objects now, and waits: for a resource too small to get there by
  // itself.
  void TrainFrom(Page& page, std::vector<std::pair<CollectionId, ObjectKey>> sample);
  // Waits until no training is under way or wanted.
  void WaitIdle();
  // Ends the training thread, for good. Before what the hooks use goes away.
  void Stop();

 private:
  Page& FindOrMakePage(const std::string& resource) LARDER_REQUIRES(mutex_);
  void TrainLoop(const std::stop_token& stop);
  struct Trained {
    DictionaryPtr dictionary;  // new, and saved; null where the present one does as well
    double ratio = 0;          // of the one to use, on objects that it was not trained on
  };
  Result<Trained> Train(Page& page, DictionaryId id);
  void Want(Page& page);

  struct Entry {
    std::string resource;
    DictionaryPtr dictionary;
    bool dropped = false;
  };

  const Hooks hooks_;
  mutable SharedMutex mutex_;  // taken before a page's own
  std::map<DictionaryId, Entry> by_id_ LARDER_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Page>> pages_ LARDER_GUARDED_BY(mutex_);
  std::map<DictionaryId, Clock::Steady> replaced_at_ LARDER_GUARDED_BY(mutex_);  // by this process
  DictionaryId last_id_ LARDER_GUARDED_BY(mutex_) = 0;
  Mutex wake_mutex_;                                          // taken after all others
  std::vector<Page*> wanted_ LARDER_GUARDED_BY(wake_mutex_);  // the first one is being trained
  std::condition_variable_any wake_;
  std::jthread trainer_;  // last: it uses the rest
};

}  // namespace larder
