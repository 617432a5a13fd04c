// libcurl's options for one request: everything about TLS, proxies, headers and limits is set here.
//
// Private to client/: the only header, with curl_loop.cc, that knows libcurl.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "client/config.h"
#include "client/credential_source.h"
#include "client/server_url.h"
#include "client/transfer.h"
#include "client/transport.h"

namespace larder {

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// What libcurl refers to while the transfer runs. Not movable: libcurl holds pointers into it.
struct EasyHandle {
  EasyHandle() = default;
  EasyHandle(const EasyHandle&) = delete;
  EasyHandle& operator=(const EasyHandle&) = delete;

  std::string body;
  std::string what;  // "GET https://host/path" for messages; no query, no headers
  char error_text[CURL_ERROR_SIZE] = {};
  std::unique_ptr<curl_slist, CurlDeleter> headers;
  std::unique_ptr<curl_slist, CurlDeleter> connect_to;
  // Last, so that it is the first to go: libcurl may look at the others until then.
  std::unique_ptr<CURL, CurlDeleter> curl;
};

// How a request uses connections; all of a CurlLoop alike.
enum class Sharing {
  // HTTP/2, many requests on one connection. Never paused: libcurl 7.88 stops reading the whole
  // connection when one stream is paused and more arrives for it. A connection that turns out to be
  // HTTP/1.1 is given up before anything is sent (Transfer::no_http2).
  kMultiplexed,
  // HTTP/1.1, one request at a time.
  kNone,
};

Result<std::unique_ptr<EasyHandle>> MakeEasyHandle(const ClientConfig& config, const ServerUrl& url,
                                                   const Request& request,
                                                   const Credential& credential, Sharing sharing,
                                                   Transfer* transfer);

// What a failed transfer means to the caller.
Error ErrorFromCurl(CURLcode code, const EasyHandle& handle);

}  // namespace larder
