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

class DocumentedTests : public ::testing::TestWithParam<const char*> {};

TEST_P(DocumentedTests, AreThere) {
  const SourceFile* const page = Tree().Find(GetParam());
  ASSERT_NE(page, nullptr) << GetParam();
  static const std::set<std::string> tests = TestsThatExist();
  const std::vector<std::string> names = TestsNamedIn(*page);
  EXPECT_GT(names.size(), 5U) << "this page names tests";
  for (const std::string& name : names) {
    EXPECT_TRUE(Exists(tests, name)) << page->path << " names " << name << ", and there is none";
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, DocumentedTests,
                         ::testing::Values("docs/guarantees.md", "docs/reliability.md",
                                           "docs/testing.md"),
                         [](const auto& page) {
                           std::string name = page.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace larder::architecture
