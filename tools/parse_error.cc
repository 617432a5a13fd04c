#include "tools/parse_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <vector>

#include "tools/command.h"

namespace larder::tools {
namespace {

// The command that the words name as far as they name one: "larder queue".
const CLI::App& Deepest(const CLI::App& app, std::string& path) {
  path += (path.empty() ? "" : " ") + app.get_name();
  const auto below = app.get_subcommands();
  return below.empty() ? app : Deepest(*below.front(), path);
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// "; did you mean get?", where one of the command's own is close.
std::string DidYouMean(const CLI::App& command, std::string_view word) {
  constexpr size_t kClose = 2;
  size_t least = kClose + 1;
  std::string best;
  for (const CLI::App* known : command.get_subcommands([](const CLI::App*) { return true; })) {
    const size_t distance = EditDistance(word, known->get_name());
    if (distance >= least || distance >= word.size()) continue;
    least = distance;
    best = known->get_name();
  }
  return best.empty() ? best : fmt::format("; did you mean {}?", best);
}

std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  std::string path;
  const CLI::App& command = Deepest(app, path);
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  const std::string help = fmt::format("; see: {} --help", path);
  for (const std::string& word : extras) {
    if (word.size() > 1 && word[0] == '-') return fmt::format("unknown flag: {}{}", word, help);
  }
  if (!extras.empty() && command.get_require_subcommand_min() > 0) {
    const std::string guess = DidYouMean(command, extras.front());
    return fmt::format("unknown command \"{}\" for \"{}\"{}", extras.front(), path,
                       guess.empty() ? help : guess);
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
