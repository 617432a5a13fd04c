// Which durable handlers and enqueuers a collection has, whether or not they
// are there now.
//
// A durable name is promised everything that changed since it last
// acknowledged. The promise holds while nobody of that name is registered, too:
// what is committed meanwhile (a process that starts its informer first and
// adds handlers later, or runs without one for a while) is kept as rows, merged
// per key, until it comes back or is forgotten.
//
// Thread-safe. One note in the store, written whole; a crash loses at most that
// a name is known, and then it gets everything once more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "storage/store.h"

namespace larder {

class DurableNames {
 public:
  DurableNames(Store* store, CollectionId collection);
  Result<void> Load();

  // The revision under which the name is known; nullopt: it is not.
  std::optional<uint32_t> Revision(const std::string& name) const;
  Result<void> Remember(const std::string& name, uint32_t revision);
  Result<void> Forget(const std::string& name);
  std::vector<std::string> All() const;

 private:
  Result<void> Write(const std::map<std::string, uint32_t>& names);

  Store* const store_;
  const std::string note_;
  mutable Mutex mutex_;
  std::map<std::string, uint32_t> names_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
