#include "tests/tools/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace larder {

ScratchDirectory::ScratchDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "larder-tools-XXXXXX").string();
  EXPECT_NE(::mkdtemp(path_.data()), nullptr);
}

ScratchDirectory::~ScratchDirectory() { std::filesystem::remove_all(path_); }

namespace {

pid_t Spawn(const std::vector<std::string>& arguments, const RunOptions& options, int in, int out,
            int err) {
  const std::string program = options.program.empty() ? LARDER_COMMAND : options.program;
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> environment = options.environment;
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (std::string& variable : environment) ::putenv(variable.data());
  if (in >= 0) ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execvp(program.c_str(), argv.data());
  ::_exit(127);
}

}  // namespace

Outcome RunLarder(const std::vector<std::string>& arguments, const RunOptions& options) {
  using Clock = std::chrono::steady_clock;
  int out[2], err[2], in[2] = {-1, -1};
  EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
  if (!options.input.empty()) {
    EXPECT_EQ(::pipe2(in, O_CLOEXEC), 0);
  }
  const pid_t pid = Spawn(arguments, options, in[0], out[1], err[1]);
  ::close(out[1]);
  ::close(err[1]);
  if (in[0] >= 0) {
    ::close(in[0]);
    EXPECT_GE(::write(in[1], options.input.data(), options.input.size()), 0);
    ::close(in[1]);
  }
  Outcome outcome;
  const auto begin = Clock::now();
  Clock::time_point signalled;
  bool sent = false;
  pollfd ends[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  int open = 2;
  const auto due = [&] {
    if (options.signal == 0 || sent) return false;
    if (!options.stop_when) return Clock::now() - begin >= options.signal_after;
    return options.stop_when(outcome.out) || Clock::now() - begin > std::chrono::seconds(30);
  };
  const auto close_end = [&](int i) {
    ::close(ends[i].fd);
    ends[i].fd = -1;
    --open;
  };
  while (open > 0) {
    if (due()) {
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
        if (i == 0 && options.close_stdout_after != 0 &&
            outcome.out.size() >= options.close_stdout_after) {
          close_end(0);
        }
      } else {
        close_end(i);
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
