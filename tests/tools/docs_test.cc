// What the documents show must work: commands are run, code is what is compiled.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "apiserver/simulator.h"
#include "tests/tools/process.h"
#include "tests/tools/sample_store.h"

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

// The words behind "larder", with what stands for something replaced by it.
std::vector<std::string> Words(const std::string& command,
                               const std::map<std::string, std::string>& meanings) {
  std::vector<std::string> words;
  std::istringstream in(command);
  for (std::string word; in >> word;) {
    const auto meaning = meanings.find(word);
    words.push_back(meaning == meanings.end() ? word : meaning->second);
  }
  words.erase(words.begin());
  return words;
}

// What is done and needs no word.
bool Silent(const std::string& command) {
  return command.find("--file") != std::string::npos || command.find(" run ") != std::string::npos;
}

void RunAll(const std::string& document, size_t at_least,
            const std::map<std::string, std::string>& meanings) {
  const auto commands = Commands(ReadSource(document));
  ASSERT_GE(commands.size(), at_least);
  for (const std::string& command : commands) {
    RunOptions options;
    if (command.find(" simulate ") != std::string::npos ||
        command.find(" serve ") != std::string::npos) {
      options.signal = SIGINT;
      // The URL is printed when it is ready.
      options.stop_when = [](const std::string& out) { return !out.empty(); };
    }
    const Outcome outcome = RunLarder(Words(command, meanings), options);
    EXPECT_EQ(outcome.exit_code, 0) << command << "\n" << outcome.err;
    if (!Silent(command)) {
      EXPECT_FALSE(outcome.out.empty()) << command << " shows nothing\n" << outcome.err;
    }
    EXPECT_EQ(outcome.err.find("No resources found"), std::string::npos) << command;
  }
}

TEST(DocsTest, CommandsInTheReadmeWork) {
  const ScratchDirectory scratch;
  // Of the kind that the first command starts.
  auto simulator = apiserver::Simulator::Start({});
  ASSERT_TRUE(simulator);
  ASSERT_TRUE((*simulator)->Load(300));
  // The same, sooner.
  RunAll("README.md", 5,
         {{"DIR", scratch / "store"}, {"URL", (*simulator)->Url()}, {"20000", "300"}});
}

TEST(DocsTest, CommandsInTheCommandsOwnPageWork) {
  const ScratchDirectory scratch;
  auto simulator = apiserver::Simulator::Start({});
  ASSERT_TRUE(simulator);
  ASSERT_TRUE((*simulator)->Load(100));
  std::map<std::string, std::string> meanings = {{"DIR", scratch / "store"},
                                                 {"URL", (*simulator)->Url()}};
  for (const char* file : {"backups", "copy", "report.html", "restored", "pods.jsonl.zst"}) {
    meanings[file] = scratch / file;
  }
  RunAll("docs/cli.md", 20, meanings);
}

TEST(DocsTest, CommandsInTheTuningPageWork) {
  const ScratchDirectory scratch;
  FillSampleStore(scratch / "store");
  // The same, sooner: a hundredth of the work, and one candidate.
  std::map<std::string, std::string> meanings = {
      {"DIR", scratch / "store"},
      {"1", "0.01"},
      {"--quick", "--candidate=larder.max_log_bytes=4M"}};
  for (const char* file : {"workload.json", "results.jsonl", "tuned.options", "report.html"}) {
    meanings[file] = scratch / file;
  }
  RunAll("docs/tuning.md", 4, meanings);
}

// Does the document show what stands between two such lines of the source?
bool Shows(const std::string& document, const std::string& source, const std::string& mark,
           const std::string& language = "cpp") {
  const std::string code = ReadSource(source);
  const size_t first = code.find(mark);
  EXPECT_NE(first, std::string::npos) << source;
  const size_t begin = first + mark.size();
  const std::string shown = code.substr(begin, code.find(mark, begin) - begin);
  return ReadSource(document).find("```" + language + "\n" + shown + "```") != std::string::npos;
}

TEST(DocsTest, ControllerInTheReadmeIsTheOneThatIsCompiled) {
  EXPECT_TRUE(Shows("README.md", "examples/pod_watcher.cc", "// [readme]\n"));
}

TEST(DocsTest, BatchingHandlerInTheInformersPageIsTheOneThatIsTested) {
  EXPECT_TRUE(Shows("docs/informers.md", "tests/informer/batching_handler_test.cc", "// [docs]\n"));
}

TEST(DocsTest, ProjectInTheLibrarysPageIsTheOneThatIsBuilt) {
  const std::string consumer = "tests/package/consumer/";
  EXPECT_TRUE(Shows("docs/library.md", consumer + "main.cc", "// [docs]\n"));
  EXPECT_TRUE(Shows("docs/library.md", consumer + "CMakeLists.txt", "# [docs]\n", "cmake"));
  EXPECT_TRUE(
      Shows("docs/library.md", consumer + "CMakeLists.txt", "# [docs pkg-config]\n", "cmake"));
}

}  // namespace
}  // namespace larder
