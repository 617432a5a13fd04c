// What is wrong with a command line, in kubectl's words.
#pragma once

#include <CLI/CLI.hpp>

namespace larder::tools {

// Prints it on stderr, or the help where that was asked for; gives the exit code.
int FailParse(const CLI::App& app, const CLI::ParseError& error);

}  // namespace larder::tools
