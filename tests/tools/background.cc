#include "tests/tools/background.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace larder {

Background::Background(const std::vector<std::string>& arguments) {
  int out[2];
  EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
  std::vector<std::string> words = {LARDER_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::execv(LARDER_COMMAND, argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  out_ = out[0];
  for (char c = 0; ::read(out_, &c, 1) == 1 && c != '\n';) line_ += c;
}

Background::~Background() {
  Stop(SIGTERM);
  ::close(out_);
}

void Background::Signal(int signal) const { ::kill(pid_, signal); }

int Background::Stop(int signal) {
  if (pid_ < 0) return -1;
  ::kill(pid_, signal);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace larder
