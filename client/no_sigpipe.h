// For as long as it lives, a write of this thread to a connection that the other side has closed is
// an error, and not a signal that ends the process.
//
// OpenSSL's writes raise SIGPIPE, and libcurl with CURLOPT_NOSIGNAL leaves that to its user. What
// the program does with the signal elsewhere is its own affair and stays as it is.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigtimedwait is POSIX's

#include <ctime>

namespace larder {

class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    // Ours must not arrive once it may again.
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace larder
