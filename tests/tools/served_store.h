// A `larder serve` beside the test, with a plain client, and the owner of the store that it serves.
#pragma once

#include <httplib.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "indexer/indexer.h"
#include "tests/tools/background.h"

namespace larder {

// A key for StoreOptions::encryption_key_file.
void WriteKey(const std::string& path);

class ServedStore {
 public:
  explicit ServedStore(const std::string& path);

  httplib::Result Ask(const std::string& path);
  Json Get(const std::string& path);
  // The events of a watch, until there are so many or it ends. `began` is called when the server
  // has answered.
  std::vector<Json> Watch(const std::string& path, size_t count,
                          const std::function<void()>& began = {}) const;

 private:
  Background server_;
  httplib::Client client_;
};

// A collection as its informer writes it: watch events move the cursor, a list's objects do not.
class Written {
 public:
  // Of one namespace; empty: of all.
  Written(Store* store, const std::string& resource, const std::string& ns = "");
  Written(Store* store, const CollectionSpec& spec);

  CollectionId id() const { return indexer_->collection().id; }
  const CollectionSpec& spec() const { return indexer_->collection().spec; }
  // By the clock of the commits to come.
  void PassTime(std::chrono::milliseconds time) { cursor_.updated_ms += time.count(); }
  // One commit. `key` is "namespace/name" or "name"; an empty version deletes.
  struct Row {
    std::string key;
    std::string version;
    size_t padding = 0;  // bytes of an annotation
  };
  void Commit(const std::vector<Row>& rows);
  void Commit(const std::vector<Row>& rows, const std::string& cursor);
  void BeginList();
  void BeginRewoundList();
  void EndList(const std::string& cursor);

 private:
  void Write(const std::vector<Row>& rows, bool move);

  std::unique_ptr<Indexer> indexer_;
  Resource resource_;
  Cursor cursor_;
};

}  // namespace larder
