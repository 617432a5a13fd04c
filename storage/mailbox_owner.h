// The owner's side of storage/mailbox.h. Internal to storage/.
#pragma once

#include "base/clock.h"
#include "storage/database.h"
#include "storage/mailbox.h"

namespace larder {

Result<LiveChange> ChangeDatabaseOptions(Database& database, const EngineOptions& engine,
                                         const EngineOptions& opened_with);

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

}  // namespace larder
