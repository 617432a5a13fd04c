#include "client/transfer.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "client/easy_handle.h"

namespace larder {
namespace {

using std::chrono::seconds;

// A buffer that grew in a burst is given back when nothing has come for so long.
constexpr seconds kShrinkAfter{1};
constexpr size_t kSmallBufferBytes = size_t{64} << 10;

// "HTTP/1.1 200 OK", "HTTP/2 200".
int ParseStatusLine(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return 0;
  int status = 0;
  std::from_chars(line.data() + space + 1, line.data() + line.size(), status);
  return status;
}

}  // namespace

Transfer::Transfer(Clock* clock, Limits limits, Sending sending)
    : clock_(clock), limits_(limits), sending_(std::move(sending)) {}
Transfer::~Transfer() = default;

bool Transfer::OnHeader(std::string_view line) {
  MutexLock lock(mutex_);
  header_bytes_ += line.size();
  if (header_bytes_ > limits_.max_header_bytes) {
    abort_reason_ = Error{
        ErrorCode::kProtocol,
        fmt::format("the answer's headers are larger than {} bytes", limits_.max_header_bytes),
        {},
        {}};
    return false;
  }
  if (headers_done_) return true;  // trailers
  if (line.starts_with("HTTP/")) {
    // Also the second one, after a 1xx.
    status_ = ParseStatusLine(line);
    headers_.clear();
    return true;
  }
  const std::string_view trimmed = Trimmed(line);
  if (trimmed.empty()) {
    if (status_ >= 200) {
      headers_done_ = true;
      changed_.notify_all();
    }
    return true;
  }
  const size_t colon = trimmed.find(':');
  if (colon == std::string_view::npos) return true;
  headers_[LowerAscii(trimmed.substr(0, colon))] = std::string(Trimmed(trimmed.substr(colon + 1)));
  return true;
}

Transfer::Accepted Transfer::OnBody(std::string_view bytes) {
  MutexLock lock(mutex_);
  if (limits_.pausable) {
    // A single piece is at most libcurl's receive buffer, so an empty buffer always takes one.
    if (!buffer_.empty() && buffer_.size() + bytes.size() > limits_.max_buffer_bytes) {
      paused_ = true;
      return Accepted::kPause;
    }
  } else if (wire_bytes_ + bytes.size() > limits_.max_buffer_bytes) {
    abort_reason_ =
        Error{ErrorCode::kProtocol,
              fmt::format("the answer is larger than the {} bytes that the request allows",
                          limits_.max_buffer_bytes),
              {},
              {}};
    return Accepted::kAbort;
  }
  buffer_.append(bytes);
  wire_bytes_ += bytes.size();
  changed_.notify_all();
  return Accepted::kYes;
}

bool Transfer::OnSend(bool fits) {
  MutexLock lock(mutex_);
  if (abandoned_) return false;
  if (sent_ && !sending_.again) {
    abort_reason_ = Error{ErrorCode::kUnavailable,
                          fmt::format("{}: the connection broke before an answer came; it may have "
                                      "been done",
                                      easy->what),
                          {},
                          {}};
    return false;
  }
  if (!fits) {
    no_http2_ = true;
    abort_reason_ = Error{ErrorCode::kUnavailable, "the server has no HTTP/2", {}, {}};
    return false;
  }
  // Under the lock, so that Abandon waits for it.
  const Result<void> allowed = sending_.may_send ? sending_.may_send() : Result<void>();
  if (!allowed) abort_reason_ = allowed.error();
  sent_ = allowed.has_value();
  return sent_;
}

void Transfer::Abandon() {
  MutexLock lock(mutex_);
  abandoned_ = true;
}

bool Transfer::no_http2() const {
  MutexLock lock(mutex_);
  return no_http2_;
}

void Transfer::Finish(std::optional<Error> error) {
  MutexLock lock(mutex_);
  if (finished_) return;
  finished_ = true;
  error_ = abort_reason_ ? std::move(abort_reason_) : std::move(error);
  changed_.notify_all();
}

Result<void> Transfer::WaitWhileIdle(std::string* spare, const std::stop_token& stop,
                                     Clock::Steady deadline) {
  const bool for_body = spare != nullptr;
  const Clock::Steady shrink_at = clock_->Now() + kShrinkAfter;
  for (;;) {
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped by the caller");
    if (finished_ || (for_body ? !buffer_.empty() : headers_done_)) return {};
    const Clock::Steady now = clock_->Now();
    if (now >= deadline) return MakeError(ErrorCode::kTimeout, "no answer arrived in time");
    Clock::Steady until = deadline;
    if (for_body && std::max(buffer_.capacity(), spare->capacity()) > kSmallBufferBytes) {
      if (now >= shrink_at) {
        std::string().swap(buffer_);
        std::string().swap(*spare);
      } else {
        until = std::min(deadline, shrink_at);
      }
    }
    clock_->WaitUntil(mutex_, changed_, until, stop);
  }
}

Result<void> Transfer::WaitForHeaders(const std::stop_token& stop, Clock::Steady deadline) {
  MutexLock lock(mutex_);
  LARDER_RETURN_IF_ERROR(WaitWhileIdle(nullptr, stop, deadline));
  if (headers_done_) return {};
  if (error_) return tl::unexpected(*error_);
  return MakeError(ErrorCode::kUnavailable, "the connection ended before an answer came");
}

Result<Transfer::Taken> Transfer::Take(std::string& into, const std::stop_token& stop,
                                       Clock::Steady deadline) {
  into.clear();
  MutexLock lock(mutex_);
  LARDER_RETURN_IF_ERROR(WaitWhileIdle(&into, stop, deadline));
  Taken taken;
  if (!buffer_.empty()) {
    into.swap(buffer_);
    taken.resume = std::exchange(paused_, false);
    return taken;
  }
  if (error_) return tl::unexpected(*error_);
  taken.end = true;
  return taken;
}

uint64_t Transfer::wire_bytes() const {
  MutexLock lock(mutex_);
  return wire_bytes_;
}

}  // namespace larder
