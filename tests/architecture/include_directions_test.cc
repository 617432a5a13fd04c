// Which folder may include which: the table of docs/architecture.md, checked.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/architecture/source_tree.h"

namespace larder::architecture {
namespace {

const std::set<std::string> kEverywhere = {"tools", "tests", "bench", "examples"};

// What each folder may include besides itself. base holds the error and clock types.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"base", {}},
    {"schema", {"base"}},
    {"storage", {"base", "schema"}},
    {"indexer", {"base", "schema", "storage"}},
    {"queue", {"base", "schema", "storage"}},
    {"client", {"base", "schema"}},
    {"reflector", {"base", "schema", "client"}},
    {"informer", {"base", "schema", "storage", "indexer", "queue", "client", "reflector"}},
    {"controller",
     {"base", "schema", "storage", "indexer", "queue", "client", "reflector", "informer"}},
    {"apiserver", {"base", "schema", "storage"}},
    {"tuning", {"base", "schema", "storage", "apiserver"}},
    {"testing",
     {"base", "schema", "storage", "indexer", "queue", "client", "reflector", "informer",
      "controller", "apiserver"}},
};

std::string FolderOf(const std::string& include) { return include.substr(0, include.find('/')); }

TEST(IncludeDirections, EveryFolderIsInTheTable) {
  ASSERT_GT(Tree().files().size(), 20U);
  for (const SourceFile& file : Tree().files()) {
    if (!file.IsCpp()) continue;
    EXPECT_TRUE(kMayInclude.contains(file.folder) || kEverywhere.contains(file.folder))
        << file.path << " is in a folder that the table does not have";
  }
}

TEST(IncludeDirections, AnArrowNeverPointsBack) {
  for (const SourceFile& file : Tree().files()) {
    const auto allowed = kMayInclude.find(file.folder);
    if (allowed == kMayInclude.end()) continue;
    for (const Include& include : file.includes) {
      if (!include.quoted) continue;
      const std::string folder = FolderOf(include.target);
      EXPECT_TRUE(folder == file.folder || allowed->second.contains(folder))
          << At(file, include.line, file.folder + " may not include " + include.target);
    }
  }
}

TEST(IncludeDirections, ProgramsAreNotIncludedByLibraries) {
  for (const SourceFile& file : Tree().files()) {
    if (kEverywhere.contains(file.folder)) continue;
    for (const Include& include : file.includes) {
      EXPECT_FALSE(include.quoted && kEverywhere.contains(FolderOf(include.target)))
          << At(file, include.line, "includes " + include.target);
    }
  }
}

TEST(IncludeDirections, OurHeadersAreIncludedByTheirFullPath) {
  for (const SourceFile& file : Tree().files()) {
    for (const Include& include : file.includes) {
      if (!include.quoted) continue;
      const bool generated = include.target.ends_with("_generated.h");
      EXPECT_TRUE(generated || Tree().Find(include.target))
          << At(file, include.line, "\"" + include.target + "\" is not a path from the root");
    }
  }
}

// Through other headers counts too: a public header that shows RocksDB makes all its users see it.
void ExpectOnly(const std::set<std::string>& folders, std::string_view prefix) {
  for (const SourceFile& file : Tree().files()) {
    if (!file.IsCpp() || folders.contains(file.folder)) continue;
    const std::string chain = Tree().ChainTo(file, prefix);
    EXPECT_TRUE(chain.empty()) << chain;
  }
}

TEST(IncludeDirections, OnlyStorageSeesRocksDb) {
  ExpectOnly({"storage", "tests", "bench"}, "rocksdb/");
}

TEST(IncludeDirections, OnlyTheClientSeesLibcurl) {
  ExpectOnly({"client", "tests", "bench"}, "curl/");
}

}  // namespace
}  // namespace larder::architecture
