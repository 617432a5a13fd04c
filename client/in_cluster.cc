#include <cstdlib>

#include "base/text.h"
#include "client/config.h"
#include "client/file_util.h"
#include "client/kubeconfig.h"

namespace larder {
namespace {

constexpr char kServiceAccountDirectory[] = "/var/run/secrets/kubernetes.io/serviceaccount";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

Result<ClientConfig> InClusterConfigFrom(const std::string& directory) {
  const std::string host = Environment("KUBERNETES_SERVICE_HOST");
  const std::string port = Environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return MakeError(ErrorCode::kNotFound,
                     "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  ClientConfig config;
  const bool ipv6 = host.find(':') != std::string::npos;
  config.server = "https://" + (ipv6 ? "[" + host + "]" : host) + ":" + port;
  config.token_file = directory + "/token";
  config.ca_file = directory + "/ca.crt";
  // Read here only to fail early and with a name.
  LARDER_RETURN_IF_ERROR(ReadSmallFile(config.token_file));
  LARDER_RETURN_IF_ERROR(ReadSmallFile(config.ca_file));
  if (const Result<std::string> file = ReadSmallFile(directory + "/namespace")) {
    const std::string_view ns = Trimmed(*file);
    if (!ns.empty()) config.default_namespace = ns;
  }
  LARDER_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

Result<ClientConfig> InClusterConfig() { return InClusterConfigFrom(kServiceAccountDirectory); }

}  // namespace larder
