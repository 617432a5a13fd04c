#include "controller/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/duration.h"
#include "controller/settings.h"
#include "informer/informer_config.h"

namespace larder {
namespace {

using internal::Setting;
using internal::Settings;

constexpr const char* kConfigVariable = "LARDER_CONFIG";

Result<void> ReadFile(const std::string& path, ManagerConfig& config) {
  YAML::Node root;
  try {
    root = YAML::LoadFile(path);
  } catch (const YAML::Exception& error) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: {}", path, error.what());
  }
  if (root.IsNull()) return {};
  if (!root.IsMap()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: not a list of \"name: value\"", path);
  }
  for (const auto& entry : root) {
    const std::string key = entry.first.Scalar();
    const auto setting =
        std::find_if(Settings().begin(), Settings().end(),
                     [&](const Setting& candidate) { return candidate.FileKey() == key; });
    if (setting == Settings().end()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: there is no setting {}; --help lists all of them", path, key);
    }
    if (!entry.second.IsScalar() && !entry.second.IsNull()) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: {}: not a single value but a list or map",
                       path, key);
    }
    const std::string text = entry.second.IsNull() ? std::string() : entry.second.Scalar();
    LARDER_RETURN_IF_ERROR(
        internal::Apply(*setting, config, text, fmt::format("{}: {}", path, key)));
  }
  return {};
}

// Flag to value, in the order of the command line; the last of the same name counts.
struct CommandLine {
  std::map<std::string, std::string> values{};
  std::vector<std::string> rest{};
  bool help = false;
};

Result<CommandLine> ReadFlags(int argc, const char* const* argv) {
  CommandLine line;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") {
      line.rest.assign(argv + i + 1, argv + argc);
      break;
    }
    if (argument == "--help" || argument == "-h") {
      line.help = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    const auto setting =
        std::find_if(Settings().begin(), Settings().end(),
                     [&](const Setting& candidate) { return candidate.Flag() == flag; });
    const bool known = setting != Settings().end();
    if (!known && flag != "--config") {
      return MakeError(ErrorCode::kInvalidArgument,
                       "there is no flag {}; --help lists all of them, and what follows -- is left "
                       "to the program",
                       flag);
    }
    if (equals != std::string::npos) {
      line.values[flag] = argument.substr(equals + 1);
    } else if (known && setting->is_switch) {
      line.values[flag] = "true";
    } else if (i + 1 < argc) {
      line.values[flag] = argv[++i];
    } else {
      return MakeError(ErrorCode::kInvalidArgument, "{} needs a value{}", flag,
                       known ? ": " + setting->allowed : std::string());
    }
  }
  return line;
}

std::string HelpText(const std::string& program) {
  std::string text = fmt::format(
      "usage: {} [flags]\n\nEvery flag is also an environment variable and a key of the YAML file "
      "named by\n--config or {}. Flags win over the environment, the environment over the "
      "file.\n\n",
      program, kConfigVariable);
  for (const Setting& setting : Settings()) {
    text += fmt::format(
        "  {}  ({})\n      {}{}\n", setting.Flag(), setting.variable, setting.help,
        setting.default_text.empty() ? std::string() : " [" + setting.default_text + "]");
  }
  return text;
}

Result<void> ApplyEnvironment(const ManagerConfig::Environment& environment,
                              ManagerConfig& config) {
  for (const Setting& setting : Settings()) {
    if (const char* text = environment(setting.variable.c_str())) {
      LARDER_RETURN_IF_ERROR(internal::Apply(setting, config, text, setting.variable));
    }
  }
  return {};
}

tl::unexpected<Error> NotShorter(const char* what, ManagerConfig::Duration value,
                                 const char* than_what, ManagerConfig::Duration than) {
  return MakeError(ErrorCode::kInvalidArgument, "{} ({}) must be shorter than {} ({})", what,
                   FormatDuration(value), than_what, FormatDuration(than));
}

}  // namespace

Result<ManagerConfig> ManagerConfig::Load(int argc, const char* const* argv,
                                          const Environment& environment) {
  const Environment& variables =
      environment ? environment : Environment([](const char* name) { return std::getenv(name); });
  ManagerConfig config;
  if (argc > 0) config.program = std::filesystem::path(argv[0]).filename().string();
  LARDER_ASSIGN_OR_RETURN(const CommandLine line, ReadFlags(argc, argv));
  if (line.help) {
    config.help_text = HelpText(config.program);
    return config;
  }
  std::string file;
  if (const char* named = variables(kConfigVariable)) file = named;
  if (const auto flag = line.values.find("--config"); flag != line.values.end()) {
    file = flag->second;
  }
  if (!file.empty()) LARDER_RETURN_IF_ERROR(ReadFile(file, config));
  LARDER_RETURN_IF_ERROR(ApplyEnvironment(variables, config));
  for (const Setting& setting : Settings()) {
    const auto flag = line.values.find(setting.Flag());
    if (flag == line.values.end()) continue;
    LARDER_RETURN_IF_ERROR(internal::Apply(setting, config, flag->second, flag->first));
  }
  config.arguments = line.rest;
  LARDER_RETURN_IF_ERROR(config.Validate());
  return config;
}

Result<void> ManagerConfig::Validate() const {
  InformerConfig scope;
  scope.ns = ns;
  LARDER_RETURN_IF_ERROR(scope.Validate());
  if (base_delay > max_delay) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "WORKQUEUE_BASE_DELAY ({}) must not be longer than WORKQUEUE_MAX_DELAY ({})",
                     FormatDuration(base_delay), FormatDuration(max_delay));
  }
  if (renew_deadline >= lease_duration) {
    return NotShorter("RENEW_DEADLINE", renew_deadline, "LEASE_DURATION", lease_duration);
  }
  // client-go asks for the same: one try and its jitter must fit.
  if (retry_period * 6 >= renew_deadline * 5) {
    return NotShorter("RETRY_PERIOD times 1.2", retry_period * 6 / 5, "RENEW_DEADLINE",
                      renew_deadline);
  }
  if (!encryption_key_file.empty() && !encryption_key_variable.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "LARDER_ENCRYPTION_KEY_FILE and LARDER_ENCRYPTION_KEY_VARIABLE: set one only");
  }
  if (tls_cert_file.empty() != tls_key_file.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "LARDER_TLS_CERT_FILE and LARDER_TLS_KEY_FILE go together: set both or none");
  }
  return {};
}

}  // namespace larder
