// The `larder` command.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>

#include "base/process.h"
#include "client/config.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/parse_error.h"

int main(int argc, char** argv) {
  using namespace larder::tools;
  larder::KeepFilesPrivate();
  const auto colours =
      UseColour(STDERR_FILENO) ? spdlog::color_mode::automatic : spdlog::color_mode::never;
  spdlog::set_default_logger(spdlog::stderr_color_mt("larder", colours));
  larder::UseLogFormat();

  Context context;
  context.stop = HandleSignals();
  CLI::App app{
      "larder keeps a Kubernetes controller's informer cache and work queue on disk,\n"
      "so that a restart goes on where it stopped.",
      "larder"};
  app.set_version_flag("--version", larder::DefaultUserAgent());
  app.require_subcommand(1);
  app.fallthrough();  // --log-level may stand behind the command, too
  std::string log_level = "warn";
  app.add_option("--log-level", log_level, "trace, debug, info, warn, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->envname("LARDER_LOG_LEVEL")
      ->capture_default_str();
  app.parse_complete_callback([&] { spdlog::set_level(spdlog::level::from_str(log_level)); });
  AddCommands(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return FailParse(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "larder: %s\n", error.what());
    return kUnusable;
  }
  Stdout().Flush();
  if (const int failed = Stdout().error(); failed != 0) {
    std::fprintf(stderr, "larder: cannot write the answer: %s\n", std::strerror(failed));
    return kUnusable;
  }
  return context.exit_code;
}
