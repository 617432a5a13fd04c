#include "tests/indexer/support.h"

#include <fmt/format.h>

namespace larder::testing {

ObjectPtr Thing(std::string_view name, uint64_t version, std::string_view node,
                std::string_view app, const std::vector<std::string>& tags, std::string_view uid,
                std::string_view ns) {
  std::string list;
  for (const std::string& tag : tags) list += fmt::format("{}\"{}\"", list.empty() ? "" : ",", tag);
  return Must(Object::Parse(fmt::format(
      R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{}","namespace":"{}","uid":"{}","resourceVersion":"{}","labels":{{"app":"{}"}}}},"spec":{{"nodeName":"{}","tags":[{}]}}}})",
      name, ns, uid, version, app, node, list)));
}

std::vector<std::string> NamesOf(const std::vector<ObjectPtr>& objects) {
  std::vector<std::string> out;
  for (const ObjectPtr& object : objects) out.emplace_back(object->name());
  return out;
}

std::vector<IndexDefinition> ThingIndexes() {
  return {Must(IndexDefinition::ByField("node", "spec.nodeName")), IndexDefinition::ByLabel("app"),
          Must(IndexDefinition::ByField("tag", "spec.tags")),
          IndexDefinition::ByFunction("initial", 1, [](const Object& object) {
            return std::vector<std::string>{std::string(object.name().substr(0, 1))};
          })};
}

void IndexedStore::SetUp() { Reopen(ThingIndexes()); }

void IndexedStore::Reopen(std::vector<IndexDefinition> indexes) {
  indexer_.reset();
  store_.reset();
  hot_ = std::make_unique<HotTier>(HotTierOptions{.max_bytes = size_t{1} << 20});
  store_ = Must(Store::Open({.path = dir_.path(), .clock = clock_}));
  indexer_ = Must(Indexer::Open(store_.get(), hot_.get(), SpecOf("pods"), std::move(indexes)));
}

Indexer::Change IndexedStore::Upsert(const ObjectPtr& object, Indexer::Writer::Expect expect) {
  const EncodedObject encoded = Must(store_->Encode(indexer_->collection().id, *object));
  const auto writer = indexer_->BeginWrite();
  const Indexer::Change change = Must(writer->Upsert(object, encoded, expect));
  Must(writer->Commit(Durability::kRelaxed));
  return change;
}

Indexer::Change IndexedStore::Delete(const std::string& name, std::string_view uid,
                                     std::string_view version, const std::string& ns) {
  const auto writer = indexer_->BeginWrite();
  const Indexer::Change change = Must(writer->Delete({ns, name}, uid, version));
  Must(writer->Commit(Durability::kRelaxed));
  return change;
}

void IndexedStore::Write(const std::vector<ObjectPtr>& objects) {
  const auto writer = indexer_->BeginWrite();
  for (const ObjectPtr& object : objects) {
    Must(writer->Upsert(object, Must(indexer_->Prepare(*object))));
  }
  Must(writer->Commit(Durability::kRelaxed));
}

void IndexedStore::MakeCold(const std::string& name, const std::string& ns) {
  const std::vector<HotTier::Change> changes = {{{ns, name}, nullptr}};
  hot_->BeginCommit(indexer_->collection().id, changes);
  hot_->EndCommit(indexer_->collection().id, changes, /*committed=*/false);
}

}  // namespace larder::testing
