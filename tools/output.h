// Where a command's answer goes: stdout, buffered, and deaf to readers that leave early.
//
// `larder get pods -A | head` closes the pipe in the middle. That is no error: from then on Write
// drops what it gets and says so, the command stops reading and ends with 0. A full disk is an
// error, of course: main() looks for it at the end. Not thread-safe.
//
//   Output& out = Stdout();
//   if (!out.Write("line\n")) return;   // nobody reads any more
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "schema/object.h"

namespace larder::tools {

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}
  ~Output() { Flush(); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // False: the reader is gone.
  bool Write(std::string_view text);
  template <typename... Args>
  bool Print(fmt::format_string<Args...> format, Args&&... args) {
    return Write(fmt::format(format, std::forward<Args>(args)...));
  }
  // The same, Printable (base/text.h). Paint afterwards.
  template <typename... Args>
  bool PrintForPeople(fmt::format_string<Args...> format, Args&&... args) {
    return Write(Printable(fmt::format(format, std::forward<Args>(args)...)));
  }
  bool Flush();
  bool closed() const { return closed_; }
  // The errno of a write that failed, but for a reader that left; 0: none did.
  int error() const { return error_; }
  bool IsTerminal() const;

 private:
  const int fd_;
  std::string buffer_;
  bool closed_ = false;
  int error_ = 0;
};

Output& Stdout();

// A whole text as a file. kIo.
Result<void> WriteFile(const std::string& path, std::string_view text);

// Colours are for terminals, and not where NO_COLOR is set or TERM is dumb.
bool UseColour(int fd);
// Columns of the terminal behind `fd`; 0 where it is none.
int TerminalWidth(int fd);

// Wraps `text` in a colour where `on`.
enum class Colour { kRed, kGreen, kYellow, kBold, kDim };
std::string Paint(std::string_view text, Colour colour, bool on);

// In kubectl's words, on stderr. An empty namespace: all of them.
void SayNothingFound(std::string_view ns);

// What a command prints for a script. Bytes that are no UTF-8, which an item or a value may have,
// are replaced.
std::string IndentedJson(const Json& json);

// A JSON document without line ends, which can only be white space in it.
std::string OneLine(std::string_view json);

// "1.5 MB", "12 KB", "7 B".
std::string HumanBytes(uint64_t bytes);
// "1,234,567".
std::string HumanCount(uint64_t count);
// "1 object", "1,234 objects".
std::string Plural(uint64_t count, std::string_view noun);

}  // namespace larder::tools
