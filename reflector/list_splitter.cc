#include "reflector/list_splitter.h"

#include <simdjson.h>

#include <algorithm>

#include "base/text.h"
#include "reflector/buffer_limits.h"

namespace larder {
namespace {

// Keys of a list are short.
constexpr size_t kMaxKeyBytes = 256;

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

tl::unexpected<Error> NotAList(std::string_view what) {
  return MakeError(ErrorCode::kProtocol, "the answer is not a Kubernetes list: {}", what);
}

Result<std::string> ParseText(const std::string& quoted) {
  const simdjson::padded_string padded(quoted);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  std::string_view text;
  if (parser.iterate(padded).get(document) || document.get_string().get(text)) {
    return NotAList("kind or apiVersion is not text");
  }
  return std::string(text);
}

// The texts that are wanted of ListMeta; whatever else it holds is skipped.
Result<void> ParseListMeta(const std::string& json, ListHead& head) {
  const simdjson::padded_string padded(json);
  simdjson::dom::parser parser;
  simdjson::dom::element meta;
  if (parser.parse(padded).get(meta)) return NotAList("its metadata is not JSON");
  if (meta.is_null()) return {};
  simdjson::dom::object object;
  if (meta.get_object().get(object)) return NotAList("its metadata is not an object");
  auto read = [&](std::string_view pointer, std::string& out) {
    std::string_view text;
    if (!meta.at_pointer(pointer).get_string().get(text)) out = text;
  };
  read("/resourceVersion", head.resource_version);
  read("/continue", head.continue_token);
  read("/shardInfo/selector", head.shard_selector);
  return {};
}

}  // namespace

TypeMeta ListHead::ItemType(const TypeMeta& fallback) const {
  constexpr std::string_view kSuffix = "List";
  TypeMeta type = fallback;
  if (!api_version.empty()) type.api_version = api_version;
  if (kind.size() > kSuffix.size() && kind.ends_with(kSuffix)) {
    type.kind = kind.substr(0, kind.size() - kSuffix.size());
  }
  return type;
}

Result<void> ListHead::CheckItems(const TypeMeta& wanted) const {
  const TypeMeta type = ItemType({});
  if (type.kind == wanted.kind && type.api_version == wanted.api_version) return {};
  return MakeError(ErrorCode::kProtocol, "asked for a list of {} {}, the server sent {} {}",
                   wanted.api_version, wanted.kind, Excerpt(api_version), Excerpt(kind));
}

Result<ListSplitter::Step> ListSplitter::Next() {
  carry_.Release();
  while (!rest_.empty()) {
    switch (place_) {
      case Place::kInItem: {
        LARDER_ASSIGN_OR_RETURN(const bool whole, ScanItem());
        if (whole) return Step::kItem;
        break;
      }
      case Place::kInSpan:
        LARDER_RETURN_IF_ERROR(ScanSpan());
        break;
      case Place::kInKey:
      case Place::kInText:
        LARDER_RETURN_IF_ERROR(ScanText());
        break;
      default: {
        // A number, true, false or null ends with what follows it, which is then looked at again.
        const char c = rest_.front();
        if (place_ == Place::kInWord && (c == ',' || c == '}' || IsSpace(c))) {
          LARDER_RETURN_IF_ERROR(EndValue());
          break;
        }
        const Place before = place_;
        LARDER_RETURN_IF_ERROR(TakeByte(c));
        // The scanners of spans and items want the opening bracket too.
        const bool scanned =
            place_ != before && (place_ == Place::kInSpan || place_ == Place::kInItem);
        if (!scanned) rest_.remove_prefix(1);
      }
    }
  }
  return place_ == Place::kDone ? Step::kEnd : Step::kNeedMore;
}

Result<void> ListSplitter::Finish() const {
  if (place_ != Place::kDone) {
    return MakeError(ErrorCode::kProtocol, "the list is cut off: its end is missing");
  }
  if (!items_seen_) return NotAList("it has no items");
  if (!head_.kind.empty() && !head_.kind.ends_with("List")) {
    return NotAList("kind " + Excerpt(head_.kind));
  }
  return {};
}

Result<void> ListSplitter::TakeByte(char c) {
  if (place_ == Place::kInWord) return Keep({&c, 1});
  if (IsSpace(c)) return {};
  switch (place_) {
    case Place::kStart:
      if (c != '{') return NotAList("it does not begin with '{'");
      place_ = Place::kKeyOrEnd;
      return {};
    case Place::kKeyOrEnd:
    case Place::kKey:
      if (c == '}' && place_ == Place::kKeyOrEnd) {
        place_ = Place::kDone;
        return {};
      }
      if (c != '"') return NotAList("a key was expected");
      key_.clear();
      place_ = Place::kInKey;
      return {};
    case Place::kColon:
      if (c != ':') return NotAList("a colon was expected");
      place_ = Place::kValue;
      return {};
    case Place::kValue:
      return BeginValue(c);
    case Place::kAfterValue:
      if (c != ',' && c != '}') return NotAList("a comma was expected");
      place_ = c == ',' ? Place::kKey : Place::kDone;
      return {};
    case Place::kItemOrEnd:
    case Place::kItem:
      if (c == ']' && place_ == Place::kItemOrEnd) {
        place_ = Place::kAfterValue;
        return {};
      }
      return BeginItem(c);
    case Place::kAfterItem:
      if (c != ',' && c != ']') return NotAList("a comma between items was expected");
      place_ = c == ',' ? Place::kItem : Place::kAfterValue;
      return {};
    default:
      return NotAList("there is something behind its end");
  }
}

Result<void> ListSplitter::BeginValue(char c) {
  value_.clear();
  if (key_ == "items") {
    if (items_seen_) return NotAList("it has items twice");
    items_seen_ = true;
    if (c == '[') {
      place_ = Place::kItemOrEnd;
      return {};
    }
    // Go writes null for an empty list; EndValue refuses any other word.
    if (c != 'n') return NotAList("items is not an array");
  }
  if (c == '{' || c == '[') {
    span_.Reset();
    place_ = Place::kInSpan;
    return {};
  }
  place_ = c == '"' ? Place::kInText : Place::kInWord;
  return Keep({&c, 1});
}

Result<void> ListSplitter::BeginItem(char c) {
  if (c != '{') return NotAList("an item is not an object");
  span_.Reset();
  place_ = Place::kInItem;
  return {};
}

Result<void> ListSplitter::ScanText() {
  size_t at = 0;
  bool closed = false;
  while (at < rest_.size() && !closed) {
    const char c = rest_[at++];
    closed = c == '"' && !escaped_;
    escaped_ = c == '\\' && !escaped_;
  }
  const std::string_view part = rest_.substr(0, at);
  rest_.remove_prefix(at);
  if (place_ == Place::kInText) {
    LARDER_RETURN_IF_ERROR(Keep(part));
    return closed ? EndValue() : Result<void>();
  }
  if (key_.size() + part.size() > kMaxKeyBytes) return NotAList("a key is too long");
  key_.append(part);
  if (closed) {
    key_.pop_back();
    place_ = Place::kColon;
  }
  return {};
}

Result<void> ListSplitter::ScanSpan() {
  const std::optional<size_t> end = span_.Scan(rest_);
  if (span_.too_deep()) return NotAList("it is nested too deeply");
  const std::string_view part = rest_.substr(0, end.value_or(rest_.size()));
  rest_.remove_prefix(part.size());
  LARDER_RETURN_IF_ERROR(Keep(part));
  return end ? EndValue() : Result<void>();
}

Result<bool> ListSplitter::ScanItem() {
  const std::optional<size_t> end = span_.Scan(rest_);
  if (span_.too_deep()) return NotAList("an item is nested too deeply");
  const std::string_view part = rest_.substr(0, end.value_or(rest_.size()));
  if (part.size() > max_item_bytes_ - carry_.size()) {
    return MakeError(ErrorCode::kProtocol,
                     "an item of the list is larger than {} bytes (max_event_bytes)",
                     max_item_bytes_);
  }
  rest_.remove_prefix(part.size());
  if (!end) {
    carry_.Append(part);
    return false;
  }
  place_ = Place::kAfterItem;
  item_ = carry_.Complete(part);
  return true;
}

bool ListSplitter::WantsValue() const {
  return key_ == "metadata" || key_ == "kind" || key_ == "apiVersion" || key_ == "items";
}

Result<void> ListSplitter::Keep(std::string_view part) {
  if (!WantsValue()) return {};
  if (value_.size() + part.size() > kMaxHeadBytes) return NotAList(key_ + " is too large");
  value_.append(part);
  return {};
}

Result<void> ListSplitter::EndValue() {
  place_ = Place::kAfterValue;
  if (key_ == "items") {
    return value_ == "null" ? Result<void>() : Result<void>(NotAList("items is not an array"));
  }
  if (key_ == "metadata") return ParseListMeta(value_, head_);
  if (key_ == "kind" || key_ == "apiVersion") {
    LARDER_ASSIGN_OR_RETURN(std::string text, ParseText(value_));
    (key_ == "kind" ? head_.kind : head_.api_version) = std::move(text);
  }
  return {};
}

}  // namespace larder
