// The list of options that EngineOptions takes: name, bounds, and how each one is put into
// RocksDB's own structures. Internal to storage/.
#pragma once

#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <string>
#include <vector>

#include "storage/engine_options.h"

namespace larder {

enum class EngineKind { kNumber, kReal, kFlag, kChoice, kChoices, kFilter };

struct EngineSpec {
  EngineSection section;
  const char* name;
  EngineKind kind;
  double least = 0;
  double most = 0;
  std::vector<std::string> choices{};
  bool live = false;
  const char* meaning = "";
  // One of these, by section; none for kLarder, which storage/ reads itself.
  void (*set_db)(rocksdb::DBOptions&, const std::string& value) = nullptr;
  void (*set_family)(rocksdb::ColumnFamilyOptions&, const std::string& value) = nullptr;
  void (*set_table)(rocksdb::BlockBasedTableOptions&, const std::string& value) = nullptr;
};

const std::vector<EngineSpec>& EngineCatalog();
const EngineSpec* FindEngineSpec(EngineSection section, std::string_view name);
// Why an option of RocksDB is not in the list although it exists; empty: no special reason.
std::string WhyNot(std::string_view name, std::string_view value);

void ApplyToDatabase(const EngineOptions& engine, rocksdb::DBOptions& options);
void ApplyToFamily(const EngineOptions& engine, std::string_view family,
                   rocksdb::ColumnFamilyOptions& options, rocksdb::BlockBasedTableOptions& table);

}  // namespace larder
