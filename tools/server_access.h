// How commands reach an API server: --server, --kubeconfig, or what kubectl would use.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/error.h"
#include "client/transport.h"

namespace larder::tools {

struct ServerArguments {
  std::string url{};
  std::string kubeconfig{};
  std::string context{};
};

void AddServerOptions(CLI::App* command, ServerArguments& arguments);
// A URL, else the kubeconfig named, else KUBECONFIG, ~/.kube/config or the pod's service account.
Result<std::unique_ptr<HttpTransport>> Connect(const ServerArguments& arguments);

}  // namespace larder::tools
