// Cuts a list in Kubernetes' protobuf form, arriving in pieces of any size, into its items.
//
// The body is the magic `k8s\0`, then a runtime.Unknown whose field 1 is the list's type and field
// 2 the list: ListMeta = 1, items = 2. Nothing but the current item is held, at most
// `max_item_bytes` of it; what stands beside the items and is not known is skipped.
//
// Errors are kProtocol: a wrong magic, a field that overruns its message, a cut-off body, an item
// that is too large.
//
//   splitter.Feed(piece);
//   for (auto step = splitter.Next(); step && *step == Step::kItem; step = splitter.Next()) {
//     Use(splitter.item());
//   }
//
// Not thread-safe. An item is valid until the next call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "reflector/carry.h"
#include "reflector/list_splitter.h"

namespace larder {

// What tells one version of an object from another.
struct ItemHead {
  std::string_view ns;
  std::string_view name;
  std::string_view uid;
  std::string_view resource_version;
};

// Of any object's message: its metadata stands in field 1.
Result<ItemHead> ParseItemHead(std::string_view message);

class ProtoListSplitter {
 public:
  using Step = ListSplitter::Step;

  explicit ProtoListSplitter(size_t max_item_bytes) : max_item_bytes_(max_item_bytes) {}

  // As in ListSplitter.
  void Feed(std::string_view piece) { rest_ = piece; }
  // kItem or kNeedMore: the end of the message is the end of the body.
  Result<Step> Next();
  std::string_view item() const { return item_; }
  Result<void> Finish() const;
  // Did Next() refuse an item for its size?
  bool TooLarge() const { return too_large_; }

  // Its type is there before the first item, the rest where the server put it.
  const ListHead& head() const { return head_; }

 private:
  enum class Place {
    kMagic,
    kTag,      // a field of the outer message or, once inside, of the list
    kVarint,   // the value of a varint field that nobody wants
    kLength,   // of a length-delimited field
    kSkip,     // inside a field that nobody wants
    kPayload,  // inside the type, ListMeta or an item
  };

  Result<void> TakeVarintByte(uint8_t byte);
  Result<void> BeginField(uint64_t tag);
  Result<void> BeginPayload(uint64_t length);
  Result<bool> TakePayload();  // true: item_ is whole
  void Count(size_t bytes);    // of the list's own bytes
  void EndField();

  const size_t max_item_bytes_;
  std::string_view rest_;
  Place place_ = Place::kMagic;
  size_t magic_seen_ = 0;
  bool in_list_ = false;  // inside runtime.Unknown's raw
  bool list_seen_ = false;
  uint64_t list_left_ = 0;  // bytes of the list not read yet
  uint64_t varint_ = 0;
  uint32_t varint_shift_ = 0;
  uint32_t field_ = 0;
  uint64_t field_left_ = 0;  // bytes of the current field not read yet
  bool too_large_ = false;
  Carry carry_;
  std::string_view item_;
  ListHead head_;
};

}  // namespace larder
