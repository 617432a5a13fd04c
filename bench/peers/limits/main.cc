// What the parts below larder allow at best: simdjson on a list as the server sent it, and RocksDB
// with rows of the size that larder makes of a pod.
//
//   bench_limits LIST.json NEW-FOLDER
#include <rocksdb/db.h>
#include <simdjson.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/support.h"

namespace larder::bench {
namespace {

// About what a pod of 9 KB is in larder's store.
constexpr size_t kRowBytes = 700;

struct Item {
  std::string key;
  std::string value;
};

// Every item's name, and the whole document once: what a reader of a list cannot do without.
std::vector<Item> Parse(simdjson::padded_string& list, nlohmann::ordered_json* out) {
  simdjson::dom::parser dom;
  auto start = SteadyClock::now();
  if (dom.parse(list).error()) Die("the list is no JSON");
  const double megabytes = static_cast<double>(list.size()) / 1e6;
  (*out)["simdjson_dom_mb_per_second"] = megabytes / SecondsSince(start);
  std::vector<Item> items;
  simdjson::ondemand::parser parser;
  start = SteadyClock::now();
  simdjson::ondemand::document document = parser.iterate(list);
  for (simdjson::ondemand::object item : document["items"].get_array()) {
    simdjson::ondemand::object metadata = item["metadata"];
    const std::string_view name = metadata["name"];
    const std::string_view ns = metadata["namespace"];
    items.push_back({std::string(ns) + "/" + std::string(name), {}});
  }
  (*out)["simdjson_on_demand_mb_per_second"] = megabytes / SecondsSince(start);
  (*out)["list_mb"] = megabytes;
  return items;
}

void Store(std::vector<Item>& items, const std::string& folder, nlohmann::ordered_json* out) {
  uint64_t state = 1;
  for (Item& item : items) {
    for (size_t i = 0; i < kRowBytes; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      item.value.push_back(static_cast<char>(state >> 56));
    }
  }
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  rocksdb::DB* opened = nullptr;
  if (!rocksdb::DB::Open(options, folder, &opened).ok()) Die("no RocksDB in " + folder);
  const std::unique_ptr<rocksdb::DB> db(opened);
  auto start = SteadyClock::now();
  for (size_t at = 0; at < items.size(); at += 1000) {
    rocksdb::WriteBatch batch;
    for (size_t i = at; i < std::min(at + 1000, items.size()); ++i)
      batch.Put(items[i].key, items[i].value);
    if (!db->Write({}, &batch).ok()) Die("RocksDB could not write");
  }
  (*out)["rocksdb_puts_per_second"] = static_cast<double>(items.size()) / SecondsSince(start);
  start = SteadyClock::now();
  rocksdb::PinnableSlice value;
  for (size_t i = 0; i < items.size(); ++i) {
    value.Reset();
    const Item& item = items[i * 7919 % items.size()];
    if (!db->Get({}, db->DefaultColumnFamily(), item.key, &value).ok()) Die("RocksDB lost a row");
  }
  (*out)["rocksdb_get_ns"] = SecondsSince(start) * 1e9 / static_cast<double>(items.size());
}

}  // namespace
}  // namespace larder::bench

int main(int argc, char** argv) {
  using namespace larder::bench;
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_limits LIST.json NEW-FOLDER\n");
    return 2;
  }
  simdjson::padded_string list;
  if (simdjson::padded_string::load(argv[1]).get(list)) Die(std::string("cannot read ") + argv[1]);
  nlohmann::ordered_json out = {{"peer", "limits"}};
  std::vector<Item> items = Parse(list, &out);
  Store(items, argv[2], &out);
  std::printf("%s\n", out.dump().c_str());
}
