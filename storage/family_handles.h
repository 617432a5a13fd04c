// Names of column families for a WriteBatch, which wants RocksDB's handles but reads only their
// number. These live as long as the store; RocksDB's own go away when the database is opened again
// after a failure, and a transaction that was begun before must still be good. Internal to
// storage/.
#pragma once

#include <rocksdb/comparator.h>
#include <rocksdb/db.h>

#include <array>
#include <string>

#include "storage/database.h"

namespace larder {

class FamilyHandle final : public rocksdb::ColumnFamilyHandle {
 public:
  const std::string& GetName() const override { return name_; }
  uint32_t GetID() const override { return id_; }
  rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override {
    return rocksdb::Status::NotSupported("only a name");
  }
  const rocksdb::Comparator* GetComparator() const override {
    return rocksdb::BytewiseComparator();
  }

  void Set(const rocksdb::ColumnFamilyHandle& handle) {
    name_ = handle.GetName();
    id_ = handle.GetID();
  }

 private:
  std::string name_;
  uint32_t id_ = 0;
};

class FamilyHandles {
 public:
  // The numbers of this database. Always the same for one store.
  void Learn(const Database& database) {
    for (size_t i = 0; i < handles_.size(); ++i) {
      handles_[i].Set(*database.family(static_cast<Family>(i)));
    }
  }
  rocksdb::ColumnFamilyHandle* operator[](Family family) {
    return &handles_[static_cast<size_t>(family)];
  }

 private:
  std::array<FamilyHandle, kFamilyNames.size()> handles_;
};

}  // namespace larder
