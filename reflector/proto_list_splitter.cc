#include "reflector/proto_list_splitter.h"

#include <algorithm>

#include "reflector/buffer_limits.h"
#include "schema/wire_format.h"
#include "schema/wire_unknown.h"

namespace larder {
namespace {

// Field numbers, from Kubernetes' generated.proto files.
constexpr uint32_t kListMeta = 1;
constexpr uint32_t kListItems = 2;
constexpr uint32_t kListMetaVersion = 2;
constexpr uint32_t kListMetaContinue = 3;
constexpr uint32_t kListMetaShardInfo = 5;
constexpr uint32_t kShardInfoSelector = 1;
constexpr uint32_t kItemMeta = 1;
constexpr uint32_t kMetaName = 1;
constexpr uint32_t kMetaNamespace = 3;
constexpr uint32_t kMetaUid = 5;
constexpr uint32_t kMetaVersion = 6;

tl::unexpected<Error> Malformed(std::string_view what) {
  return MakeError(ErrorCode::kProtocol, "the protobuf list is malformed: {}", what);
}

// Calls visit(number, bytes) for each field.
template <typename Visit>
Result<void> ForEachField(std::string_view message, const Visit& visit) {
  WireFields fields(message);
  while (fields.Next()) {
    LARDER_RETURN_IF_ERROR(visit(fields.number(), fields.bytes()));
  }
  if (fields.malformed() != nullptr) return Malformed(fields.malformed());
  return {};
}

Result<void> ParseListMeta(std::string_view message, ListHead& head) {
  auto shard = [&](uint32_t number, std::string_view bytes) -> Result<void> {
    if (number == kShardInfoSelector) head.shard_selector = bytes;
    return {};
  };
  return ForEachField(message, [&](uint32_t number, std::string_view bytes) -> Result<void> {
    if (number == kListMetaVersion) head.resource_version = bytes;
    if (number == kListMetaContinue) head.continue_token = bytes;
    return number == kListMetaShardInfo ? ForEachField(bytes, shard) : Result<void>();
  });
}

Result<void> ParseType(std::string_view message, ListHead& head) {
  LARDER_ASSIGN_OR_RETURN(const WireTypeMeta type, ParseWireTypeMeta(message));
  head.api_version = type.api_version;
  head.kind = type.kind;
  return {};
}

}  // namespace

Result<ItemHead> ParseItemHead(std::string_view message) {
  ItemHead head;
  auto meta = [&](uint32_t number, std::string_view bytes) -> Result<void> {
    if (number == kMetaName) head.name = bytes;
    if (number == kMetaNamespace) head.ns = bytes;
    if (number == kMetaUid) head.uid = bytes;
    if (number == kMetaVersion) head.resource_version = bytes;
    return {};
  };
  LARDER_RETURN_IF_ERROR(
      ForEachField(message, [&](uint32_t number, std::string_view bytes) -> Result<void> {
        return number == kItemMeta ? ForEachField(bytes, meta) : Result<void>();
      }));
  if (head.name.empty() || head.resource_version.empty()) {
    return Malformed("an item without name or resourceVersion");
  }
  return head;
}

Result<ProtoListSplitter::Step> ProtoListSplitter::Next() {
  carry_.Release();
  while (!rest_.empty()) {
    if (place_ == Place::kPayload) {
      LARDER_ASSIGN_OR_RETURN(const bool item, TakePayload());
      if (item) return Step::kItem;
    } else if (place_ == Place::kSkip) {
      const size_t bytes = static_cast<size_t>(std::min<uint64_t>(field_left_, rest_.size()));
      rest_.remove_prefix(bytes);
      Count(bytes);
      field_left_ -= bytes;
      if (field_left_ == 0) EndField();
    } else {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      if (place_ == Place::kMagic) {
        if (byte != static_cast<uint8_t>(kWireMagic[magic_seen_])) return Malformed("wrong magic");
        if (++magic_seen_ == kWireMagic.size()) place_ = Place::kTag;
      } else {
        LARDER_RETURN_IF_ERROR(TakeVarintByte(byte));
      }
    }
  }
  return Step::kNeedMore;
}

Result<void> ProtoListSplitter::TakeVarintByte(uint8_t byte) {
  if (in_list_ && list_left_ == 0) return Malformed("a field overruns the list");
  Count(1);
  if (varint_shift_ >= 64) return Malformed("a number does not end");
  varint_ |= static_cast<uint64_t>(byte & 0x7f) << varint_shift_;
  varint_shift_ += 7;
  if (byte >= 0x80) return {};
  const uint64_t value = varint_;
  varint_ = 0;
  varint_shift_ = 0;
  if (place_ == Place::kTag) return BeginField(value);
  if (place_ == Place::kLength) return BeginPayload(value);
  EndField();
  return {};
}

Result<void> ProtoListSplitter::BeginField(uint64_t tag) {
  field_ = static_cast<uint32_t>(tag >> 3);
  switch (static_cast<WireType>(tag & 7)) {
    case WireType::kVarint:
      place_ = Place::kVarint;
      return {};
    case WireType::kBytes:
      place_ = Place::kLength;
      return {};
    case WireType::kFixed64:
      field_left_ = 8;
      break;
    case WireType::kFixed32:
      field_left_ = 4;
      break;
    default:
      return Malformed("unknown wire type");
  }
  if (in_list_ && field_left_ > list_left_) return Malformed("a field overruns the list");
  place_ = Place::kSkip;
  return {};
}

Result<void> ProtoListSplitter::BeginPayload(uint64_t length) {
  if (!in_list_ && field_ == kUnknownRaw) {
    if (list_seen_) return Malformed("two lists");
    list_seen_ = true;
    in_list_ = length != 0;
    list_left_ = length;
    place_ = Place::kTag;
    return {};
  }
  if (in_list_ && length > list_left_) return Malformed("a field overruns the list");
  field_left_ = length;
  const bool wanted =
      in_list_ ? field_ == kListMeta || field_ == kListItems : field_ == kUnknownType;
  if (!wanted) {
    place_ = Place::kSkip;
    if (length == 0) EndField();
    return {};
  }
  const bool item = in_list_ && field_ == kListItems;
  const size_t limit = item ? max_item_bytes_ : kMaxHeadBytes;
  if (length > limit) {
    too_large_ = item;
    return MakeError(ErrorCode::kProtocol,
                     "an item of the list has {} bytes, {} are allowed (max_event_bytes)", length,
                     limit);
  }
  if (length == 0 && item) return Malformed("an empty item");
  if (length == 0) {
    EndField();
    return {};
  }
  place_ = Place::kPayload;
  return {};
}

Result<bool> ProtoListSplitter::TakePayload() {
  const size_t bytes = static_cast<size_t>(std::min<uint64_t>(field_left_, rest_.size()));
  const std::string_view part = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  Count(bytes);
  field_left_ -= bytes;
  if (field_left_ != 0) {
    carry_.Append(part);
    return false;
  }
  const std::string_view whole = carry_.Complete(part);
  const bool beside_list = !in_list_;
  const bool is_item = in_list_ && field_ == kListItems;
  EndField();
  if (is_item) {
    item_ = whole;
    return true;
  }
  LARDER_RETURN_IF_ERROR(beside_list ? ParseType(whole, head_) : ParseListMeta(whole, head_));
  carry_.Release();
  return false;
}

void ProtoListSplitter::Count(size_t bytes) {
  if (in_list_) list_left_ -= bytes;
}

void ProtoListSplitter::EndField() {
  if (in_list_ && list_left_ == 0) in_list_ = false;
  place_ = Place::kTag;
}

Result<void> ProtoListSplitter::Finish() const {
  if (place_ != Place::kTag || varint_shift_ != 0 || in_list_ || !list_seen_) {
    return MakeError(ErrorCode::kProtocol, "the protobuf list is cut off: its end is missing");
  }
  return {};
}

}  // namespace larder
