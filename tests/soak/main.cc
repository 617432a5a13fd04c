// The soak: churn, a handler that hangs, restarts; do memory and disk stay flat?
//
//   larder_soak [--seconds N] [--rate N] [--objects N] [--restart-every N] [--warm-up N]
//               [--bound PERCENT] [--csv FILE] [--directory DIR]
//
// Ends with 1 when something grows, when the pods are listed though nobody was far behind, or when
// the last process does not come to rest.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/soak/controller.h"
#include "tests/soak/run.h"

namespace larder::soak {
namespace {

namespace fs = std::filesystem;

int Main(int argc, char** argv) {
  CLI::App app("Soaks a controller and judges whether its memory and its disk stay flat.");
  RunOptions options;
  app.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rate", options.rate, "changes a second")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--objects", options.objects)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--restart-every", options.restart_every, "seconds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warm-up", options.warm_up, "seconds of each life that are not judged")
      ->capture_default_str();
  app.add_option("--bound", options.bound_percent, "growth an hour that is flat still, percent")
      ->capture_default_str();
  app.add_flag("--judge-lives", options.judge_lives,
               "judge what grows within lives shorter than a quarter of an hour, too");
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--csv", options.csv, "where the samples go");
  app.add_option("--expire-after", options.expire_after)->group("");
  app.add_option("--directory", options.directory, "where the store is; it is left there");

  ControllerOptions controller;
  CLI::App* command = app.add_subcommand("controller", "")->group("");
  command->add_option("--url", controller.url);
  command->add_option("--store", controller.store);
  command->add_option("--namespace", controller.ns);
  command->add_option("--status", controller.status_file);
  command->add_option("--log", controller.log);
  command->add_flag("--hang-at-once", controller.hang_at_once);
  command->add_option("--settle-at", controller.settle_at);
  CLI11_PARSE(app, argc, argv);
  if (command->parsed()) return RunController(controller);

  options.program = fs::read_symlink("/proc/self/exe").string();
  std::string scratch;
  if (options.directory.empty()) {
    scratch = (fs::temp_directory_path() / "larder-soak-XXXXXX").string();
    if (::mkdtemp(scratch.data()) == nullptr) {
      std::fprintf(stderr, "soak: no temporary directory\n");
      return 2;
    }
    options.directory = scratch;
  }
  fs::create_directories(options.directory);
  const std::vector<std::string> problems = RunSoak(options);
  for (const std::string& problem : problems) std::printf("PROBLEM: %s\n", problem.c_str());
  std::printf("soak: %s\n", problems.empty() ? "flat" : "not flat");
  if (!problems.empty()) {
    std::printf("store and log: %s\n", options.directory.c_str());
  } else if (!scratch.empty()) {
    std::error_code ignored;
    fs::remove_all(scratch, ignored);
  }
  return problems.empty() ? 0 : 1;
}

}  // namespace
}  // namespace larder::soak

int main(int argc, char** argv) { return larder::soak::Main(argc, argv); }
