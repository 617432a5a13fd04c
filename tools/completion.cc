// `larder completion bash|zsh|fish`: scripts for shells, made from the commands themselves.
#include <fmt/ranges.h>

#include <memory>
#include <set>

#include "tools/command.h"
#include "tools/output.h"

namespace larder::tools {
namespace {

struct Entry {
  std::string path;  // "snapshot create"; "" for larder itself
  std::string help;
  std::vector<std::pair<std::string, std::string>> words;  // sub-commands
  std::vector<std::pair<std::string, std::string>> flags;  // --store
};

// Flags whose value is a file or a directory, wherever they stand.
struct PathFlags {
  std::set<std::string> files;
  std::set<std::string> directories;
};

// One line, without what a shell could take for its own.
std::string Plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') break;
    if (c != '\'' && c != '"' && c != '`' && c != '[' && c != ']' && c != ':') out += c;
  }
  return out;
}

void Collect(const CLI::App& app, const std::string& path, std::vector<Entry>& out) {
  Entry entry;
  entry.path = path;
  entry.help = Plain(app.get_description());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      entry.flags.emplace_back("--" + name, Plain(option->get_description()));
    }
    for (const std::string& name : option->get_snames()) {
      entry.flags.emplace_back("-" + name, Plain(option->get_description()));
    }
  }
  std::vector<const CLI::App*> children;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (child->get_group().empty()) continue;
    entry.words.emplace_back(child->get_name(), Plain(child->get_description()));
    children.push_back(child);
  }
  out.push_back(std::move(entry));
  for (const CLI::App* child : children) {
    Collect(*child, path.empty() ? child->get_name() : path + " " + child->get_name(), out);
  }
}

void CollectPaths(const CLI::App& app, PathFlags& out) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type != "FILE" && type != "DIR") continue;
    std::set<std::string>& flags = type == "FILE" ? out.files : out.directories;
    for (const std::string& name : option->get_lnames()) flags.insert("--" + name);
    for (const std::string& name : option->get_snames()) flags.insert("-" + name);
  }
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!child->get_group().empty()) CollectPaths(*child, out);
  }
}

// The resource names that come after get, describe and tree.
constexpr const char* kResources =
    "pods nodes services deployments replicasets statefulsets daemonsets jobs cronjobs configmaps "
    "secrets namespaces events persistentvolumes persistentvolumeclaims ingresses";

// `all` is a set of what is stored.
std::string ResourcesOf(const std::string& path) {
  return std::string(kResources) + (path == "run" ? "" : " all");
}

bool TakesResource(const std::string& path) {
  static const std::set<std::string> paths = {
      "get", "describe", "tree", "history", "index values", "index get", "index rebuild", "run"};
  return paths.count(path) != 0;
}

std::string Words(const Entry& entry) {
  std::string out;
  for (const auto& [word, help] : entry.words) out += word + " ";
  for (const auto& [flag, help] : entry.flags) out += flag + " ";
  if (TakesResource(entry.path)) out += ResourcesOf(entry.path);
  return out;
}

std::string Bash(const std::vector<Entry>& entries, const PathFlags& flags) {
  std::string cases;
  std::string paths;
  for (const Entry& entry : entries) {
    cases += fmt::format("    '{}') words='{}' ;;\n", entry.path, Words(entry));
    if (!entry.path.empty()) paths += "|" + entry.path;
  }
  return fmt::format(R"(# bash completion for larder: source <(larder completion bash)
_larder() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} path='' word words=''
  case $previous in
    {}) COMPREPLY=($(compgen -d -- "$current")); return ;;
    {}) COMPREPLY=($(compgen -f -- "$current")); return ;;
    -o | --output) COMPREPLY=($(compgen -W 'wide json jsonl yaml name jsonpath= custom-columns= markdown html' -- "$current")); return ;;
  esac
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "|{}|" in
      *"|${{path:+$path }}$word|"*) path="${{path:+$path }}$word" ;;
    esac
  done
  case $path in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _larder larder
)",
                     fmt::join(flags.directories, " | "), fmt::join(flags.files, " | "),
                     paths.substr(std::min<size_t>(1, paths.size())), cases);
}

// zsh reads bash's completions.
std::string Zsh(const std::vector<Entry>& entries, const PathFlags& flags) {
  return "#compdef larder\n# zsh completion for larder: source <(larder completion zsh)\n"
         "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" +
         Bash(entries, flags);
}

std::string Fish(const std::vector<Entry>& entries, const PathFlags& flags) {
  std::string out = "# fish completion for larder: larder completion fish | source\n";
  for (const Entry& entry : entries) {
    std::string condition = "__fish_use_subcommand";
    if (!entry.path.empty()) {
      condition.clear();
      for (size_t begin = 0; begin < entry.path.size();) {
        const size_t end = std::min(entry.path.find(' ', begin), entry.path.size());
        condition +=
            fmt::format("{}__fish_seen_subcommand_from {}", condition.empty() ? "" : "; and ",
                        entry.path.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    for (const auto& [word, help] : entry.words) {
      out += fmt::format("complete -c larder -f -n '{}' -a '{}' -d '{}'\n", condition, word, help);
    }
    for (const auto& [flag, help] : entry.flags) {
      const bool is_long = flag.substr(0, 2) == "--";
      const bool path = flags.files.count(flag) + flags.directories.count(flag) != 0;
      out += fmt::format("complete -c larder -n '{}' {} {}{} -d '{}'\n", condition,
                         is_long ? "-l" : "-s", flag.substr(is_long ? 2 : 1), path ? " -r -F" : "",
                         help);
    }
    if (TakesResource(entry.path)) {
      out += fmt::format("complete -c larder -f -n '{}' -a '{}'\n", condition,
                         ResourcesOf(entry.path));
    }
  }
  return out;
}

}  // namespace

void AddCompletion(CLI::App& app, Context&) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] {
    std::vector<Entry> entries;
    Collect(app, "", entries);
    PathFlags flags;
    CollectPaths(app, flags);
    Stdout().Write(*shell == "bash"  ? Bash(entries, flags)
                   : *shell == "zsh" ? Zsh(entries, flags)
                                     : Fish(entries, flags));
    Stdout().Flush();
  });
}

}  // namespace larder::tools
