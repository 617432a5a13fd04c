// The shardSelector parameter: which part of a collection, by the FNV-1a hash of a field.
//
//   shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')
//
// Ranges are half open and joined with ||; the last one ends at '0x10000000000000000'. The fields
// are object.metadata.uid and object.metadata.namespace, and all ranges of a selector use the same
// one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace larder::apiserver {

// 64-bit FNV-1a.
uint64_t Fnv1a(std::string_view text);

class ShardSelector {
 public:
  // Fails with kInvalidArgument and what is wrong.
  static Result<ShardSelector> Parse(std::string_view text);

  bool Matches(std::string_view ns, std::string_view uid) const;
  // In the server's own spelling.
  const std::string& text() const { return text_; }

 private:
  struct Range {
    uint64_t first;
    uint64_t last;  // inclusive, so that 2^64 - 1 can be said
  };
  Result<void> ParseCall(std::string_view call);

  std::string text_;
  bool by_namespace_ = false;
  std::vector<Range> ranges_;
};

}  // namespace larder::apiserver
