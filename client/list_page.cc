// ParseListPage: items are cut out of the answer without being built as a document.
#include <simdjson.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "client/api_client.h"
#include "schema/json_text.h"
#include "schema/parse_json.h"

namespace larder {
namespace {

namespace ondemand = simdjson::ondemand;

// A few hundred bytes, a continue token included.
constexpr size_t kMaxMetadataBytes = size_t{1} << 20;

struct RawList {
  std::string kind;
  std::string api_version;
  std::string_view metadata;
  std::vector<std::string_view> items;
  bool has_items = false;
};

simdjson::error_code ReadItems(ondemand::value value, std::vector<std::string_view>& items) {
  bool null = false;
  if (auto code = value.is_null().get(null)) return code;
  if (null) return simdjson::SUCCESS;  // Go's empty slice
  ondemand::array array;
  if (auto code = value.get_array().get(array)) return code;
  for (auto item : array) {
    ondemand::object object;
    if (auto code = item.get_object().get(object)) return code;
    std::string_view raw;
    if (auto code = object.raw_json().get(raw)) return code;
    items.push_back(raw);
  }
  return simdjson::SUCCESS;
}

simdjson::error_code ReadField(ondemand::field field, RawList& list) {
  std::string_view key;
  if (auto code = field.unescaped_key().get(key)) return code;
  ondemand::value value = field.value();
  std::string_view text;
  if (key == "kind") {
    if (auto code = value.get_string().get(text)) return code;
    list.kind = std::string(text);
  } else if (key == "apiVersion") {
    if (auto code = value.get_string().get(text)) return code;
    list.api_version = std::string(text);
  } else if (key == "metadata") {
    ondemand::object object;
    if (auto code = value.get_object().get(object)) return code;
    return object.raw_json().get(list.metadata);
  } else if (key == "items") {
    list.has_items = true;
    return ReadItems(value, list.items);
  }
  return simdjson::SUCCESS;
}

simdjson::error_code ReadList(ondemand::document& document, RawList& list) {
  ondemand::object root;
  if (auto code = document.get_object().get(root)) return code;
  for (auto entry : root) {
    ondemand::field field;
    if (auto code = std::move(entry).get(field)) return code;
    if (auto code = ReadField(field, list)) return code;
  }
  return simdjson::SUCCESS;
}

// False: too large, nested too deeply, or no JSON.
bool ReadMetadata(std::string_view text, ListPage& page) {
  if (text.empty()) return true;  // it has none
  if (text.size() > kMaxMetadataBytes) return false;
  const std::optional<Json> metadata = ParseJson(text);
  if (!metadata) return false;
  page.resource_version = TextAt(*metadata, "resourceVersion");
  page.continue_token = TextAt(*metadata, "continue");
  const auto remaining = metadata->find("remainingItemCount");
  if (remaining != metadata->end() && remaining->is_number_integer()) {
    page.remaining_item_count = remaining->get<int64_t>();
  }
  return true;
}

TypeMeta ItemType(const RawList& list, const Resource& resource) {
  constexpr std::string_view kSuffix = "List";
  TypeMeta type{list.api_version, resource.kind};
  if (list.kind.size() > kSuffix.size() && list.kind.ends_with(kSuffix)) {
    type.kind = list.kind.substr(0, list.kind.size() - kSuffix.size());
  }
  return type;
}

}  // namespace

Result<ListPage> ParseListPage(std::string body, const Resource& resource) {
  const size_t size = body.size();
  body.resize(size + simdjson::SIMDJSON_PADDING);
  ondemand::parser parser;
  ondemand::document document;
  RawList list;
  auto code = parser.iterate(body.data(), size, body.size()).get(document);
  if (!code) code = ReadList(document, list);
  if (code || !list.has_items) {
    return MakeError(ErrorCode::kProtocol, "the answer to a list of {} is not a list: {}",
                     resource.ToString(), code ? simdjson::error_message(code) : "it has no items");
  }
  ListPage page;
  if (!ReadMetadata(list.metadata, page)) {
    return MakeError(ErrorCode::kProtocol,
                     "the answer to a list of {} has metadata that cannot be read",
                     resource.ToString());
  }
  const TypeMeta type = ItemType(list, resource);
  page.items.reserve(list.items.size());
  for (const std::string_view item : list.items) {
    LARDER_ASSIGN_OR_RETURN(ObjectPtr object, Object::Parse(item, type));
    page.items.push_back(std::move(object));
  }
  return page;
}

}  // namespace larder
