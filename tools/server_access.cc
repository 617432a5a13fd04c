#include "tools/server_access.h"

#include "client/config.h"

namespace larder::tools {

void AddServerOptions(CLI::App* command, ServerArguments& arguments) {
  command->add_option("--server", arguments.url, "URL of an API server that needs no credentials");
  command->add_option("--kubeconfig", arguments.kubeconfig, "As for kubectl")->type_name("FILE");
  command->add_option("--context", arguments.context, "Which context of the kubeconfig");
}

Result<std::unique_ptr<HttpTransport>> Connect(const ServerArguments& arguments) {
  if (!arguments.url.empty()) return MakeTransport(ForUrl(arguments.url));
  if (!arguments.kubeconfig.empty() || !arguments.context.empty()) {
    LARDER_ASSIGN_OR_RETURN(const ClientConfig config,
                            LoadKubeconfig(arguments.kubeconfig, arguments.context));
    return MakeTransport(config);
  }
  LARDER_ASSIGN_OR_RETURN(const ClientConfig config, DefaultConfig());
  return MakeTransport(config);
}

}  // namespace larder::tools
