// Small files: configuration, tokens, certificates.
#pragma once

#include <string>

#include "base/error.h"

namespace larder {

// The whole file. kNotFound where it does not exist, kIo where it cannot be read, kInvalidArgument
// where it is larger than 10 MiB or not a regular file (a FIFO would block for ever).
Result<std::string> ReadSmallFile(const std::string& path);

}  // namespace larder
