// The owner's side of storage/mailbox.h and storage/owner_request.h. Internal to storage/.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "storage/database.h"
#include "storage/mailbox.h"
#include "storage/owner_request.h"

namespace larder {

// `in_use` is what the database has now; what is changed is noted there.
LiveChange ChangeDatabaseOptions(Database& database, const EngineOptions& engine,
                                 EngineOptions& in_use);

// Looks and does what is asked. Of one thread only.
class Mailbox {
 public:
  void Poll(Store::Impl& impl);
  // The store is closed: a recording ends whole.
  void Close(Store::Impl& impl);

 private:
  void PollRecording(Store::Impl& impl);
  void FinishRecording(Store::Impl& impl);
  void PollOptions(Store::Impl& impl);

  bool recording_ = false;
  Clock::Steady until_{};
  bool seen_ = false;
  int64_t options_stamp_ = 0;
};

// Who answers what. Thread-safe.
class OwnerAnswers {
 public:
  void Add(const std::string& name, OwnerAnswer answer);
  void Remove(const std::string& name);
  // Looks and answers what is asked.
  void Poll(Store::Impl& impl);

 private:
  Result<std::string> Answer(const std::string& name, const std::string& text);

  Mutex mutex_;  // held while an answer is made, so that Remove waits for it
  std::map<std::string, OwnerAnswer> answers_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
