// Leaves out of a log's replay what was written behind the last commit that succeeded.
//
// A commit whose sync failed is in the log all the same. Its caller was told that it failed, and
// has gone on from there: in the same process it must not come back when the store is opened again.
// A process that dies first takes that knowledge with it; the next one finds the commit whole.
//
// Must outlive the replay. Internal to storage/.
#pragma once

#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <cstdint>
#include <cstring>

namespace larder {

class ReplayLimit final : public rocksdb::WalFilter {
 public:
  // The sequence number of the last write that succeeded.
  explicit ReplayLimit(uint64_t committed_through) : committed_through_(committed_through) {}

  WalProcessingOption LogRecordFound(unsigned long long, const std::string&,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                     bool*) override {
    // A batch begins with its sequence number: fixed by the format of the log.
    const std::string& data = batch.Data();
    uint64_t sequence = 0;
    if (data.size() >= sizeof sequence) std::memcpy(&sequence, data.data(), sizeof sequence);
    return sequence > committed_through_ ? WalProcessingOption::kIgnoreCurrentRecord
                                         : WalProcessingOption::kContinueProcessing;
  }
  const char* Name() const override { return "larder.ReplayLimit"; }

 private:
  const uint64_t committed_through_;
};

}  // namespace larder
