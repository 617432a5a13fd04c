#include "client/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/process.h"

namespace larder {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long a stop or the child's end may go unnoticed.
constexpr int kSliceMs = 20;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// Our environment with the additions, as execve wants it; a plugin is not given our keys.
std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    bool left_out = HiddenFromPrograms(name);
    for (const auto& [key, value] : added) left_out = left_out || key == name;
    if (!left_out) result.emplace_back(text);
  }
  for (const auto& [key, value] : added) result.push_back(fmt::format("{}={}", key, value));
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Owns a started child: reaps it, and kills its group first when it is still running.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (status_) return;
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The wait status once it has ended.
  std::optional<int> Poll() {
    if (status_) return status_;
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) status_ = status;
    // Somebody else has reaped it, or SIGCHLD is ignored: how it ended is lost, what it printed is
    // not.
    if (ended < 0 && errno == ECHILD) status_ = 0;
    return status_;
  }

 private:
  const pid_t pid_;
  std::optional<int> status_;
};

Result<pid_t> Spawn(const ProgramSpec& spec, int stdout_fd) {
  std::vector<std::string> argv = spec.argv;
  std::vector<std::string> env = MergedEnvironment(spec.env);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int code = posix_spawnp(&pid, argv.front().c_str(), &actions, &attributes,
                                Pointers(argv).data(), Pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code == ENOENT) {
    return MakeError(ErrorCode::kNotFound, "there is no program {}", spec.argv.front());
  }
  if (code != 0) {
    return MakeError(ErrorCode::kIo, "{} cannot be started: {}", spec.argv.front(),
                     std::strerror(code));
  }
  return pid;
}

// Appends what is there to read; false at the end of the pipe.
bool ReadAvailable(int fd, std::string& out, size_t max_bytes) {
  char block[4096];
  while (out.size() <= max_bytes) {
    const ssize_t n = ::read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    out.append(block, static_cast<size_t>(n));
  }
  return true;
}

Result<void> CheckExit(const std::string& program, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status)) {
    return MakeError(ErrorCode::kIo, "{} exited with status {}", program, WEXITSTATUS(status));
  }
  return MakeError(ErrorCode::kIo, "{} was ended by signal {}", program, WTERMSIG(status));
}

}  // namespace

Result<std::string> RunProgram(const ProgramSpec& spec, const std::stop_token& stop) {
  if (spec.argv.empty() || spec.argv.front().empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "no program to run");
  }
  const std::string& program = spec.argv.front();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return MakeError(ErrorCode::kIo, "no pipe for {}: {}", program, std::strerror(errno));
  }
  Fd reader(ends[0]);
  Fd writer(ends[1]);
  // The program's end must block as programs expect it.
  ::fcntl(writer.get(), F_SETFL, 0);
  const auto deadline = SteadyClock::now() + spec.timeout;
  LARDER_ASSIGN_OR_RETURN(const pid_t pid, Spawn(spec, writer.get()));
  Child child(pid);
  writer.Close();

  std::string output;
  bool open = true;
  for (;;) {
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped by the caller");
    if (SteadyClock::now() >= deadline) {
      return MakeError(ErrorCode::kTimeout, "{} did not end within {} ms", program,
                       spec.timeout.count());
    }
    // Asked before the last read, so that what it printed just before its end is not missed. A
    // grandchild that keeps the pipe open does not keep us.
    const std::optional<int> status = child.Poll();
    if (open) open = ReadAvailable(reader.get(), output, spec.max_output_bytes);
    if (output.size() > spec.max_output_bytes) {
      return MakeError(ErrorCode::kInvalidArgument, "{} printed more than {} bytes", program,
                       spec.max_output_bytes);
    }
    if (status) {
      LARDER_RETURN_IF_ERROR(CheckExit(program, *status));
      return output;
    }
    pollfd waiting{open ? reader.get() : -1, POLLIN, 0};
    ::poll(&waiting, 1, open ? kSliceMs : kSliceMs / 4);
  }
}

}  // namespace larder
