// The column families of a store; their names are part of the format (docs/format.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace larder {

enum class Family : uint8_t { kMeta, kObjects, kIndexes, kQueues, kDeltas };
inline constexpr std::array<std::string_view, 5> kFamilyNames = {"meta", "objects", "indexes",
                                                                 "queues", "deltas"};

}  // namespace larder
