#include "tools/demo/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

namespace larder::tools {

Result<std::unique_ptr<Child>> Child::Start(const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return MakeError(ErrorCode::kIo, "cannot make a pipe: {}", std::strerror(errno));
  }
  std::vector<std::string> words = {"larder"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return MakeError(ErrorCode::kIo, "cannot start a process: {}", std::strerror(errno));
  }
  if (pid == 0) {
    // Only calls that are safe between fork and exec. Ends with the demo, however that ends; and a
    // Ctrl-C on the terminal reaches the demo alone, which then ends its children.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  return std::unique_ptr<Child>(new Child(pid, ends[0]));
}

Child::~Child() {
  Kill();
  ::close(output_);
}

Result<std::string> Child::ReadLine(std::chrono::milliseconds timeout,
                                    const std::stop_token& stop) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "interrupted");
    if (std::chrono::steady_clock::now() >= deadline) {
      return MakeError(ErrorCode::kTimeout, "process {} says nothing", pid_);
    }
    pollfd ready{output_, POLLIN, 0};
    if (::poll(&ready, 1, 50) <= 0) continue;
    char chunk[4096];
    const ssize_t size = ::read(output_, chunk, sizeof chunk);
    if (size <= 0) return MakeError(ErrorCode::kUnavailable, "process {} ended", pid_);
    buffer_.append(chunk, static_cast<size_t>(size));
  }
}

void Child::Kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

Result<void> Child::Terminate(std::chrono::milliseconds timeout) {
  if (pid_ <= 0) return {};
  ::kill(pid_, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < deadline) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const pid_t late = pid_;
  Kill();
  return MakeError(ErrorCode::kTimeout, "process {} did not end within {} ms", late,
                   timeout.count());
}

}  // namespace larder::tools
