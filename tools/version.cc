#include <cstdio>

#include "client/config.h"
#include "tools/command.h"

namespace larder::tools {

void AddVersion(CLI::App& app, Context&) {
  app.add_subcommand("version", "Print the version")->callback([] {
    std::printf("%s\n", DefaultUserAgent().c_str());
  });
}

}  // namespace larder::tools
