#include "tests/architecture/source_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>

namespace larder::architecture {
namespace {

namespace fs = std::filesystem;

bool IsSkippedFolder(const std::string& name) {
  return name.starts_with(".") || name.starts_with("build") || name == "corpus";
}

bool IsReadFile(const fs::path& path) {
  static const std::set<std::string> kExtensions = {
      ".h", ".cc", ".fbs", ".md", ".txt", ".cmake", ".in", ".json", ".yaml", ".sh", ".py"};
  return kExtensions.contains(path.extension().string()) || path.filename() == "dev";
}

SourceFile Read(const fs::path& root, const fs::path& path) {
  SourceFile file;
  const fs::path relative = path.lexically_relative(root);
  file.path = relative.generic_string();
  if (relative.has_parent_path()) file.folder = relative.begin()->string();
  static const std::regex kInclude(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    file.lines.push_back(line);
    std::smatch match;
    if (file.IsCpp() && std::regex_search(line, match, kInclude)) {
      file.includes.push_back({match[2].str(), match[1].str() == "\"", file.lines.size()});
    }
  }
  return file;
}

}  // namespace

SourceTree::SourceTree(const fs::path& root) {
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    if (it->is_directory()) {
      if (IsSkippedFolder(it->path().filename().string())) it.disable_recursion_pending();
    } else if (it->is_regular_file() && IsReadFile(it->path())) {
      files_.push_back(Read(root, it->path()));
    }
  }
  std::sort(files_.begin(), files_.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  for (size_t i = 0; i < files_.size(); ++i) by_path_[files_[i].path] = i;
}

const SourceFile* SourceTree::Find(std::string_view path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? nullptr : &files_[found->second];
}

std::string SourceTree::ChainTo(const SourceFile& file, std::string_view prefix) const {
  std::set<std::string> seen;
  const auto search = [&](const auto& self, const SourceFile& from) -> std::string {
    for (const Include& include : from.includes) {
      if (include.target.starts_with(prefix)) {
        return fmt::format("{} -> <{}>", from.path, include.target);
      }
      const SourceFile* next = include.quoted ? Find(include.target) : nullptr;
      if (!next || !seen.insert(next->path).second) continue;
      const std::string chain = self(self, *next);
      if (!chain.empty()) return from.path + " -> " + chain;
    }
    return {};
  };
  return search(search, file);
}

const SourceTree& Tree() {
  static const SourceTree tree(LARDER_SOURCE_DIR);
  return tree;
}

std::string At(const SourceFile& file, size_t line, std::string_view what) {
  return fmt::format("{}:{}: {}", file.path, line, what);
}

}  // namespace larder::architecture
