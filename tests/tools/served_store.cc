#include "tests/tools/served_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace larder {

void WriteKey(const std::string& path) {
  std::ofstream(path) << std::string(43, 'A') << "=\n";
  std::filesystem::permissions(path, std::filesystem::perms(0600));
}

ServedStore::ServedStore(const std::string& path)
    : server_({"serve", "--store", path, "--no-token"}), client_(server_.line()) {
  client_.set_read_timeout(20);
}

httplib::Result ServedStore::Ask(const std::string& path) { return client_.Get(path); }

Json ServedStore::Get(const std::string& path) {
  const auto answer = Ask(path);
  return answer ? Json::parse(answer->body, nullptr, false) : Json();
}

std::vector<Json> ServedStore::Watch(const std::string& path, size_t count,
                                     const std::function<void()>& began) const {
  std::vector<Json> events;
  std::string rest;
  httplib::Client client(server_.line());
  client.set_read_timeout(20);
  (void)client.Get(
      path,
      [&](const httplib::Response&) {
        if (began) began();
        return true;
      },
      [&](const char* data, size_t size) {
        rest.append(data, size);
        for (size_t end = 0; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
          events.push_back(Json::parse(rest.substr(0, end), nullptr, false));
        }
        return events.size() < count;
      });
  return events;
}

namespace {

CollectionSpec SpecOf(const std::string& resource, const std::string& ns) {
  CollectionSpec spec;
  spec.cluster_uid = "11111111-2222-3333-4444-555555555555";
  spec.resource = *LookupResource(resource);
  spec.ns = ns;
  return spec;
}

}  // namespace

Written::Written(Store* store, const std::string& resource, const std::string& ns)
    : Written(store, SpecOf(resource, ns)) {}

Written::Written(Store* store, const CollectionSpec& spec) : resource_(spec.resource) {
  auto opened = Indexer::Open(store, nullptr, spec, {});
  EXPECT_TRUE(opened) << opened.error().ToString();
  indexer_ = *std::move(opened);
  cursor_ = indexer_->collection().cursor;
}

void Written::Write(const std::vector<Row>& rows, bool move) {
  auto writer = indexer_->BeginWrite();
  for (const Row& row : rows) {
    const auto key = ObjectKey::Parse(row.key);
    ASSERT_TRUE(key);
    if (row.version.empty()) {
      ASSERT_TRUE(writer->Delete(*key, "", ""));
      continue;
    }
    Json json = {
        {"apiVersion", resource_.ApiVersion()},
        {"kind", resource_.kind},
        {"metadata",
         {{"name", key->name}, {"uid", "u-" + row.key}, {"resourceVersion", row.version}}}};
    if (!key->ns.empty()) json["metadata"]["namespace"] = key->ns;
    if (row.padding != 0) {
      json["metadata"]["annotations"]["padding"] = std::string(row.padding, 'x');
    }
    const auto object = Object::FromJson(json);
    ASSERT_TRUE(object) << object.error().ToString();
    ASSERT_TRUE(
        writer->Upsert(*object, *indexer_->Prepare(**object), Indexer::Writer::Expect::kAny));
  }
  if (move) {
    ++cursor_.updated_ms;
    writer->SetCursor(cursor_);
  }
  ASSERT_TRUE(writer->Commit(Durability::kSync));
}

void Written::Commit(const std::vector<Row>& rows) { Write(rows, false); }

void Written::Commit(const std::vector<Row>& rows, const std::string& cursor) {
  cursor_.resource_version = cursor;
  Write(rows, true);
}

void Written::BeginList() {
  cursor_.state = cursor_.Complete() ? SyncState::kRelisting : SyncState::kListing;
  ++cursor_.epoch;
  Write({}, true);
}

void Written::BeginRewoundList() {
  cursor_.resource_version.clear();
  BeginList();
}

void Written::EndList(const std::string& cursor) {
  cursor_.state = SyncState::kSynced;
  Commit({}, cursor);
}

}  // namespace larder
