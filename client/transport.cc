#include "client/transport.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/mutex.h"
#include "base/text.h"
#include "client/credential_source.h"
#include "client/curl_loop.h"
#include "client/easy_handle.h"
#include "client/inflater.h"
#include "client/qps_limiter.h"
#include "client/server_url.h"
#include "client/transfer.h"

namespace larder {
namespace {

constexpr size_t kInflatedPieceBytes = size_t{256} << 10;
constexpr size_t kMaxErrorBodyBytes = size_t{1} << 20;
constexpr size_t kMaxPathInLog = 300;
constexpr std::chrono::hours kLongest{24 * 365};
// A shorter time-out says more about the request than about the connection; two in a row do not.
constexpr std::chrono::seconds kTellingTimeout{3};
constexpr int kTellingTimeouts = 2;

// Ends the transfer when its owner goes.
class RunningTransfer {
 public:
  RunningTransfer(std::shared_ptr<CurlLoop> loop, std::shared_ptr<Transfer> transfer)
      : loop_(std::move(loop)), transfer_(std::move(transfer)) {
    loop_->Add(transfer_);
  }
  ~RunningTransfer() {
    transfer_->Abandon();
    loop_->Cancel(transfer_);
  }
  RunningTransfer(const RunningTransfer&) = delete;
  RunningTransfer& operator=(const RunningTransfer&) = delete;

  Transfer* operator->() const { return transfer_.get(); }
  // As Transfer::Take; true at the clean end.
  Result<bool> Take(std::string& into, const std::stop_token& stop, Clock::Steady deadline) {
    LARDER_ASSIGN_OR_RETURN(const Transfer::Taken taken, transfer_->Take(into, stop, deadline));
    if (taken.resume) loop_->Resume(transfer_);
    return taken.end;
  }

 private:
  const std::shared_ptr<CurlLoop> loop_;
  const std::shared_ptr<Transfer> transfer_;
};

// The body of an answer, unpacked where it is packed.
class CurlBodyStream final : public BodyStream {
 public:
  explicit CurlBodyStream(std::unique_ptr<RunningTransfer> transfer)
      : transfer_(std::move(transfer)) {}

  // Looks at the headers, which must be there.
  Result<void> Start() {
    const auto found = headers().find("content-encoding");
    if (found == headers().end() || found->second == "identity") return {};
    if (found->second != "gzip") {
      return MakeError(ErrorCode::kProtocol, "the answer's encoding '{}' was not asked for",
                       Excerpt(found->second));
    }
    inflater_ = std::make_unique<Inflater>();
    return {};
  }

  int status() const override { return (*transfer_)->status(); }
  const std::map<std::string, std::string>& headers() const override {
    return (*transfer_)->headers();
  }
  uint64_t wire_bytes() const override { return (*transfer_)->wire_bytes(); }

  Result<std::string_view> Read(const std::stop_token& stop, Clock::Steady deadline) override {
    if (inflater_ == nullptr) {
      LARDER_RETURN_IF_ERROR(transfer_->Take(received_, stop, deadline));
      return received_;
    }
    for (;;) {
      if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped by the caller");
      LARDER_ASSIGN_OR_RETURN(const size_t produced,
                              inflater_->Produce(inflated_, kInflatedPieceBytes));
      if (produced > 0) return inflated_;
      LARDER_ASSIGN_OR_RETURN(const bool end, transfer_->Take(received_, stop, deadline));
      if (end && !inflater_->AtMemberEnd()) {
        return MakeError(ErrorCode::kUnavailable, "the answer ended in the middle of its gzip");
      }
      if (end) return std::string_view();
      inflater_->Feed(received_);
    }
  }

 private:
  const std::unique_ptr<RunningTransfer> transfer_;
  std::unique_ptr<Inflater> inflater_;
  std::string received_;
  std::string inflated_;
};

// Reads to the end. More than `max_bytes` is an error, or where `cut` is set left out.
Result<std::string> ReadAll(BodyStream& stream, size_t max_bytes, bool cut,
                            const std::stop_token& stop, Clock::Steady deadline) {
  std::string body;
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const std::string_view piece, stream.Read(stop, deadline));
    if (piece.empty()) return body;
    if (body.size() + piece.size() > max_bytes) {
      if (cut) return body;
      return MakeError(ErrorCode::kProtocol,
                       "the answer is larger than the {} bytes that the request allows", max_bytes);
    }
    body += piece;
  }
}

// Where requests run. Watches and lists each have an HTTP/1.1 connection to themselves, because
// they may be paused; all others share an HTTP/2 connection, which is of another loop. Without
// HTTP/2 there is nothing to share, and one loop is enough.
//
// Thread-safe.
class Loops {
 public:
  static Result<std::unique_ptr<Loops>> Start(bool may_have_http2) {
    LARDER_ASSIGN_OR_RETURN(std::shared_ptr<CurlLoop> own, CurlLoop::Start(Sharing::kNone));
    std::shared_ptr<CurlLoop> shared = own;
    if (may_have_http2) {
      LARDER_ASSIGN_OR_RETURN(shared, CurlLoop::Start(Sharing::kMultiplexed));
    }
    return std::unique_ptr<Loops>(new Loops(std::move(own), std::move(shared)));
  }
  ~Loops() {
    own_->Shutdown();
    Shared()->Shutdown();
  }

  const std::shared_ptr<CurlLoop>& own() const { return own_; }
  std::shared_ptr<CurlLoop> Shared() const {
    MutexLock lock(mutex_);
    return shared_;
  }
  Sharing SharingOf(const CurlLoop& loop) const {
    return &loop == own_.get() ? Sharing::kNone : Sharing::kMultiplexed;
  }

  // A request on `loop` was answered.
  void Answered(const CurlLoop& loop) {
    MutexLock lock(mutex_);
    if (shared_.get() == &loop) unanswered_ = 0;
  }

  // A request on `loop` was not, within `timeout`. An HTTP/2 connection outlives the requests that
  // time out on it, also when the server behind is stuck and only its kernel still answers. So new
  // requests go to a new one; those that run end where they are, and the last of them takes the old
  // loop along.
  void Unanswered(const CurlLoop& loop, std::chrono::milliseconds timeout) {
    if (SharingOf(loop) == Sharing::kNone) return;  // the connection ended with the request
    {
      MutexLock lock(mutex_);
      if (shared_.get() != &loop) return;
      if (++unanswered_ < kTellingTimeouts && timeout < kTellingTimeout) return;
    }
    Result<std::shared_ptr<CurlLoop>> fresh = CurlLoop::Start(Sharing::kMultiplexed);
    if (!fresh) {
      spdlog::warn("no new connection in place of one that is stuck: {}", fresh.error().message);
      return;
    }
    Replace(loop, *std::move(fresh));
  }

  // Some connections to the server are HTTP/1.1. From now on all are: in one loop with those of
  // HTTP/2 libcurl would send several requests at once on them, too, and mix up their answers.
  void OnlyHttp1(const CurlLoop& loop) { Replace(loop, own_); }

 private:
  Loops(std::shared_ptr<CurlLoop> own, std::shared_ptr<CurlLoop> shared)
      : own_(std::move(own)), shared_(std::move(shared)) {}

  // Only the first of those who give up the same loop replaces it.
  void Replace(const CurlLoop& loop, std::shared_ptr<CurlLoop> by) {
    MutexLock lock(mutex_);
    if (shared_.get() != &loop) return;
    shared_.swap(by);
    unanswered_ = 0;
  }

  const std::shared_ptr<CurlLoop> own_;
  mutable Mutex mutex_;
  std::shared_ptr<CurlLoop> shared_ LARDER_GUARDED_BY(mutex_);
  int unanswered_ LARDER_GUARDED_BY(mutex_) = 0;  // requests on it in a row
};

enum class Channel { kShared, kOwn };

class CurlTransport final : public HttpTransport {
 public:
  CurlTransport(ClientConfig config, ServerUrl url, std::unique_ptr<Loops> loops, Clock* clock)
      : config_(std::move(config)),
        url_(std::move(url)),
        loops_(std::move(loops)),
        clock_(clock),
        credentials_(config_, clock),
        limiter_(config_.qps, config_.burst, clock) {}

  Result<Response> Do(const Request& request, const std::stop_token& stop) override {
    Sent sent;
    Result<Response> response = DoShared(request, stop, sent);
    // One that was stopped, was not sent, or broke says nothing about the connection.
    if (response || sent.answered) {
      loops_->Answered(*sent.loop);
    } else if (sent.loop != nullptr && response.error().code == ErrorCode::kTimeout) {
      loops_->Unanswered(*sent.loop, request.timeout);
    }
    return response;
  }

  Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                           const std::stop_token& stop) override {
    Sent sent;
    return Start(request, Channel::kOwn, stop, sent);
  }

 private:
  struct Sent {
    // The time that the request may take begins when it is its turn; this is its end.
    Clock::Steady deadline;
    std::shared_ptr<CurlLoop> loop;  // null: it was not sent
    bool answered = false;           // with an error that was read to its end
    std::string what;                // for messages
  };

  Result<Response> DoShared(const Request& request, const std::stop_token& stop, Sent& sent) {
    LARDER_ASSIGN_OR_RETURN(auto stream, Start(request, Channel::kShared, stop, sent));
    LARDER_ASSIGN_OR_RETURN(std::string body, ReadAll(*stream, request.max_response_bytes,
                                                      /*cut=*/false, stop, sent.deadline));
    return Response{stream->status(), stream->headers(), std::move(body), stream->wire_bytes()};
  }

  // Sends the request, once more with a new credential after a 401, and returns when it succeeded.
  Result<std::unique_ptr<BodyStream>> Start(const Request& request, Channel channel,
                                            const std::stop_token& stop, Sent& sent) {
    if (!limiter_.Wait(stop)) return MakeError(ErrorCode::kCancelled, "stopped by the caller");
    for (int attempt = 0;; ++attempt) {
      LARDER_ASSIGN_OR_RETURN(const auto credential, credentials_.Get(stop));
      sent.deadline =
          clock_->Now() + std::min<std::chrono::milliseconds>(request.timeout, kLongest);
      auto stream = Send(request, *credential, channel, stop, sent);
      const bool refused = !stream && stream.error().code == ErrorCode::kUnauthorized;
      if (!refused || attempt > 0 || !credentials_.Drop(*credential)) return stream;
    }
  }

  Result<std::unique_ptr<BodyStream>> Send(const Request& request, const Credential& credential,
                                           Channel channel, const std::stop_token& stop,
                                           Sent& sent) {
    const Clock::Steady begun = clock_->Now();
    auto stream = SendUnlogged(request, credential, channel, stop, sent);
    // Never headers or the query's values: only what cannot hold a secret.
    if (spdlog::should_log(spdlog::level::debug)) {
      const auto took =
          std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now() - begun);
      spdlog::debug(
          "{} {} {} in {} ms", request.method, request.path.substr(0, kMaxPathInLog),
          stream ? std::to_string((*stream)->status()) : std::string(ToString(stream.error().code)),
          took.count());
    }
    return stream;
  }

  Result<std::unique_ptr<BodyStream>> SendUnlogged(const Request& request,
                                                   const Credential& credential, Channel channel,
                                                   const std::stop_token& stop, Sent& sent) {
    LARDER_ASSIGN_OR_RETURN(std::unique_ptr<RunningTransfer> running,
                            Answered(request, credential, channel, stop, sent));
    auto stream = std::make_unique<CurlBodyStream>(std::move(running));
    LARDER_RETURN_IF_ERROR(stream->Start());
    const int status = stream->status();
    if (status < 300) return std::unique_ptr<BodyStream>(std::move(stream));
    if (status < 400) {
      return MakeError(ErrorCode::kProtocol,
                       "{}: the server answered with a redirect (HTTP {}), which is not followed",
                       sent.what, status);
    }
    // A body that breaks off still leaves the status to tell.
    Result<std::string> body =
        ReadAll(*stream, kMaxErrorBodyBytes, /*cut=*/true, stop, sent.deadline);
    if (!body && body.error().code == ErrorCode::kCancelled) {
      return tl::unexpected(std::move(body).error());
    }
    sent.answered = body.has_value();
    return tl::unexpected(
        ErrorFromResponse(status, stream->headers(), body ? *body : "", credential.Secrets()));
  }

  // Sends it and waits for the headers of the answer.
  Result<std::unique_ptr<RunningTransfer>> Answered(const Request& request,
                                                    const Credential& credential, Channel channel,
                                                    const std::stop_token& stop, Sent& sent) {
    Transfer::Limits limits;
    limits.pausable = channel == Channel::kOwn;
    limits.max_buffer_bytes =
        limits.pausable ? config_.stream_buffer_bytes : request.max_response_bytes;
    for (;;) {
      sent.loop = channel == Channel::kOwn ? loops_->own() : loops_->Shared();
      sent.answered = false;
      auto transfer = std::make_shared<Transfer>(
          clock_, limits, Transfer::Sending{request.may_send, request.method == "GET"});
      LARDER_ASSIGN_OR_RETURN(transfer->easy,
                              MakeEasyHandle(config_, url_, request, credential,
                                             loops_->SharingOf(*sent.loop), transfer.get()));
      sent.what = transfer->easy->what;
      auto running = std::make_unique<RunningTransfer>(sent.loop, std::move(transfer));
      auto arrived = (*running)->WaitForHeaders(stop, sent.deadline);
      if (arrived) return running;
      Error error = std::move(arrived).error();
      if (error.code == ErrorCode::kTimeout) error.message = sent.what + ": " + error.message;
      if (!(*running)->no_http2()) return tl::unexpected(std::move(error));
      loops_->OnlyHttp1(*sent.loop);  // and so it is not asked twice
    }
  }

  const ClientConfig config_;
  const ServerUrl url_;
  const std::unique_ptr<Loops> loops_;
  Clock* const clock_;
  CredentialSource credentials_;
  QpsLimiter limiter_;
};

}  // namespace

Result<std::unique_ptr<HttpTransport>> MakeTransport(const ClientConfig& config, Clock* clock) {
  LARDER_RETURN_IF_ERROR(ValidateConfig(config));
  LARDER_ASSIGN_OR_RETURN(ServerUrl url, ParseServerUrl(config.server));
  if (config.insecure_skip_tls_verify) {
    spdlog::warn("insecure-skip-tls-verify: the identity of {} is not checked", url.Authority());
  }
  ClientConfig complete = config;
  if (complete.user_agent.empty()) complete.user_agent = DefaultUserAgent();
  LARDER_ASSIGN_OR_RETURN(auto loops, Loops::Start(/*may_have_http2=*/url.scheme == "https"));
  return std::make_unique<CurlTransport>(std::move(complete), std::move(url), std::move(loops),
                                         clock);
}

}  // namespace larder
