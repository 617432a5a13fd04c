// Kubeconfig files as text: the part of LoadKubeconfig that needs no disk, for it, for tests and
// for fuzzing.
//
//   Result<ClientConfig> config = ConfigFromKubeconfigs({{"/home/a/.kube/config", text}}, "");
//
// Thread-safe: no state. Errors as in client/config.h.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "client/config.h"

namespace larder {

struct KubeconfigFile {
  std::string path;  // relative paths inside are relative to its folder
  std::string text;
};

// Merges the files, the first one to name something wins, and follows the context to a cluster and
// a user.
Result<ClientConfig> ConfigFromKubeconfigs(const std::vector<KubeconfigFile>& files,
                                           const std::string& context);

// The service account whose files are in `directory`, of the server that the pod's environment
// names.
Result<ClientConfig> InClusterConfigFrom(const std::string& directory);

}  // namespace larder
