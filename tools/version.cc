#include <cstdio>
#include <memory>
#include <string>

#include "client/config.h"
#include "tools/command.h"

namespace larder::tools {

void AddVersion(CLI::App& app, Context&) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->add_flag("--json", *json, "For scripts");
  command->callback([json] {
    const std::string name = DefaultUserAgent();  // larder/0.1.0
    if (*json) {
      std::printf("{\"version\": \"%s\"}\n", name.substr(name.find('/') + 1).c_str());
    } else {
      std::printf("%s\n", name.c_str());
    }
  });
}

}  // namespace larder::tools
