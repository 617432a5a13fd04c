// What the documents show must work: commands are run, code is what is compiled.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace larder {
namespace {

std::string ReadSource(const std::string& name) {
  std::ifstream file(std::string(LARDER_SOURCE_DIR) + "/" + name);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The lines of all ```sh blocks that run larder, without comments.
std::vector<std::string> Commands(const std::string& document) {
  std::vector<std::string> commands;
  std::istringstream lines(document);
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("```", 0) == 0) {
      in_block = line == "```sh";
    } else if (in_block && line.rfind("larder ", 0) == 0) {
      commands.push_back(line.substr(0, line.find(" #")));
    }
  }
  return commands;
}

std::vector<std::string> Words(const std::string& command, const std::string& directory) {
  std::vector<std::string> words;
  std::istringstream in(command);
  for (std::string word; in >> word;) words.push_back(word == "DIR" ? directory : word);
  words.erase(words.begin());
  return words;
}

TEST(DocsTest, CommandsInTheReadmeWork) {
  const ScratchDirectory scratch;
  const std::string store = scratch / "store";
  ASSERT_EQ(RunLarder({"demo", "--objects", "200", "--json", "--store", store}).exit_code, 0);
  const auto commands = Commands(ReadSource("README.md"));
  ASSERT_GE(commands.size(), 4u);
  for (const std::string& command : commands) {
    RunOptions options;
    if (command.find(" simulate ") != std::string::npos) {
      options.signal = SIGINT;
      options.signal_after = std::chrono::milliseconds(700);
    }
    std::vector<std::string> words = Words(command, store);
    for (std::string& word : words) {
      if (word == "20000") word = "300";  // the same, sooner
    }
    const Outcome outcome = RunLarder(words, options);
    EXPECT_EQ(outcome.exit_code, 0) << command << "\n" << outcome.err;
  }
}

TEST(DocsTest, ControllerInTheReadmeIsTheOneThatIsCompiled) {
  const std::string example = ReadSource("examples/minimal_controller.cc");
  const std::string mark = "// [readme]\n";
  const size_t begin = example.find(mark) + mark.size();
  const std::string shown = example.substr(begin, example.find(mark, begin) - begin);
  EXPECT_NE(ReadSource("README.md").find("```cpp\n" + shown + "```"), std::string::npos);
}

}  // namespace
}  // namespace larder
