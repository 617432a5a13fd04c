// How RocksDB keeps a store, where that shall differ from what larder chooses by itself: what
// `larder tune` recommends and `larder run --options FILE` takes.
//
// The text looks like RocksDB's own OPTIONS files, but holds only what differs:
//
//   [Larder]
//   max_log_bytes=16777216
//   [CFOptions "objects"]
//   compaction_style=kCompactionStyleUniversal
//   [TableOptions/BlockBasedTable "*"]
//   filter_policy=ribbonfilter:10
//
// "*" means every family; a family's own section wins. Only options of a fixed list are taken, each
// within bounds (KnownEngineOptions): nothing in such a file can switch off the write-ahead log,
// the atomic flush or the recovery to one point in time, or make RocksDB drop rows. Everything else
// is refused with kInvalidArgument, naming the line, the option and what is allowed.
//
// A value type; safe to copy and to read from many threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace larder {

enum class EngineSection { kLarder, kDatabase, kFamily, kTable };

struct EngineOptionInfo {
  EngineSection section;
  std::string name;
  std::string allowed;  // "4096 to 1048576", "true or false", "kNoCompression, kZSTD"
  std::string meaning;
  bool live = false;  // can be changed in a store that is open
};

class EngineOptions {
 public:
  // Where an option is set. `family` is "" for kLarder and kDatabase, "*" or a family's name
  // otherwise.
  struct Place {
    EngineSection section = EngineSection::kLarder;
    std::string family{};
    std::string name{};
    auto operator<=>(const Place&) const = default;
  };

  // kMeasure takes options too that are measured to compare with, but that no store should have.
  enum class Use { kRun, kMeasure };
  static Result<EngineOptions> Parse(std::string_view text, Use use = Use::kRun);
  static Result<EngineOptions> Load(const std::string& path);
  // The same text for the same options, whatever the order in which they were set.
  std::string ToText() const;

  // Checks name and value; sizes may be spelled with K, M or G and are kept as numbers.
  Result<void> Set(const Place& place, std::string_view value);
  // "larder.max_log_bytes", "db.max_background_jobs", "objects.write_buffer_size",
  // "objects.table.block_size", "*.compression": the short form for command lines and tables.
  Result<void> Set(std::string_view short_name, std::string_view value);
  static std::string ShortName(const Place& place);

  // Why a store should not be run with these, although RocksDB could; empty: it may.
  std::string Unfit() const;

  bool Empty() const { return values_.empty(); }
  const std::map<Place, std::string>& values() const { return values_; }
  // The value that holds for a family (or for "" in the other sections); null where none is set.
  const std::string* Find(EngineSection section, std::string_view family,
                          std::string_view name) const;
  // The same for [Larder] numbers and switches.
  uint64_t LarderNumber(std::string_view name, uint64_t otherwise) const;
  bool LarderFlag(std::string_view name, bool otherwise) const;
  // These, and over them those of `other`.
  EngineOptions With(const EngineOptions& other) const;

  bool operator==(const EngineOptions&) const = default;

  // Measure RocksDB as it comes, with nothing of larder's choices but those that keep a store
  // sound: only for comparisons, so it has no spelling in a file.
  bool rocksdb_defaults = false;

 private:
  std::map<Place, std::string> values_;
};

// The list, in the order of the documentation.
const std::vector<EngineOptionInfo>& KnownEngineOptions();

std::string EngineVersion();  // RocksDB's: "7.8.3"

}  // namespace larder
