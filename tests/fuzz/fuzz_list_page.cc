// An answer to a LIST, as JSON and as protobuf metadata. The first byte is the size of the pieces
// in which the rest arrives; what comes out must not depend on it. And it must be what a parser
// finds that has the whole in hand: an item that is not handed out would be told gone.
#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reflector/list_splitter.h"
#include "reflector/proto_list_splitter.h"
#include "schema/object.h"
#include "schema/wire_format.h"
#include "schema/wire_unknown.h"
#include "tests/fuzz/json_depth.h"

namespace {

namespace sj = simdjson::ondemand;

// Little, so that inputs of the size that libFuzzer makes by itself (4,096) come to it.
constexpr size_t kMaxItem = 1024;
constexpr uint32_t kMaxDepth = 100;
constexpr size_t kMaxKey = 256;  // the splitter's own

using Items = std::vector<std::string>;

struct Page {
  enum class End { kRefused, kCutOff, kWhole };
  Items items;
  std::string version;
  End end = End::kRefused;

  bool operator==(const Page&) const = default;
};

template <typename Splitter>
Page Split(Splitter splitter, std::string_view body, size_t piece_bytes) {
  Page page;
  for (size_t at = 0; at < body.size(); at += piece_bytes) {
    splitter.Feed(body.substr(at, piece_bytes));
    for (;;) {
      const auto step = splitter.Next();
      if (!step) return page;
      if (*step != larder::ListSplitter::Step::kItem) break;
      LARDER_CHECK(splitter.item().size() <= kMaxItem);
      page.items.emplace_back(splitter.item());
    }
  }
  page.version = splitter.head().resource_version;
  page.end = splitter.Finish() ? Page::End::kWhole : Page::End::kCutOff;
  return page;
}

// The items of a page that is whole are all of them, of another one the first.
void CheckItems(const Page& page, const Items& all) {
  LARDER_CHECK(page.items.size() <= all.size());
  LARDER_CHECK(std::equal(page.items.begin(), page.items.end(), all.begin()));
  if (page.end == Page::End::kWhole) LARDER_CHECK(page.items.size() == all.size());
}

// A page as simdjson reads it.
struct WholePage {
  Items items;  // empty text for one that is no object
  int lists = 0;
  bool fits = true;  // there is nothing else in it that the splitter may refuse
};

void ReadItems(sj::value value, WholePage& page) {
  ++page.lists;
  if (value.is_null()) return;
  sj::array list;
  if (value.get_array().get(list)) {
    page.fits = false;
    return;
  }
  for (auto element : list) {
    sj::object object;
    std::string_view text;
    if (element.get_object().get(object) || object.raw_json().get(text)) {
      page.fits = false;
      page.items.emplace_back();
      continue;
    }
    page.items.emplace_back(text.substr(0, text.rfind('}') + 1));
    page.fits = page.fits && page.items.back().size() <= kMaxItem;
  }
}

// `body` is JSON.
WholePage ReadWhole(const simdjson::padded_string& body) {
  WholePage page;
  sj::parser parser;
  sj::document document;
  sj::object top;
  LARDER_CHECK(!parser.iterate(body).get(document) && !document.get_object().get(top));
  for (auto field : top) {
    const sj::raw_json_string name = field.key();  // the splitter does not unescape it
    std::string_view text;
    LARDER_CHECK(!field.unescaped_key().get(text));
    page.fits = page.fits && text.size() <= kMaxKey / 6;  // "\u0061"
    sj::value value = field.value();
    if (name == "items") {
      ReadItems(value, page);
    } else if (name == "kind") {
      page.fits =
          page.fits && !value.get_string().get(text) && (text.empty() || text.ends_with("List"));
    } else if (name == "apiVersion") {
      page.fits = page.fits && !value.get_string().get(text);
    } else if (name == "metadata") {
      page.fits = page.fits && (value.is_null() || value.type() == sj::json_type::object);
    }
  }
  return page;
}

void CheckJson(std::string_view body, const Page& page) {
  const simdjson::padded_string padded(body);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(padded).get(root) || !root.is_object()) return;
  const WholePage whole = ReadWhole(padded);
  CheckItems(page, whole.items);
  if (page.end == Page::End::kWhole) LARDER_CHECK(whole.lists == 1);
  if (whole.fits && whole.lists == 1 && larder::fuzz::Depth(root) <= kMaxDepth) {
    LARDER_CHECK(page.end == Page::End::kWhole);
  }
}

// The items of a list that is well-formed to its end.
std::optional<Items> ReadWire(std::string_view body) {
  if (!body.starts_with(larder::kWireMagic)) return std::nullopt;
  Items items;
  larder::WireFields unknown(body.substr(larder::kWireMagic.size()));
  while (unknown.Next()) {
    if (unknown.number() != larder::kUnknownRaw) continue;
    if (unknown.type() != larder::WireType::kBytes) continue;
    larder::WireFields list(unknown.bytes());
    while (list.Next()) {
      if (list.number() != 2 || list.type() != larder::WireType::kBytes) continue;
      items.emplace_back(list.bytes());
    }
    if (list.malformed() != nullptr) return std::nullopt;
  }
  if (unknown.malformed() != nullptr) return std::nullopt;
  return items;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t piece_bytes = size_t{data[0]} + 1;
  const Page page = Split(larder::ListSplitter(kMaxItem, kMaxDepth), body, piece_bytes);
  LARDER_CHECK(page == Split(larder::ListSplitter(kMaxItem, kMaxDepth), body, body.size() + 1));
  CheckJson(body, page);
  const Page wire = Split(larder::ProtoListSplitter(kMaxItem), body, piece_bytes);
  LARDER_CHECK(wire == Split(larder::ProtoListSplitter(kMaxItem), body, body.size() + 1));
  if (const auto items = ReadWire(body)) CheckItems(wire, *items);
  for (const std::string& item : page.items) (void)larder::Object::Parse(item, {"v1", "Pod"});
  for (const std::string& item : wire.items) (void)larder::ParseItemHead(item);
  return 0;
}
