#include "tests/tools/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace larder {

ScratchDirectory::ScratchDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "larder-tools-XXXXXX").string();
  EXPECT_NE(::mkdtemp(path_.data()), nullptr);
}

ScratchDirectory::~ScratchDirectory() { std::filesystem::remove_all(path_); }

Outcome RunLarder(const std::vector<std::string>& arguments, const RunOptions& options) {
  using Clock = std::chrono::steady_clock;
  int out[2], err[2];
  EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
  std::vector<std::string> words = {LARDER_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::execv(LARDER_COMMAND, argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  Outcome outcome;
  const auto begin = Clock::now();
  Clock::time_point signalled;
  bool sent = false;
  pollfd ends[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  int open = 2;
  while (open > 0) {
    if (options.signal != 0 && !sent && Clock::now() - begin >= options.signal_after) {
      ::kill(pid, options.signal);
      signalled = Clock::now();
      sent = true;
    }
    ::poll(ends, 2, 20);
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || (ends[i].revents & (POLLIN | POLLHUP)) == 0) continue;
      char chunk[4096];
      const ssize_t size = ::read(ends[i].fd, chunk, sizeof chunk);
      if (size > 0) {
        (i == 0 ? outcome.out : outcome.err).append(chunk, static_cast<size_t>(size));
      } else {
        ::close(ends[i].fd);
        ends[i].fd = -1;
        --open;
      }
    }
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (sent) {
    outcome.after_signal =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - signalled);
  }
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace larder
