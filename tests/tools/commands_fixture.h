// A store with objects, queues and indexes in it, and commands that are given it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/sample_store.h"

namespace larder {

class CommandsTest : public ::testing::Test {
 protected:
  void SetUp() override { FillSampleStore(Path()); }
  std::string Path() const { return scratch_ / "store"; }
  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--store", Path()});
    return RunLarder(words);
  }
  Json RunJson(std::vector<std::string> words) const {
    words.emplace_back("--json");
    const Outcome outcome = Run(words);
    const Json json = Json::parse(outcome.out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << outcome.out << outcome.err;
    return json;
  }
  void Damage() const { Damage(Path()); }
  static void Damage(const std::string& store) {
    ASSERT_EQ(RunLarder({"compact", "--store", store}).exit_code, 0);
    // One byte in the middle of the largest table.
    std::filesystem::path largest;
    for (const auto& entry : std::filesystem::directory_iterator(store)) {
      if (entry.path().extension() == ".sst" &&
          (largest.empty() || entry.file_size() > std::filesystem::file_size(largest))) {
        largest = entry.path();
      }
    }
    ASSERT_FALSE(largest.empty());
    {
      std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(60);
      const char byte = static_cast<char>(file.get() ^ 0x20);
      file.seekp(60);
      file.put(byte);
    }
  }

  ScratchDirectory scratch_;
};

}  // namespace larder
