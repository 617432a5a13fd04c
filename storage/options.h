// What a store may use and how it behaves. Every default is meant for production.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace larder {

enum class Durability {
  // Written to the log before the call returns; synced within StoreOptions::sync_interval. Survives
  // kill -9;
  // power loss falls back to a consistent older prefix.
  kRelaxed,
  // Synced before the call returns; concurrent callers share one sync.
  kSync,
};

struct StoreOptions {
  // The directory. Created with mode 0700; refused when others can read it.
  std::string path;
  bool create_if_missing = true;

  // Keep everything in memory and nothing on disk: for what must not be stored. `path` is then only
  // a name.
  bool in_memory = false;

  // One number for everything the store keeps in memory: hot tier, block cache, memtables, buffers.
  size_t memory_limit = size_t{64} << 20;
  // Compress values with a dictionary trained per resource.
  bool compression = true;
  // Upper bound for the write-ahead log.
  size_t max_log_bytes = size_t{64} << 20;
  // How long a relaxed commit may stay unsynced.
  std::chrono::milliseconds sync_interval{1000};
  // A collection nobody opened for this long is dropped. 0 keeps all.
  std::chrono::seconds collection_ttl{std::chrono::hours(24 * 7)};

  // Keys for what may reach the disk only encrypted (see Cipher::FromFile); empty: no such resource
  // can be stored.
  std::string encryption_key_file;
  // Resources, spelled like "secrets", whose objects are encrypted.
  std::vector<std::string> encrypted_resources = {"secrets"};

  Clock* clock = RealClock();
};

}  // namespace larder
