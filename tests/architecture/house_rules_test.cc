// Rules of style that no tool checks for us.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "tests/architecture/source_tree.h"

namespace larder::architecture {
namespace {

// Reports every line of our files that has `text`. Here the words are put together from parts, so
// that this file does not report itself.
void ExpectNowhere(const std::string& text, std::string_view why, bool cpp_only = false,
                   std::string_view but_in = {}) {
  for (const SourceFile& file : Tree().files()) {
    if ((cpp_only && !file.IsCpp()) || file.path == but_in) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_EQ(file.lines[i].find(text), std::string::npos) << At(file, i + 1, why);
    }
  }
}

TEST(HouseRules, NothingIsLeftForLater) {
  for (const char* word : {"TO"
                           "DO",
                           "FIX"
                           "ME",
                           "XX"
                           "X:"}) {
    ExpectNowhere(word, "finish it, or write an issue");
  }
}

TEST(HouseRules, NoPathsOfOneMachine) {
  for (const char* path : {"/wo"
                           "rk/",
                           "/ro"
                           "ot/",
                           "/Us"
                           "ers/"}) {
    ExpectNowhere(path, "a path of one machine");
  }
}

TEST(HouseRules, FilesStayReadable) {
  constexpr size_t kMaxLines = 560;
  for (const SourceFile& file : Tree().files()) {
    if (!file.IsCpp()) continue;
    EXPECT_LE(file.lines.size(), kMaxLines) << file.path << " is too long to read in one sitting";
  }
}

TEST(HouseRules, HeadersSayWhatTheyAre) {
  for (const SourceFile& file : Tree().files()) {
    if (!file.IsHeader()) continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(file.lines.front().starts_with("// ")) << file.path << " has no comment on top";
    EXPECT_NE(std::find(file.lines.begin(), file.lines.end(), "#pragma once"), file.lines.end())
        << file.path << " has no #pragma once";
  }
}

TEST(HouseRules, NoThreadIsDetached) {
  // But for one whose user's handler does not return: nobody can end it.
  ExpectNowhere(std::string(".det") + "ach()", "join it: std::jthread", /*cpp_only=*/true,
                "informer/listener.cc");
}

// JSON that a command prints may have names of any bytes in it, at which a plain dump throws.
TEST(HouseRules, CommandsPrintJsonOfAnyBytes) {
  for (const SourceFile& file : Tree().files()) {
    if (file.folder != "tools" || file.path == "tools/output.cc") continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_EQ(file.lines[i].find(".dump(2"), std::string::npos)
          << At(file, i + 1, "IndentedJson");
    }
  }
}

// A lock of std's is one that clang's lock analysis does not see.
TEST(HouseRules, LocksAreAnnotated) {
  const std::set<std::string> unchecked = {"tests", "bench", "examples"};
  const std::regex lock(R"(\bstd::(\w*mutex|lock_guard|unique_lock|shared_lock|scoped_lock)\b)");
  ASSERT_TRUE(std::regex_search(std::string("  mutable std::shared_mutex mutex_;"), lock));
  for (const SourceFile& file : Tree().files()) {
    if (!file.IsCpp() || unchecked.count(file.folder) != 0 || file.path == "base/mutex.h") continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      EXPECT_FALSE(line.find("std::") != std::string::npos && std::regex_search(line, lock))
          << At(file, i + 1, "use base/mutex.h, and say what it guards");
    }
  }
}

TEST(HouseRules, HeadersOpenNoNamespaces) {
  for (const SourceFile& file : Tree().files()) {
    if (!file.IsHeader()) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(file.lines[i].starts_with("using namespace ")) << At(file, i + 1, "in a header");
    }
  }
}

// What a call in the head of a loop returned is gone before the first round, where the loop walks
// over something inside it.
TEST(HouseRules, LoopsHoldWhatTheyWalkOver) {
  const std::regex walk(R"(\bfor \([^;]* : [A-Z]\w*\([^()]*\)->)");
  ASSERT_TRUE(
      std::regex_search(std::string("for (const auto& part : Made()") + "->parts()) {", walk));
  for (const SourceFile& file : Tree().files()) {
    if (!file.IsCpp()) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      EXPECT_FALSE(line.find(")->") != std::string::npos && std::regex_search(line, walk))
          << At(file, i + 1, "give what the call returns a name, so that it lives");
    }
  }
}

}  // namespace
}  // namespace larder::architecture
