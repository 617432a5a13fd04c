// A kubeconfig that a server of ours writes for its clients.
//
// It says in its first line who wrote it, and takes the place of no file that does not. Readable by
// its owner only, and whole or not at all.
//
//   LARDER_RETURN_IF_ERROR(WriteKubeconfigFile(path, "larder serve", text));
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace larder::apiserver {

// Fails with kAlreadyExists where there is a file that `writer` did not write.
Result<void> WriteKubeconfigFile(const std::string& path, std::string_view writer,
                                 std::string_view text);

}  // namespace larder::apiserver
