// How an index record's definition says that the index holds keyed hashes: "label:app#0a1b2c3d",
// the name of the key behind a '#'. Another key makes another index.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace larder {

struct KeyedDefinition {
  std::string_view definition;
  std::string_view key_name;  // Cipher::KeyName; empty: the values stand in the clear
};

inline std::string WithKeyName(std::string_view definition, std::string_view key_name) {
  std::string out(definition);
  return key_name.empty() ? out : out.append("#").append(key_name);
}

// A '#' may also stand in a path or in a function's name: only what a key's name looks like is one.
inline KeyedDefinition SplitKeyName(std::string_view stored) {
  constexpr size_t kNameBytes = 8;
  const size_t at = stored.rfind('#');
  if (at == std::string_view::npos) return {stored, {}};
  const std::string_view name = stored.substr(at + 1);
  const bool is_name =
      name.size() == kNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      });
  return is_name ? KeyedDefinition{stored.substr(0, at), name} : KeyedDefinition{stored, {}};
}

}  // namespace larder
