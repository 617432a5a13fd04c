#include "client/curl_loop.h"

#include <curl/curl.h>
#include <spdlog/spdlog.h>

#include "base/thread_name.h"
#include "client/easy_handle.h"
#include "client/no_sigpipe.h"

namespace larder {
namespace {

constexpr long kMaxIdleConnections = 64;
constexpr int kPollMs = 60'000;  // libcurl's own timers and wake-ups end a poll earlier

}  // namespace

struct CurlLoop::Multi {
  CURLM* handle = nullptr;
  ~Multi() {
    const NoSigpipe no_sigpipe;  // connections are told that they end
    if (handle != nullptr) curl_multi_cleanup(handle);
  }
};

Result<std::shared_ptr<CurlLoop>> CurlLoop::Start(Sharing sharing) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (global != CURLE_OK) {
    return MakeError(ErrorCode::kInternal, "libcurl did not start: {}", curl_easy_strerror(global));
  }
  auto multi = std::make_unique<Multi>();
  multi->handle = curl_multi_init();
  if (multi->handle == nullptr) {
    return MakeError(ErrorCode::kInternal, "libcurl did not start: out of memory");
  }
  curl_multi_setopt(multi->handle, CURLMOPT_PIPELINING,
                    sharing == Sharing::kMultiplexed ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING);
  curl_multi_setopt(multi->handle, CURLMOPT_MAXCONNECTS, kMaxIdleConnections);
  return std::shared_ptr<CurlLoop>(new CurlLoop(std::move(multi)));
}

CurlLoop::CurlLoop(std::unique_ptr<Multi> multi) : multi_(std::move(multi)) {
  thread_ = std::jthread([this] { Run(); });
}

CurlLoop::~CurlLoop() { Shutdown(); }

void CurlLoop::Shutdown() {
  {
    MutexLock lock(mutex_);
    shut_down_ = true;
  }
  curl_multi_wakeup(multi_->handle);
  if (thread_.joinable()) thread_.join();
}

void CurlLoop::Post(Command command, std::shared_ptr<Transfer> transfer) {
  {
    MutexLock lock(mutex_);
    if (!shut_down_) {
      queue_.emplace_back(command, std::move(transfer));
      transfer = nullptr;
    }
  }
  if (transfer == nullptr) {
    curl_multi_wakeup(multi_->handle);
  } else if (command == Command::kAdd) {
    transfer->Finish(Error{ErrorCode::kCancelled, "the transport was closed", {}, {}});
  }
}

void CurlLoop::Run() {
  NameThread("larder-net");
  const NoSigpipe no_sigpipe;
  for (;;) {
    Queue commands;
    bool shut_down = false;
    {
      MutexLock lock(mutex_);
      commands.swap(queue_);
      shut_down = shut_down_;
    }
    for (const auto& [command, transfer] : commands) Execute(command, transfer);
    if (shut_down) break;

    int still_running = 0;
    const CURLMcode code = curl_multi_perform(multi_->handle, &still_running);
    if (code != CURLM_OK) spdlog::error("libcurl: {}", curl_multi_strerror(code));
    CollectFinished();
    curl_multi_poll(multi_->handle, nullptr, 0, kPollMs, nullptr);
  }
  while (!running_.empty()) {
    Remove(running_.begin()->first,
           Error{ErrorCode::kCancelled, "the transport was closed", {}, {}});
  }
}

void CurlLoop::Execute(Command command, const std::shared_ptr<Transfer>& transfer) {
  switch (command) {
    case Command::kAdd: {
      const CURLMcode code = curl_multi_add_handle(multi_->handle, transfer->easy->curl.get());
      if (code == CURLM_OK) {
        running_.emplace(transfer.get(), transfer);
      } else {
        transfer->Finish(Error{ErrorCode::kInternal, curl_multi_strerror(code), {}, {}});
      }
      return;
    }
    case Command::kResume:
      if (running_.count(transfer.get()) != 0) {
        curl_easy_pause(transfer->easy->curl.get(), CURLPAUSE_CONT);
      }
      return;
    case Command::kCancel:
      if (running_.count(transfer.get()) != 0) {
        Remove(transfer.get(), Error{ErrorCode::kCancelled, "the request was given up", {}, {}});
      }
      return;
  }
}

void CurlLoop::CollectFinished() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_->handle, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    char* owner = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner);
    auto* transfer = reinterpret_cast<Transfer*>(owner);
    std::optional<Error> error;
    if (code != CURLE_OK) error = ErrorFromCurl(code, *transfer->easy);
    Remove(transfer, std::move(error));
  }
}

void CurlLoop::Remove(Transfer* transfer, std::optional<Error> error) {
  const auto found = running_.find(transfer);
  const std::shared_ptr<Transfer> keep = found->second;
  running_.erase(found);
  curl_multi_remove_handle(multi_->handle, keep->easy->curl.get());
  keep->easy.reset();
  keep->Finish(std::move(error));
}

}  // namespace larder
