#include "client/config.h"

#include "client/kubeconfig.h"
#include "client/server_url.h"

namespace larder {

std::string DefaultUserAgent() { return "larder/" LARDER_VERSION; }

ClientConfig ForUrl(std::string_view url) {
  ClientConfig config;
  config.server = std::string(url);
  config.qps = 0;
  return config;
}

Result<void> ValidateConfig(const ClientConfig& config) {
  LARDER_ASSIGN_OR_RETURN(const ServerUrl url, ParseServerUrl(config.server));
  const auto refuse = [](std::string_view why) {
    return MakeError(ErrorCode::kInvalidArgument, "{}", why);
  };
  if (url.scheme == "http" && !url.IsLoopback()) {
    return refuse("plain http is only allowed to loopback addresses; use https");
  }
  const bool has_ca = !config.ca_file.empty() || !config.ca_data.empty();
  if (config.insecure_skip_tls_verify && has_ca) {
    return refuse("insecure-skip-tls-verify and a certificate authority exclude each other");
  }
  const bool has_certificate =
      !config.client_certificate_file.empty() || !config.client_certificate_data.empty();
  const bool has_key = !config.client_key_file.empty() || !config.client_key_data.empty();
  if (has_certificate != has_key) {
    return refuse("a client certificate and its key must be given together");
  }
  if (config.impersonate.user.empty() && !config.impersonate.Empty()) {
    return refuse("impersonating a uid, groups or extra fields needs a user too");
  }
  if (!config.proxy_url.empty()) LARDER_RETURN_IF_ERROR(CheckProxyUrl(config.proxy_url));
  if (config.stream_buffer_bytes == 0) return refuse("stream_buffer_bytes must not be 0");
  return {};
}

Result<ClientConfig> DefaultConfig() {
  Result<ClientConfig> from_file = LoadKubeconfig();
  if (from_file || from_file.error().code != ErrorCode::kNotFound) return from_file;
  Result<ClientConfig> in_cluster = InClusterConfig();
  if (in_cluster || in_cluster.error().code != ErrorCode::kNotFound) return in_cluster;
  return MakeError(ErrorCode::kNotFound,
                   "no cluster to talk to: {}; and not inside a pod: {}. Set KUBECONFIG, or name a "
                   "kubeconfig file",
                   from_file.error().message, in_cluster.error().message);
}

}  // namespace larder
