#include "tools/serve/host_filter.h"

#include <arpa/inet.h>

#include <cctype>

namespace larder::tools {
namespace {

// In small letters, without port, brackets and the dot at the end.
std::string BareHost(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool brackets = !host.empty() && host.front() == '[';
  if (brackets) {
    host = host.substr(1, host.find(']') - 1);
  } else if (colon != std::string_view::npos && host.find(':') == colon) {
    host = host.substr(0, colon);
  }
  if (!host.empty() && host.back() == '.') host.remove_suffix(1);
  std::string out(host);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

enum class Kind { kName, kAddress, kLoopback, kWildcard };

// Only a literal address counts as one: "127.0.0.1.example.com" is somebody else's name.
Kind KindOf(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    if (v4.s_addr == INADDR_ANY) return Kind::kWildcard;
    return (ntohl(v4.s_addr) >> 24) == 127 ? Kind::kLoopback : Kind::kAddress;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_UNSPECIFIED(&v6)) return Kind::kWildcard;
    return IN6_IS_ADDR_LOOPBACK(&v6) ? Kind::kLoopback : Kind::kAddress;
  }
  return host == "localhost" ? Kind::kLoopback : Kind::kName;
}

}  // namespace

HostFilter::HostFilter(const std::string& listen, const std::vector<std::string>& more) {
  const std::string address = BareHost(listen);
  any_address_ = KindOf(address) == Kind::kWildcard;
  names_.insert(address);
  for (const std::string& name : more) names_.insert(BareHost(name));
}

bool HostFilter::Allows(std::string_view host) const {
  const std::string name = BareHost(host);
  const Kind kind = KindOf(name);
  return kind == Kind::kLoopback || names_.count(name) != 0 ||
         (any_address_ && kind == Kind::kAddress);
}

}  // namespace larder::tools
