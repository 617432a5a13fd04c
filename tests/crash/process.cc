#include "tests/crash/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

extern char** environ;

namespace larder::crash {

using namespace std::chrono_literals;

pid_t Spawn(std::vector<std::string> arguments, const std::string& stderr_file) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  if (!stderr_file.empty()) {
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, stderr_file.c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  }
  pid_t pid = 0;
  if (::posix_spawn(&pid, argv[0], &files, nullptr, argv.data(), environ) != 0) {
    std::fprintf(stderr, "cannot start %s\n", argv[0]);
    std::_Exit(2);
  }
  ::posix_spawn_file_actions_destroy(&files);
  return pid;
}

std::optional<int> WaitFor(pid_t pid, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(500us);
  }
}

void Kill(pid_t pid) {
  ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
}

bool IsKnownAssertion(const std::string& assertion, bool disk_failed) {
  struct Known {
    const char* file;
    const char* words;
    bool of_a_failing_disk;
  };
  static constexpr Known kKnown[] = {
      {"writable_file_writer.h", "sync_without_flush_called_", true},
      {"dbformat.h", "ExtractUserKey", true},
      {"db_impl_compaction_flush.cc", "GetFlushReason() == cfds[0]->GetFlushReason()", false}};
  return std::any_of(std::begin(kKnown), std::end(kKnown), [&](const Known& known) {
    return (disk_failed || !known.of_a_failing_disk) &&
           assertion.find(known.file) != std::string::npos &&
           assertion.find(known.words) != std::string::npos;
  });
}

std::string AssertionIn(const std::string& said) {
  const size_t at = said.find("Assertion `");
  if (at == std::string::npos) return {};
  const size_t begin = said.rfind('\n', at) + 1;  // npos + 1 is 0
  const std::string line = said.substr(begin, said.find('\n', at) - begin);
  return line.substr(line.find(": ") + 2);  // without the program's name
}

}  // namespace larder::crash
