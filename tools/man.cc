// `larder man [COMMAND...]`: a manual page, made from the help texts: larder man get | man -l -
// `larder help [COMMAND...]`: what COMMAND --help prints.
#include <memory>

#include "tools/command.h"
#include "tools/output.h"

namespace larder::tools {
namespace {

// What roff would read as its own.
std::string Escape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts_line = i == 0 || text[i - 1] == '\n';
    if (starts_line && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string Page(const CLI::App& app, const std::string& path) {
  std::string title = path;
  std::replace(title.begin(), title.end(), ' ', '-');
  std::string out = fmt::format(".TH {} 1 \"\" \"larder\" \"larder\"\n", title);
  out += fmt::format(".SH NAME\n{} \\- {}\n", Escape(title), Escape(app.get_description()));
  out += fmt::format(".SH SYNOPSIS\n.B {}\n", Escape(path));
  std::string positionals, options;
  for (const CLI::Option* option : app.get_options()) {
    std::string names = option->get_name(false, true);
    std::string& list = option->get_positional() ? positionals : options;
    if (option->get_positional()) {
      names = option->get_name(true, false);
      out += fmt::format("{}{}{}\n", option->get_required() ? "" : "[", Escape(names),
                         option->get_required() ? "" : "]");
    }
    list += fmt::format(".TP\n.B {}\n{}\n", Escape(names), Escape(option->get_description()));
  }
  out += "[options]\n";
  std::string commands;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (child->get_group().empty()) continue;
    commands +=
        fmt::format(".TP\n.B {}\n{}\n", child->get_name(), Escape(child->get_description()));
  }
  if (!commands.empty()) out += ".SH COMMANDS\n" + commands;
  if (!positionals.empty()) out += ".SH ARGUMENTS\n" + positionals;
  out += ".SH OPTIONS\n" + options;
  out +=
      ".SH EXIT STATUS\n.TP\n0\nsuccess\n.TP\n1\nthe command ran and the answer is bad: not found, "
      "damage, a difference\n.TP\n2\nwrong usage or bad input\n.TP\n3\nthe store or the server "
      "cannot be used\n.TP\n130\nended by Ctrl\\-C\n";
  return out;
}

struct Found {
  const CLI::App* app = nullptr;
  std::string path;  // "larder queue show"
};

Result<Found> FindCommand(const CLI::App& app, const std::vector<std::string>& words) {
  Found found{&app, app.get_name()};
  for (const std::string& word : words) {
    const auto children = found.app->get_subcommands(
        [&](const CLI::App* candidate) { return candidate->get_name() == word; });
    if (children.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "there is no command {} {}", found.path, word);
    }
    found.app = children.front();
    found.path += " " + word;
  }
  return found;
}

// A command that prints something about others.
void AddAbout(CLI::App& app, Context& context, const char* name, const char* help,
              std::string (*text)(const Found&)) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("command", *words, "Of which command; none: larder itself");
  command->callback([words, text, &app, &context] {
    const auto found = FindCommand(app, *words);
    if (!found) {
      context.exit_code = Fail(found.error());
      return;
    }
    Stdout().Write(text(*found));
    Stdout().Flush();
  });
}

}  // namespace

void AddMan(CLI::App& app, Context& context) {
  AddAbout(app, context, "man", "Print a manual page: larder man get | man -l -",
           [](const Found& found) { return Page(*found.app, found.path); });
}

void AddHelp(CLI::App& app, Context& context) {
  AddAbout(app, context, "help", "Print the help of a command: larder help get",
           [](const Found& found) {
             return found.app->get_formatter()->make_help(found.app, found.path,
                                                          CLI::AppFormatMode::Normal);
           });
}

}  // namespace larder::tools
