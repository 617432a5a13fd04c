#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "tests/storage/child.h"

extern char** environ;

namespace larder::testing {

Child::Child(const std::string& mode, const std::string& path, const std::string& more) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) std::abort();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  std::string program = LARDER_STORAGE_CHILD, mode_argument = mode, path_argument = path;
  std::string last_argument = more;
  char* arguments[] = {program.data(), mode_argument.data(), path_argument.data(),
                       more.empty() ? nullptr : last_argument.data(), nullptr};
  if (::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ) != 0) {
    std::abort();
  }
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(to[0]);
  ::close(from[1]);
  input_ = to[1];
  output_ = from[0];
}

Child::~Child() {
  if (pid_ != 0) {
    Kill();
    Wait();
  }
  ::close(output_);
}

std::string Child::ReadLine() {
  for (;;) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    char bytes[4096];
    const ssize_t size = ::read(output_, bytes, sizeof bytes);
    if (size <= 0) return {};
    buffer_.append(bytes, static_cast<size_t>(size));
  }
}

void Child::Kill() { ::kill(pid_, SIGKILL); }

int Child::Wait() {
  ::close(input_);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace larder::testing
