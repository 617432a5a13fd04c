#include "client/server_url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <memory>

namespace larder {
namespace {

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using UrlHandle = std::unique_ptr<CURLU, UrlDeleter>;

std::string Part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string result(text);
  curl_free(text);
  return result;
}

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

void AppendEscaped(std::string& out, char c) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out += '%';
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

}  // namespace

bool ServerUrl::IsLoopback() const {
  if (host == "localhost") return true;
  // Only a literal address counts: "127.0.0.1.example.com" is somebody else's host.
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (host.size() > 2 && host.front() == '[') {
    in6_addr v6{};
    const std::string bare = host.substr(1, host.size() - 2);
    return inet_pton(AF_INET6, bare.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return false;
}

Result<ServerUrl> ParseServerUrl(std::string_view text) {
  const std::string input(text);
  UrlHandle url(curl_url());
  if (url == nullptr) return MakeError(ErrorCode::kInternal, "out of memory");
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, input.c_str(), 0);
  // The URL itself stays out of the messages: it may carry a password.
  if (code != CURLUE_OK || input.find('\0') != std::string::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "the server's URL is not valid: {}",
                     curl_url_strerror(code));
  }
  ServerUrl parsed;
  parsed.scheme = Part(url.get(), CURLUPART_SCHEME);
  parsed.host = Part(url.get(), CURLUPART_HOST);
  if (parsed.scheme != "https" && parsed.scheme != "http") {
    return MakeError(ErrorCode::kInvalidArgument, "the server's URL must begin with https://");
  }
  parsed.port = Part(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  parsed.base_path = Part(url.get(), CURLUPART_PATH);
  while (!parsed.base_path.empty() && parsed.base_path.back() == '/') parsed.base_path.pop_back();
  if (!Part(url.get(), CURLUPART_USER).empty() || !Part(url.get(), CURLUPART_PASSWORD).empty() ||
      !Part(url.get(), CURLUPART_QUERY).empty() || !Part(url.get(), CURLUPART_FRAGMENT).empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the server's URL must not have a user name, a query or a fragment");
  }
  return parsed;
}

Result<void> CheckProxyUrl(const std::string& text) {
  const auto refuse = [](std::string_view why) {
    return MakeError(ErrorCode::kInvalidArgument, "proxy-url {}", why);
  };
  if (!text.starts_with("http://") && !text.starts_with("https://") &&
      !text.starts_with("socks5://") && !text.starts_with("socks5h://")) {
    return refuse("must begin with http://, https:// or socks5://");
  }
  const UrlHandle url(curl_url());
  if (url == nullptr) return MakeError(ErrorCode::kInternal, "out of memory");
  // libcurl does not know socks5 as the scheme of a URL.
  const CURLUcode code =
      curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME);
  if (code != CURLUE_OK || text.find('\0') != std::string::npos) {
    return refuse(fmt::format("is not valid: {}", curl_url_strerror(code)));
  }
  // "http://user:12/34@proxy" is port 12 of the host "user".
  const std::string path = Part(url.get(), CURLUPART_PATH);
  if ((!path.empty() && path != "/") || !Part(url.get(), CURLUPART_QUERY).empty() ||
      !Part(url.get(), CURLUPART_FRAGMENT).empty()) {
    return refuse(
        "must not have a path, a query or a fragment; escape '/', '?' and '#' in its "
        "password");
  }
  return {};
}

std::string EscapePath(std::string_view path) {
  static constexpr std::string_view kAlsoAllowed = "/:@!$&'()*+,;=%";
  std::string out;
  out.reserve(path.size());
  for (char c : path) {
    if (IsUnreserved(c) || kAlsoAllowed.find(c) != std::string_view::npos) {
      out += c;
    } else {
      AppendEscaped(out, c);
    }
  }
  return out;
}

std::string EscapeComponent(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (IsUnreserved(c)) {
      out += c;
    } else {
      AppendEscaped(out, c);
    }
  }
  return out;
}

std::string EncodeQuery(const std::vector<std::pair<std::string, std::string>>& query) {
  std::string out;
  for (const auto& [name, value] : query) {
    if (!out.empty()) out += '&';
    out += EscapeComponent(name) + '=' + EscapeComponent(value);
  }
  return out;
}

}  // namespace larder
