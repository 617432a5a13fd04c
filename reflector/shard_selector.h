// The shardSelector of a list or watch: which part of a collection a replica takes.
//
// `shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')`, several joined by
// `||`: the 64-bit FNV-1a hash of the field lies in [from, to); the last range ends at
// '0x10000000000000000'. uid and namespace are the fields. The server does the same arithmetic
// where it knows shardSelector; where it does not it ignores the parameter, so the reflector always
// checks again with Matches().
//
//   LARDER_ASSIGN_OR_RETURN(ShardSelector half, ShardSelector::Parse(text));
//   if (half.Matches(ns, uid)) ...
//
// Immutable after Parse. An empty text matches everything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace larder {

class ShardSelector {
 public:
  // kInvalidArgument with what is wrong.
  static Result<ShardSelector> Parse(std::string_view text);
  // The selector of part `index` of `count` equal parts, by uid.
  static std::string ForPart(uint32_t index, uint32_t count);

  bool Matches(std::string_view ns, std::string_view uid) const;
  bool Empty() const { return ranges_.empty(); }

 private:
  struct Range {
    bool by_namespace = false;
    uint64_t first = 0;
    uint64_t last = 0;  // inclusive, so that the end of the number line fits
  };

  std::vector<Range> ranges_;
};

// 64-bit FNV-1a.
uint64_t Fnv1a64(std::string_view text);

}  // namespace larder
