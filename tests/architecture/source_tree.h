// The project's source files, read once, for tests that check rules over all of them.
//
//   for (const SourceFile& file : SourceTree(root).files()) ...
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace larder::architecture {

struct Include {
  std::string target;  // as written, without the quotes or angle brackets
  bool quoted = false;
  size_t line = 0;
};

struct SourceFile {
  std::string path;    // relative to the root: "schema/object.h"
  std::string folder;  // its first part: "schema"; empty for files in the root
  std::vector<std::string> lines;
  std::vector<Include> includes;

  bool IsCpp() const { return path.ends_with(".h") || path.ends_with(".cc"); }
  bool IsHeader() const { return path.ends_with(".h"); }
};

class SourceTree {
 public:
  // Reads every text file below `root` except build folders, hidden folders and fuzz corpora.
  explicit SourceTree(const std::filesystem::path& root);

  const std::vector<SourceFile>& files() const { return files_; }
  // The file behind an #include "...", or nullptr (a generated or foreign header).
  const SourceFile* Find(std::string_view path) const;
  // A chain of our headers, "a.h -> b.h -> <rocksdb/db.h>", by which `file` comes to include a
  // header whose name starts with `prefix`; empty where it does not.
  std::string ChainTo(const SourceFile& file, std::string_view prefix) const;

 private:
  std::vector<SourceFile> files_;
  std::map<std::string, size_t, std::less<>> by_path_;
};

// Ours, read once.
const SourceTree& Tree();

// "schema/object.h:12: what", for messages.
std::string At(const SourceFile& file, size_t line, std::string_view what);

}  // namespace larder::architecture
