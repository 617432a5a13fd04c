// An answer to a LIST, as JSON and as protobuf metadata. The first byte is the size of the pieces
// in which the rest arrives; what comes out must not depend on it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "reflector/list_splitter.h"
#include "reflector/proto_list_splitter.h"
#include "schema/object.h"

namespace {

constexpr size_t kMaxItem = 1 << 16;

std::string ItemText(const larder::ListSplitter& splitter) { return std::string(splitter.item()); }

std::string ItemText(const larder::ProtoListSplitter& splitter) {
  const auto item = larder::ParseItemHead(splitter.item());
  if (!item) return item.error().message;
  return fmt::format("{}|{}|{}|{}", item->ns, item->name, item->uid, item->resource_version);
}

// The items, then the version and how it ended.
template <typename Splitter>
std::vector<std::string> Split(Splitter splitter, std::string_view body, size_t piece_bytes) {
  std::vector<std::string> out;
  for (size_t at = 0; at < body.size(); at += piece_bytes) {
    splitter.Feed(body.substr(at, piece_bytes));
    for (;;) {
      const auto step = splitter.Next();
      if (!step) {
        out.emplace_back("refused");
        return out;
      }
      if (*step != larder::ListSplitter::Step::kItem) break;
      out.push_back(ItemText(splitter));
    }
  }
  out.push_back(splitter.head().resource_version);
  out.push_back(splitter.Finish() ? "whole" : "cut off");
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t piece_bytes = size_t{data[0]} + 1;
  const auto items = Split(larder::ListSplitter(kMaxItem, 100), body, piece_bytes);
  if (items != Split(larder::ListSplitter(kMaxItem, 100), body, body.size() + 1)) std::abort();
  const auto heads = Split(larder::ProtoListSplitter(kMaxItem), body, piece_bytes);
  if (heads != Split(larder::ProtoListSplitter(kMaxItem), body, body.size() + 1)) std::abort();
  for (const std::string& item : items) (void)larder::Object::Parse(item, {"v1", "Pod"});
  return 0;
}
