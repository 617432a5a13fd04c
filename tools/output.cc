#include "tools/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace larder::tools {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;

}  // namespace

bool Output::Write(std::string_view text) {
  if (closed_) return false;
  buffer_ += text;
  return buffer_.size() < kBufferBytes || Flush();
}

bool Output::Flush() {
  size_t done = 0;
  while (!closed_ && done < buffer_.size()) {
    const ssize_t written = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      closed_ = true;
      if (errno != EPIPE) error_ = errno;
    }
  }
  buffer_.clear();
  return !closed_;
}

bool Output::IsTerminal() const { return ::isatty(fd_) == 1; }

Output& Stdout() {
  static Output out(STDOUT_FILENO);
  return out;
}

Result<void> WriteFile(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  if (!file) return MakeError(ErrorCode::kIo, "cannot write {}", path);
  return {};
}

bool UseColour(int fd) {
  const char* const no_colour = std::getenv("NO_COLOR");
  if (no_colour && *no_colour != '\0') return false;
  const char* const term = std::getenv("TERM");
  return ::isatty(fd) == 1 && (!term || std::strcmp(term, "dumb") != 0);
}

int TerminalWidth(int fd) {
  winsize size{};
  if (::isatty(fd) != 1) return 0;
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Paint(std::string_view text, Colour colour, bool on) {
  if (!on) return std::string(text);
  const char* code = "";
  switch (colour) {
    case Colour::kRed:
      code = "31";
      break;
    case Colour::kGreen:
      code = "32";
      break;
    case Colour::kYellow:
      code = "33";
      break;
    case Colour::kBold:
      code = "1";
      break;
    case Colour::kDim:
      code = "2";
      break;
  }
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

void SayNothingFound(std::string_view ns) {
  // Its full stop included.
  const std::string where = ns.empty() ? "" : fmt::format(" in {} namespace.", ns);
  std::fprintf(stderr, "No resources found%s\n", where.c_str());
}

std::string IndentedJson(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string OneLine(std::string_view json) {
  std::string out(json);
  std::replace(out.begin(), out.end(), '\n', ' ');
  std::replace(out.begin(), out.end(), '\r', ' ');
  return out;
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  const char* const units[] = {"KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  return value < 9.95 ? fmt::format("{:.1f} {}", value, units[unit])
                      : fmt::format("{:.0f} {}", value, units[unit]);
}

std::string HumanCount(uint64_t count) {
  std::string out = std::to_string(count);
  for (size_t at = out.size(); at > 3; at -= 3) out.insert(at - 3, 1, ',');
  return out;
}

std::string Plural(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", HumanCount(count), noun, count == 1 ? "" : "s");
}

}  // namespace larder::tools
