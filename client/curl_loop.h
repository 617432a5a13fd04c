// A network thread: a libcurl multi handle with its connections, and the commands that other
// threads give it.
//
// Connections are either shared by requests at the same time (HTTP/2) or by none. Never both in one
// loop: libcurl before 8.5 asks the host, not the connection, whether it may carry several
// requests, and puts one of them on an HTTP/1.1 connection that is in use.
//
// Add, Resume and Cancel return at once and may be called from any thread, also after Shutdown
// (then Add finishes the transfer with kCancelled and the others do nothing). A transfer is held by
// the loop until it has ended, so its other owner may let go at any time. Nothing but the network
// thread touches a libcurl handle after Add.
#pragma once

#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "client/transfer.h"

namespace larder {

enum class Sharing;

class CurlLoop {
 public:
  static Result<std::shared_ptr<CurlLoop>> Start(Sharing sharing);
  ~CurlLoop();
  CurlLoop(const CurlLoop&) = delete;
  CurlLoop& operator=(const CurlLoop&) = delete;

  void Add(std::shared_ptr<Transfer> transfer) { Post(Command::kAdd, std::move(transfer)); }
  void Resume(std::shared_ptr<Transfer> transfer) { Post(Command::kResume, std::move(transfer)); }
  void Cancel(std::shared_ptr<Transfer> transfer) { Post(Command::kCancel, std::move(transfer)); }
  // Ends every transfer and the thread.
  void Shutdown();

 private:
  enum class Command { kAdd, kResume, kCancel };
  using Queue = std::vector<std::pair<Command, std::shared_ptr<Transfer>>>;
  struct Multi;

  explicit CurlLoop(std::unique_ptr<Multi> multi);
  void Post(Command command, std::shared_ptr<Transfer> transfer);
  void Run();
  void Execute(Command command, const std::shared_ptr<Transfer>& transfer);
  void CollectFinished();
  void Remove(Transfer* transfer, std::optional<Error> error);

  std::unique_ptr<Multi> multi_;
  std::unordered_map<Transfer*, std::shared_ptr<Transfer>> running_;  // the network thread's

  Mutex mutex_;
  Queue queue_ LARDER_GUARDED_BY(mutex_);
  bool shut_down_ LARDER_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace larder
