// A promise names the tests that prove it: they exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/architecture/source_tree.h"

namespace larder::architecture {
namespace {

std::string TextOf(const SourceFile& file) {
  std::string text;
  for (const std::string& line : file.lines) text += line + "\n";
  return text;
}

std::vector<std::smatch> MatchesIn(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

// "Suite.Name" of every GoogleTest and of every test that CMake names itself.
std::set<std::string> TestsThatExist() {
  static const std::regex kGoogleTest(R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\))");
  static const std::regex kNamed(R"(add_test\(\s*NAME\s+([\w.]+))");
  std::set<std::string> tests;
  for (const SourceFile& file : Tree().files()) {
    if (file.folder != "tests") continue;
    const std::string text = TextOf(file);
    if (file.path.ends_with(".cc")) {
      for (const auto& match : MatchesIn(text, kGoogleTest)) {
        tests.insert(match[1].str() + "." + match[2].str());
      }
    } else if (file.path.ends_with("CMakeLists.txt")) {
      for (const auto& match : MatchesIn(text, kNamed)) tests.insert(match[1]);
    }
  }
  return tests;
}

// `Suite.Name`, `Suite.*`, with what an instantiation puts in front left out.
std::vector<std::string> TestsNamedIn(const SourceFile& page) {
  static const std::regex kName(R"(`(?:\w+/)?([A-Z]\w+\.(?:[A-Z]\w*(?:\.\*)?|\*))`)");
  const std::string text = TextOf(page);
  std::vector<std::string> names;
  for (const auto& match : MatchesIn(text, kName)) names.push_back(match[1]);
  return names;
}

bool Exists(const std::set<std::string>& tests, std::string name) {
  if (!name.ends_with("*")) return tests.contains(name);
  name.pop_back();
  return std::any_of(tests.begin(), tests.end(),
                     [&](const std::string& test) { return test.starts_with(name); });
}

TEST(DocumentedTests, AreThere) {
  const std::set<std::string> tests = TestsThatExist();
  for (const SourceFile& page : Tree().files()) {
    if (!page.path.ends_with(".md")) continue;
    for (const std::string& name : TestsNamedIn(page)) {
      EXPECT_TRUE(Exists(tests, name)) << page.path << " names " << name << ", and there is none";
    }
  }
}

TEST(DocumentedTests, AreNamedWherePromisesAre) {
  for (const char* path : {"docs/guarantees.md", "docs/reliability.md", "docs/testing.md"}) {
    const SourceFile* const page = Tree().Find(path);
    ASSERT_NE(page, nullptr) << path;
    EXPECT_GT(TestsNamedIn(*page).size(), 5U) << path;
  }
}

}  // namespace
}  // namespace larder::architecture
