// HTTP to an API server over libcurl: one thread drives all streams of a process, another one the
// connection that small requests share.
//
// Do() is for answers that fit in memory (bounded by Request::max_response_bytes). Open() is for
// lists and watches: the body is read piece by piece, and a reader that does not read pauses the
// transfer, so TCP holds the server back and memory stays bounded. TLS 1.2 at least, peer and host
// verified, no redirects followed, credentials added by the transport and never logged.
//
// Thread-safe: any thread may call; the calls block the caller only and end within a second when
// `stop` is requested.
//
//   auto transport = MakeTransport(config);
//   auto stream = (*transport)->Open({.path = "/api/v1/pods", .query = {{"watch", "true"}}}, stop);
//   for (;;) {
//     Result<std::string_view> piece = (*stream)->Read(stop, deadline);
//     if (!piece || piece->empty()) break;   // error, or the clean end
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "client/config.h"

namespace larder {

struct Request {
  std::string method = "GET";
  std::string path;                                        // "/api/v1/pods", names escaped
  std::vector<std::pair<std::string, std::string>> query;  // not yet escaped
  std::vector<std::pair<std::string, std::string>> headers;
  std::string accept = "application/json";
  std::string content_type;  // for a body
  std::string body;
  // Ask for gzip. It is unpacked on the reader's thread; several members in one body, as a server
  // makes them when it flushes a watch, are fine.
  bool accept_gzip = true;
  std::chrono::milliseconds timeout{30'000};  // Do(): for the whole; Open(): until the headers
  size_t max_response_bytes = size_t{64} << 20;
  // Asked at the last moment, when there is a connection to send it on, and again where it is sent
  // once more: an error, and it is not. It is asked under a lock and on the thread that drives all
  // requests, so it must neither wait nor send any; never after the call has ended.
  std::function<Result<void>()> may_send{};
};

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  uint64_t wire_bytes = 0;  // as received, before decompression
};

// One answer being read. Not thread-safe: one reader. Destroying it ends the transfer.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  virtual int status() const = 0;
  virtual const std::map<std::string, std::string>& headers() const = 0;
  // The next piece, valid until the next call; empty at the clean end. kTimeout when nothing
  // arrived by the deadline (the stream stays usable), kUnavailable when the connection broke,
  // kCancelled on stop.
  virtual Result<std::string_view> Read(const std::stop_token& stop, Clock::Steady deadline) = 0;
  virtual uint64_t wire_bytes() const = 0;
};

// Turns an answer with a status >= 400 into the Error it means: code by status and by the reason in
// the Kubernetes Status body, retry_after from Retry-After (capped at 10 minutes), message from the
// Status, status_json kept. Some servers and proxies say what they were sent: in both *** stands
// for each of `secrets`.
Error ErrorFromResponse(int status, const std::map<std::string, std::string>& headers,
                        std::string_view body, const std::vector<std::string>& secrets = {});

// Did an API server say that it has no object of this name? A 404 alone may come from a proxy, or
// from a server that does not know the resource.
bool SaysNotFound(const Error& error, std::string_view name);

// The seam for tests: the reflector and the clients see only this.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  // An answer with status >= 400 is an Error (ErrorFromResponse).
  virtual Result<Response> Do(const Request& request, const std::stop_token& stop) = 0;
  // Returns when the headers are there. A status >= 400 is read to its end and becomes an Error.
  virtual Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                                   const std::stop_token& stop) = 0;
};

// The real one. Do() shares a connection where the server has HTTP/2, and a new one once a request
// of three seconds or more got no answer on it, or two shorter ones in a row; each Open() has a
// connection to itself, HTTP/1.1, so that a paused stream holds nobody else back
// (docs/decisions/007-connections.md). At most config.qps requests a second; after a 401 a rotated
// or plugin-made credential is renewed and the request sent once more. What is no GET is never sent
// a second time by itself, where the connection broke before an answer came: kUnavailable, and it
// may have been done. Deadlines are on `clock`.
Result<std::unique_ptr<HttpTransport>> MakeTransport(const ClientConfig& config,
                                                     Clock* clock = RealClock());

}  // namespace larder
