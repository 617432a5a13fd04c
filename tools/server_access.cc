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
  const bool named = !arguments.kubeconfig.empty() || !arguments.context.empty();
  auto config = named ? LoadKubeconfig(arguments.kubeconfig, arguments.context) : DefaultConfig();
  if (!config) {
    // Missing, unreadable or wrong: to a script it is one thing, bad input.
    config.error().code = ErrorCode::kInvalidArgument;
    return tl::unexpected(config.error());
  }
  return MakeTransport(*config);
}

}  // namespace larder::tools
