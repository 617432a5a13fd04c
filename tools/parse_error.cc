#include "tools/parse_error.h"

#include <fmt/format.h>

#include <cstdio>

#include "tools/command.h"

namespace larder::tools {
namespace {

// The command that the words name as far as they name one: "larder queue".
const CLI::App& Deepest(const CLI::App& app, std::string& path) {
  path += (path.empty() ? "" : " ") + app.get_name();
  const auto below = app.get_subcommands();
  return below.empty() ? app : Deepest(*below.front(), path);
}

std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  std::string path;
  const CLI::App& command = Deepest(app, path);
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  const std::string help = fmt::format("; see: {} --help", path);
  for (const std::string& word : extras) {
    if (word.size() > 1 && word[0] == '-') return "unknown flag: " + word + help;
  }
  if (!extras.empty() && command.get_require_subcommand_min() > 0) {
    return fmt::format("unknown command \"{}\" for \"{}\"{}", extras.front(), path, help);
  }
  if (!extras.empty()) return fmt::format("unexpected argument \"{}\"{}", extras.front(), help);
  const std::string what = error.what();
  if (what == "--store is required") {
    return "--store is required: the store's directory, once for all in LARDER_STORE" + help;
  }
  return what + help;
}

}  // namespace

int FailParse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::fprintf(stderr, "larder: %s\n", Explain(app, error).c_str());
  return kUsage;
}

}  // namespace larder::tools
