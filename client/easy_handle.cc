#include "client/easy_handle.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cstring>
#include <string_view>

#include "base/text.h"
#include "client/no_proxy.h"

namespace larder {
namespace {

// A dead peer is noticed after 15 s of silence and three unanswered probes 5 s apart, or when what
// we sent was not acknowledged for 30 s: under a minute in both cases.
constexpr long kKeepaliveIdleSeconds = 15;
constexpr long kKeepaliveIntervalSeconds = 5;
constexpr int kKeepaliveProbes = 3;
constexpr unsigned kUserTimeoutMs = 30'000;
constexpr long kReceiveBufferBytes = 128L << 10;

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  const size_t bytes = size * count;
  return static_cast<Transfer*>(user)->OnHeader({data, bytes}) ? bytes : 0;
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  const size_t bytes = size * count;
  switch (static_cast<Transfer*>(user)->OnBody({data, bytes})) {
    case Transfer::Accepted::kYes:
      return bytes;
    case Transfer::Accepted::kPause:
      return CURL_WRITEFUNC_PAUSE;
    case Transfer::Accepted::kAbort:
      break;
  }
  return 0;
}

int OnSocket(void*, curl_socket_t socket, curlsocktype) {
  // Best effort: without them only the time-outs of the callers are left.
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kKeepaliveProbes, sizeof kKeepaliveProbes);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  return CURL_SOCKOPT_OK;
}

// Was HTTP/2 agreed upon with the server? Where libcurl does TLS with another library than ours,
// that cannot be known.
bool HasHttp2(CURL* curl) {
  const curl_tlssessioninfo* session = nullptr;
  if (curl_easy_getinfo(curl, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK || session == nullptr ||
      session->backend != CURLSSLBACKEND_OPENSSL || session->internals == nullptr) {
    return false;
  }
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(static_cast<const SSL*>(session->internals), &protocol, &size);
  return size == 2 && std::memcmp(protocol, "h2", 2) == 0;
}

// On every connection that was chosen for the transfer, before the request is sent.
int BeforeRequest(void* user, char*, char*, int, int) {
  const bool send = static_cast<Transfer*>(user)->OnSend(/*fits=*/true);
  return send ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

int BeforeSharedRequest(void* user, char*, char*, int, int) {
  auto* transfer = static_cast<Transfer*>(user);
  const bool send = transfer->OnSend(HasHttp2(transfer->easy->curl.get()));
  return send ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

// Sets options one after the other and remembers whether any was refused.
class Setter {
 public:
  explicit Setter(CURL* curl) : curl_(curl) {}
  template <typename T>
  void operator()(CURLoption option, T value) {
    if (code_ == CURLE_OK) code_ = curl_easy_setopt(curl_, option, value);
  }
  void Blob(CURLoption option, const std::string& bytes) {
    curl_blob blob{const_cast<char*>(bytes.data()), bytes.size(), CURL_BLOB_COPY};
    (*this)(option, &blob);
  }
  CURLcode code() const { return code_; }

 private:
  CURL* curl_;
  CURLcode code_ = CURLE_OK;
};

bool IsHeaderSafe(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

class HeaderList {
 public:
  explicit HeaderList(EasyHandle& handle) : handle_(handle) {}
  void Add(std::string_view name, std::string_view value) {
    if (!IsHeaderSafe(name) || !IsHeaderSafe(value)) {
      bad_name_ = std::string(name.substr(0, name.find_first_of("\r\n")));
      return;
    }
    AddLine(fmt::format("{}: {}", name, value));
  }
  // "Expect:" keeps libcurl from adding its own.
  void Suppress(std::string_view name) { AddLine(fmt::format("{}:", name)); }
  Result<void> Done() const {
    if (bad_name_.empty()) return {};
    return MakeError(ErrorCode::kInvalidArgument, "the header {} has a line break in it",
                     bad_name_);
  }

 private:
  void AddLine(const std::string& line) {
    curl_slist* longer = curl_slist_append(handle_.headers.get(), line.c_str());
    if (longer == nullptr) return;
    (void)handle_.headers.release();
    handle_.headers.reset(longer);
  }
  EasyHandle& handle_;
  std::string bad_name_;
};

void AddImpersonation(const Impersonation& impersonate, HeaderList& list) {
  if (impersonate.Empty()) return;
  list.Add("Impersonate-User", impersonate.user);
  if (!impersonate.uid.empty()) list.Add("Impersonate-Uid", impersonate.uid);
  for (const std::string& group : impersonate.groups) list.Add("Impersonate-Group", group);
  for (const auto& [key, values] : impersonate.extra) {
    for (const std::string& value : values) {
      list.Add("Impersonate-Extra-" + EscapeComponent(key), value);
    }
  }
}

Result<void> SetHeaders(const ClientConfig& config, const ServerUrl& url, const Request& request,
                        const Credential& credential, EasyHandle& handle) {
  HeaderList list(handle);
  list.Suppress("Expect");
  list.Add("Accept", request.accept);
  const bool gzip = request.accept_gzip && !config.disable_compression;
  list.Add("Accept-Encoding", gzip ? "gzip" : "identity");
  if (!request.content_type.empty()) list.Add("Content-Type", request.content_type);
  if (!config.tls_server_name.empty()) list.Add("Host", url.Authority());
  if (!credential.authorization.empty()) list.Add("Authorization", credential.authorization);
  AddImpersonation(config.impersonate, list);
  for (const auto& [name, value] : request.headers) list.Add(name, value);
  return list.Done();
}

void SetTls(const ClientConfig& config, const Credential& credential, Setter& set) {
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  const bool verify = !config.insecure_skip_tls_verify;
  set(CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
  set(CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
  if (!credential.ca_pem.empty()) {
    set.Blob(CURLOPT_CAINFO_BLOB, credential.ca_pem);
    // Otherwise the system's authorities would be trusted beside the one that was named.
    set(CURLOPT_CAINFO, static_cast<const char*>(nullptr));
    set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  if (!credential.certificate_pem.empty()) {
    set(CURLOPT_SSLCERTTYPE, "PEM");
    set(CURLOPT_SSLKEYTYPE, "PEM");
    set.Blob(CURLOPT_SSLCERT_BLOB, credential.certificate_pem);
    set.Blob(CURLOPT_SSLKEY_BLOB, credential.key_pem);
    // Without one libcurl (7.88) reads a null pointer where the key has a passphrase.
    set(CURLOPT_KEYPASSWD, "");
  }
}

// libcurl verifies the certificate against the URL's host; with tls_server_name that one goes into
// the URL and the real host is only where to connect.
bool IsRenamed(const ClientConfig& config, const ServerUrl& url) {
  return !config.tls_server_name.empty() && url.scheme == "https";
}

void SetConnection(const ClientConfig& config, const ServerUrl& url, Sharing sharing,
                   Transfer* transfer, Setter& set) {
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // do not wait for a name lookup when a transfer is given up
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(config.connect_timeout.count()));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set(CURLOPT_TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  set(CURLOPT_SOCKOPTFUNCTION, &OnSocket);
  set(CURLOPT_BUFFERSIZE, kReceiveBufferBytes);
  if (sharing == Sharing::kMultiplexed) {
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    set(CURLOPT_PIPEWAIT, 1L);  // wait for a connection that can be shared rather than open another
    set(CURLOPT_PREREQFUNCTION, &BeforeSharedRequest);
  } else {
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PREREQFUNCTION, &BeforeRequest);
  }
  set(CURLOPT_PREREQDATA, static_cast<void*>(transfer));
  set(CURLOPT_HEADEROPT, static_cast<long>(CURLHEADER_SEPARATE));  // ours are not for a proxy
  if (!config.proxy_url.empty()) {
    // To kubectl this scheme, too, means that the proxy looks up the server's name.
    constexpr std::string_view kSocks = "socks5://";
    const std::string proxy = config.proxy_url.starts_with(kSocks)
                                  ? "socks5h://" + config.proxy_url.substr(kSocks.size())
                                  : config.proxy_url;
    set(CURLOPT_PROXY, proxy.c_str());
    set(CURLOPT_NOPROXY, "");
  } else if (url.IsLoopback()) {
    set(CURLOPT_PROXY, "");  // a proxy from the environment has another loopback than we
  } else if (IsRenamed(config, url)) {
    // libcurl would look for the name that is verified, not for the host that is asked.
    const bool without = IsWithoutProxy(url.host, NoProxyFromEnvironment());
    set(without ? CURLOPT_PROXY : CURLOPT_NOPROXY, "");
  }
}

void SetMethod(const Request& request, EasyHandle& handle, Setter& set) {
  const bool has_body = !request.body.empty() || request.method == "POST" ||
                        request.method == "PUT" || request.method == "PATCH";
  if (has_body) {
    handle.body = request.body;
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(handle.body.size()));
    set(CURLOPT_POSTFIELDS, handle.body.c_str());
  }
  if (has_body || request.method != "GET") {
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

// Without the URL of a proxy, which libcurl shows whole, password included, where it cannot use it.
// A configured one was looked at before (CheckProxyUrl), those of the environment only libcurl
// sees.
std::string WhatCurlSays(CURLcode code, const EasyHandle& handle) {
  const std::string_view said = handle.error_text;
  if (said.starts_with("Unsupported proxy")) {
    return "the proxy's URL in the environment is not valid";
  }
  if (said.empty() || code == CURLE_COULDNT_RESOLVE_PROXY) return curl_easy_strerror(code);
  return Printable(std::string(said), Lines::kOne);  // it may quote the server
}

}  // namespace

Result<std::unique_ptr<EasyHandle>> MakeEasyHandle(const ClientConfig& config, const ServerUrl& url,
                                                   const Request& request,
                                                   const Credential& credential, Sharing sharing,
                                                   Transfer* transfer) {
  auto handle = std::make_unique<EasyHandle>();
  handle->curl.reset(curl_easy_init());
  if (handle->curl == nullptr) return MakeError(ErrorCode::kInternal, "libcurl: out of memory");
  if (request.path.empty() || request.path.front() != '/') {
    return MakeError(ErrorCode::kInvalidArgument, "the path '{}' does not begin with '/'",
                     request.path);
  }
  const std::string path = url.base_path + EscapePath(request.path);
  handle->what = fmt::format("{} {}://{}{}", request.method, url.scheme, url.Authority(), path);

  const bool renamed = IsRenamed(config, url);
  const std::string host = renamed ? config.tls_server_name : url.host;
  std::string full = fmt::format("{}://{}:{}{}", url.scheme, host, url.port, path);
  if (!request.query.empty()) full += "?" + EncodeQuery(request.query);
  if (renamed) {
    handle->connect_to.reset(
        curl_slist_append(nullptr, fmt::format("::{}", url.Authority()).c_str()));
  }
  LARDER_RETURN_IF_ERROR(SetHeaders(config, url, request, credential, *handle));

  Setter set(handle->curl.get());
  SetConnection(config, url, sharing, transfer, set);
  if (url.scheme == "https") SetTls(config, credential, set);
  SetMethod(request, *handle, set);
  set(CURLOPT_URL, full.c_str());
  if (renamed) set(CURLOPT_CONNECT_TO, handle->connect_to.get());
  set(CURLOPT_USERAGENT, config.user_agent.c_str());
  set(CURLOPT_HTTPHEADER, handle->headers.get());
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(handle->error_text));
  set(CURLOPT_HEADERFUNCTION, &OnHeader);
  set(CURLOPT_HEADERDATA, static_cast<void*>(transfer));
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(transfer));
  set(CURLOPT_PRIVATE, static_cast<void*>(transfer));
  if (set.code() != CURLE_OK) {
    return MakeError(ErrorCode::kInternal, "libcurl refused an option: {}",
                     curl_easy_strerror(set.code()));
  }
  return handle;
}

Error ErrorFromCurl(CURLcode code, const EasyHandle& handle) {
  const std::string text = WhatCurlSays(code, handle);
  ErrorCode meaning = ErrorCode::kUnavailable;
  const char* hint = "";
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      meaning = ErrorCode::kTimeout;
      break;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      meaning = ErrorCode::kProtocol;
      hint = "the server's certificate was refused: ";
      break;
    // To those who asked for something of the server an invalid argument would be theirs.
    case CURLE_SSL_CERTPROBLEM:
      meaning = ErrorCode::kUnauthorized;
      hint =
          "the client certificate or key in the configuration cannot be used (a key with a "
          "passphrase is not supported): ";
      break;
    case CURLE_SSL_CACERT_BADFILE:
      meaning = ErrorCode::kUnauthorized;
      hint = "the CA in the configuration cannot be used: ";
      break;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_WRITE_ERROR:
      meaning = ErrorCode::kProtocol;
      break;
    case CURLE_OUT_OF_MEMORY:
      meaning = ErrorCode::kInternal;
      break;
    default:
      break;
  }
  return Error{meaning, fmt::format("{}: {}{}", handle.what, hint, text), {}, {}};
}

}  // namespace larder
