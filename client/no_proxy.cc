#include "client/no_proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"

namespace larder {
namespace {

using Bytes = std::vector<unsigned char>;

// Four or sixteen bytes; empty where it is no address.
Bytes ParseAddress(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  const std::string terminated(text);
  std::array<unsigned char, 16> address{};
  if (::inet_pton(AF_INET, terminated.c_str(), address.data()) == 1) {
    return {address.begin(), address.begin() + 4};
  }
  if (::inet_pton(AF_INET6, terminated.c_str(), address.data()) == 1) {
    return {address.begin(), address.end()};
  }
  return {};
}

bool SameBits(const Bytes& one, const Bytes& other, size_t bits) {
  for (size_t bit = 0; bit < bits; ++bit) {
    if (((one[bit / 8] ^ other[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

bool AddressMatches(const Bytes& address, std::string_view pattern) {
  const size_t slash = pattern.find('/');
  const Bytes network = ParseAddress(pattern.substr(0, slash));
  if (network.size() != address.size()) return false;
  size_t bits = address.size() * 8;
  if (slash != std::string_view::npos) {
    const std::string_view digits = pattern.substr(slash + 1);
    size_t given = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), given);
    if (code != std::errc() || end != digits.data() + digits.size() || given > bits) return false;
    bits = given;
  }
  return SameBits(address, network, bits);
}

bool NameMatches(std::string_view name, std::string_view pattern) {
  if (pattern.starts_with('.')) pattern.remove_prefix(1);
  if (pattern.ends_with('.')) pattern.remove_suffix(1);
  if (name.ends_with('.')) name.remove_suffix(1);
  if (pattern.empty() || name.size() < pattern.size()) return false;
  const size_t begin = name.size() - pattern.size();
  if (LowerAscii(name.substr(begin)) != LowerAscii(pattern)) return false;
  return begin == 0 || name[begin - 1] == '.';
}

}  // namespace

bool IsWithoutProxy(std::string_view host, std::string_view no_proxy) {
  if (no_proxy == "*") return true;
  constexpr std::string_view kBetween = ", \t";
  const Bytes address = ParseAddress(host);
  for (size_t at = 0; (at = no_proxy.find_first_not_of(kBetween, at)) != std::string_view::npos;) {
    const size_t end = std::min(no_proxy.find_first_of(kBetween, at), no_proxy.size());
    const std::string_view pattern = no_proxy.substr(at, end - at);
    if (address.empty() ? NameMatches(host, pattern) : AddressMatches(address, pattern)) {
      return true;
    }
    at = end;
  }
  return false;
}

std::string_view NoProxyFromEnvironment() {
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return {};
}

}  // namespace larder
