// A damaged database, opened as forgivingly as is needed, and the rows that can still be read.
//
// Open() takes the manifest as it is; where that is lost, OpenWithoutManifest() has RocksDB make a
// new one from the tables and logs. Nothing of the old database is changed by either. Not
// thread-safe.
//
//   auto wreck = Wreck::Open(path);
//   if (!wreck) wreck = Wreck::OpenWithoutManifest(path, scratch);
//   const size_t gaps = (*wreck)->Scan(Family::kObjects, [&](auto key, auto value) { ... });
#pragma once

#include <rocksdb/db.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "storage/family.h"

namespace larder {

class Wreck {
 public:
  static Result<std::unique_ptr<Wreck>> Open(const std::string& path);
  // A manifest that RocksDB makes anew begins empty and ends like any other, though nobody knows
  // which tables belonged together: so it is never made in the store itself, where whatever ends us
  // would leave it, but in `scratch`, which is made for it.
  static Result<std::unique_ptr<Wreck>> OpenWithoutManifest(const std::string& path,
                                                            const std::string& scratch);
  ~Wreck();
  Wreck(const Wreck&) = delete;
  Wreck& operator=(const Wreck&) = delete;

  // Is it what was committed up to some point? Not when records of the log were skipped: later
  // commits are there, and a cursor among them, and earlier ones are not. Nor when the manifest was
  // made anew.
  bool is_prefix() const { return is_prefix_; }

  // What a newer larder wrote is not ours to judge. Where the row cannot be read, nothing says so.
  Result<void> CheckFormat(const std::string& path) const;

  using Visit = std::function<void(std::string_view key, std::string_view value)>;
  // Every row that can be reached, in the order of keys. A block whose checksum is wrong is not
  // looked into, not even for rows that have one of their own: RocksDB takes what is in a block for
  // sound, and a build with assertions aborts over it. Returns how many times reading broke off and
  // went on further down.
  size_t Scan(Family family, const Visit& visit) const;

 private:
  Wreck() = default;
  rocksdb::Status TryOpen(const std::string& path, const rocksdb::DBOptions& options);
  rocksdb::ColumnFamilyHandle* Handle(Family family) const;
  size_t ScanAll(Family family, const Visit& visit) const;
  size_t ScanTables(Family family, const Visit& visit) const;
  std::vector<rocksdb::LiveFileMetaData> Tables(Family family) const;
  std::string NextTable(Family family, const std::string& key) const;

  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::unique_ptr<rocksdb::DB> db_;
  bool is_prefix_ = false;
  bool manifest_is_new_ = false;
};

}  // namespace larder
