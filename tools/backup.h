// `larder backup`: see tools/command.h for how commands are added.
#pragma once

#include "tools/command.h"

namespace larder::tools {

void AddBackup(CLI::App& app, Context& context);

}  // namespace larder::tools
