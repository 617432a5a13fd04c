#include "reflector/proto_list_splitter.h"

#include <algorithm>
#include <optional>

namespace larder {
namespace {

constexpr std::string_view kMagic("k8s\0", 4);
constexpr size_t kKeptBytes = size_t{1} << 20;
constexpr size_t kMaxHeadBytes = size_t{1} << 20;

// Protobuf's wire types.
constexpr uint32_t kWireVarint = 0;
constexpr uint32_t kWireFixed64 = 1;
constexpr uint32_t kWireBytes = 2;
constexpr uint32_t kWireFixed32 = 5;

// Field numbers, from Kubernetes' generated.proto files.
constexpr uint32_t kUnknownRaw = 2;
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

// Reads the fields of a message that is there as a whole.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  // The next field: its number, and its bytes where it is length-delimited. False at the end.
  Result<bool> Next() {
    if (rest_.empty()) return false;
    LARDER_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
    number_ = static_cast<uint32_t>(tag >> 3);
    bytes_ = {};
    switch (tag & 7) {
      case kWireVarint:
        LARDER_RETURN_IF_ERROR(Varint());
        return true;
      case kWireFixed64:
        return Take(8);
      case kWireFixed32:
        return Take(4);
      case kWireBytes: {
        LARDER_ASSIGN_OR_RETURN(const uint64_t length, Varint());
        return Take(length);
      }
      default:
        return Malformed("unknown wire type");
    }
  }

  uint32_t number() const { return number_; }
  std::string_view bytes() const { return bytes_; }

 private:
  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Malformed("a number does not end");
  }
  Result<bool> Take(uint64_t length) {
    if (length > rest_.size()) return Malformed("a field overruns its message");
    bytes_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

  std::string_view rest_;
  uint32_t number_ = 0;
  std::string_view bytes_;
};

// Calls visit(number, bytes) for each field.
template <typename Visit>
Result<void> ForEachField(std::string_view message, const Visit& visit) {
  MessageReader reader(message);
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return {};
    LARDER_RETURN_IF_ERROR(visit(reader.number(), reader.bytes()));
  }
}

Result<ItemHead> ParseItem(std::string_view message) {
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

}  // namespace

Result<ProtoListSplitter::Step> ProtoListSplitter::Next() {
  if (carry_given_) {
    carry_given_ = false;
    carry_.clear();
    if (carry_.capacity() > kKeptBytes) carry_.shrink_to_fit();
  }
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
        if (byte != static_cast<uint8_t>(kMagic[magic_seen_])) return Malformed("wrong magic");
        if (++magic_seen_ == kMagic.size()) place_ = Place::kTag;
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
  switch (tag & 7) {
    case kWireVarint:
      place_ = Place::kVarint;
      return {};
    case kWireBytes:
      place_ = Place::kLength;
      return {};
    case kWireFixed64:
      field_left_ = 8;
      break;
    case kWireFixed32:
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
  const bool wanted = in_list_ && (field_ == kListMeta || field_ == kListItems);
  if (!wanted) {
    place_ = Place::kSkip;
    if (length == 0) EndField();
    return {};
  }
  const size_t limit = field_ == kListMeta ? kMaxHeadBytes : max_item_bytes_;
  if (length > limit) {
    return MakeError(ErrorCode::kProtocol,
                     "an item of the list has {} bytes, {} are allowed (max_event_bytes)", length,
                     limit);
  }
  if (length == 0) return Malformed("an empty item");
  place_ = Place::kPayload;
  return {};
}

Result<bool> ProtoListSplitter::TakePayload() {
  const size_t bytes = static_cast<size_t>(std::min<uint64_t>(field_left_, rest_.size()));
  std::string_view part = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  Count(bytes);
  field_left_ -= bytes;
  if (field_left_ != 0 || !carry_.empty()) {
    carry_.append(part);
    part = carry_;
  }
  if (field_left_ != 0) return false;
  carry_given_ = !carry_.empty();
  const uint32_t field = field_;
  EndField();
  if (field == kListMeta) {
    LARDER_RETURN_IF_ERROR(ParseListMeta(part, head_));
    carry_.clear();
    carry_given_ = false;
    return false;
  }
  LARDER_ASSIGN_OR_RETURN(item_, ParseItem(part));
  return true;
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
