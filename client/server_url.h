// The parts of an API server's URL, the escaping of what is put behind it, and the URL of a proxy.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace larder {

struct ServerUrl {
  std::string scheme;     // "https" or "http"
  std::string host;       // IPv6 addresses in brackets
  std::string port;       // always there: "443" where the URL named none
  std::string base_path;  // in front of /api, without a slash at the end; usually empty

  // 127.0.0.0/8, ::1 or localhost: the only hosts that plain http may go to.
  bool IsLoopback() const;
  // "host:port".
  std::string Authority() const { return host + ":" + port; }
};

// kInvalidArgument on other schemes, a missing host, and on user names, queries and fragments,
// which have no place here.
Result<ServerUrl> ParseServerUrl(std::string_view text);

// kInvalidArgument where libcurl could not use it, or would take a part of the password for
// something else because it is not escaped. The message does not show it.
Result<void> CheckProxyUrl(const std::string& text);

// Percent-encodes what would end or change a request: '?', '#', spaces, control characters, and
// bytes above 127. A '%' stays: who puts a name into a path has escaped it (Resource::Path).
std::string EscapePath(std::string_view path);

// Percent-encodes all but unreserved characters.
std::string EscapeComponent(std::string_view text);

// "a=1&b=x%20y", with everything but unreserved characters encoded; empty for no parameters.
std::string EncodeQuery(const std::vector<std::pair<std::string, std::string>>& query);

}  // namespace larder
