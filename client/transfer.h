// One request on its way: where the network thread puts the answer and the caller takes it.
//
// The network thread calls OnSend, OnHeader, OnBody and Finish; the caller's thread waits in
// WaitForHeaders and Take. Between them is a buffer with a limit. When it is full, a pausable
// transfer asks libcurl to pause (TCP then holds the server back), and Take says when it is time to
// go on; one that shares its connection with others must not pause, so there the limit is the most
// that the whole answer may have.
//
// Thread-safe. Invariants, under mutex_: 1. once finished_, nothing is added. 2. paused_ only while
// libcurl holds the transfer back, and whoever clears it posts a Resume to the loop. 3. status_ and
// headers_ do not change after headers_done_, so the caller reads them without the lock. may_send
// is called under mutex_, which comes before any lock that it takes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"

namespace larder {

// The libcurl handle and what it points to. Lives in easy_handle.h; only the network thread uses it
// once it was added.
struct EasyHandle;

class Transfer {
 public:
  struct Limits {
    size_t max_buffer_bytes = size_t{1} << 20;
    size_t max_header_bytes = size_t{256} << 10;
    bool pausable = true;
  };
  // Whether a request may go out, asked by OnSend.
  struct Sending {
    std::function<Result<void>()> may_send;  // null: yes
    // libcurl sends a request again where a connection that was used before breaks without an
    // answer. It may have been done then, and what is no read may not be done twice.
    bool again = true;
  };

  Transfer(Clock* clock, Limits limits, Sending sending);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // --- The network thread ---
  enum class Accepted { kYes, kPause, kAbort };
  // A header line with its line end. False: too much, abort.
  bool OnHeader(std::string_view line);
  Accepted OnBody(std::string_view bytes);
  // A connection is there, and the request would be sent on it now. `fits`: it has HTTP/2, where
  // that is needed. False: abort.
  bool OnSend(bool fits);
  // The end; without an error a clean one. Only the first call counts.
  void Finish(std::optional<Error> error);
  std::unique_ptr<EasyHandle> easy;

  // --- The caller's thread ---
  // Nobody waits any more. What is not sent yet never is, and nothing of the caller's is asked.
  void Abandon();
  // Until the headers of the final answer are there. kTimeout, kCancelled, or how the transfer
  // failed.
  Result<void> WaitForHeaders(const std::stop_token& stop, Clock::Steady deadline);
  // It failed because the connection did not fit, and may be sent in another way.
  bool no_http2() const;
  int status() const { return status_; }
  const std::map<std::string, std::string>& headers() const { return headers_; }
  struct Taken {
    bool end = false;     // the clean end: `into` is empty
    bool resume = false;  // the transfer was paused: post a Resume
  };
  // Replaces `into` by all that has arrived, waiting for the first byte of it.
  Result<Taken> Take(std::string& into, const std::stop_token& stop, Clock::Steady deadline);
  uint64_t wire_bytes() const;

 private:
  // Until there is something to take, or without `spare` until the headers are there. When nothing
  // comes for a while the memory of the buffer and of `spare` is given back.
  Result<void> WaitWhileIdle(std::string* spare, const std::stop_token& stop,
                             Clock::Steady deadline) LARDER_REQUIRES(mutex_);

  Clock* const clock_;
  const Limits limits_;
  const Sending sending_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  int status_ = 0;                              // invariant 3
  std::map<std::string, std::string> headers_;  // invariant 3
  size_t header_bytes_ LARDER_GUARDED_BY(mutex_) = 0;
  bool headers_done_ LARDER_GUARDED_BY(mutex_) = false;
  std::string buffer_ LARDER_GUARDED_BY(mutex_);
  uint64_t wire_bytes_ LARDER_GUARDED_BY(mutex_) = 0;
  bool paused_ LARDER_GUARDED_BY(mutex_) = false;
  bool no_http2_ LARDER_GUARDED_BY(mutex_) = false;
  bool sent_ LARDER_GUARDED_BY(mutex_) = false;
  bool abandoned_ LARDER_GUARDED_BY(mutex_) = false;
  bool finished_ LARDER_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ LARDER_GUARDED_BY(mutex_);
  // Why a callback aborted; what libcurl then reports would only say that it was aborted.
  std::optional<Error> abort_reason_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder
