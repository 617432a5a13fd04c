// `larder serve`: a store as a read-only Kubernetes API, for kubectl and every other client.
#include <cstdio>
#include <memory>

#include "apiserver/api_handler.h"
#include "apiserver/http_server.h"
#include "apiserver/tls.h"
#include "base/clock.h"
#include "tools/command.h"
#include "tools/follower.h"
#include "tools/output.h"
#include "tools/serve/access.h"
#include "tools/serve/host_filter.h"
#include "tools/serve/read_api.h"
#include "tools/serve/watch_hub.h"
#include "tools/store_access.h"

namespace larder::tools {
namespace {

struct ServeArguments {
  StoreArguments store;
  std::string listen = "127.0.0.1:0";
  std::string kubeconfig;
  std::string token_file;
  bool no_token = false;
  bool remote = false;
  std::vector<std::string> hosts;
};

Result<apiserver::HttpServer::Options> ParseListen(const ServeArguments& arguments) {
  apiserver::HttpServer::Options options;
  const std::string& text = arguments.listen;
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (colon != std::string::npos && colon > 0) options.host = text.substr(0, colon);
  const bool brackets = options.host.front() == '[' && options.host.back() == ']';
  if (brackets) options.host = options.host.substr(1, options.host.size() - 2);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos ||
      port.size() > 5 || std::stoi(port) > 65535) {
    return MakeError(ErrorCode::kInvalidArgument, "--listen {}: spell it HOST:PORT or PORT", text);
  }
  options.port = std::stoi(port);
  const bool loopback =
      options.host == "127.0.0.1" || options.host == "localhost" || options.host == "::1";
  if (!loopback && !arguments.remote) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--listen {}: whoever can reach that address and gets hold of the token could "
                     "read the whole store; if that is wanted, add --allow-remote",
                     text);
  }
  return options;
}

Result<TokenGuard> GuardOf(const ServeArguments& arguments) {
  if (arguments.no_token) return TokenGuard();
  if (arguments.token_file.empty()) return TokenGuard::Random();
  return TokenGuard::FromFile(arguments.token_file);
}

// Null: no TLS.
Result<std::unique_ptr<apiserver::TlsAuthority>> AuthorityOf(const ServeArguments& arguments,
                                                             const std::string& host) {
  if (arguments.no_token) return nullptr;
  std::vector<std::string> names = {host, "127.0.0.1", "::1", "localhost"};
  names.insert(names.end(), arguments.hosts.begin(), arguments.hosts.end());
  return apiserver::TlsAuthority::Create(names);
}

std::string UrlOf(const std::string& host, int port, bool tls) {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", tls ? "https" : "http", v6 ? "[" : "", host, v6 ? "]" : "",
                     port);
}

apiserver::ApiStatus OtherHostStatus(const std::string& host) {
  apiserver::ApiStatus status;
  status.code = 403;
  status.reason = "Forbidden";
  status.message = fmt::format(
      "forbidden: this server does not go by the name \"{}\"; larder serve --allow-host lets it",
      host);
  return status;
}

// For a person; a script reads the URL.
void SayHow(const ServeArguments& arguments, const std::string& url,
            const std::string& kubeconfig) {
  std::fprintf(stderr, "larder: %s is served, read-only: kubectl %s %s get pods -A\n",
               arguments.store.path.c_str(), kubeconfig.empty() ? "-s" : "--kubeconfig",
               (kubeconfig.empty() ? url : kubeconfig).c_str());
  if (!arguments.no_token) return;
  std::fprintf(stderr,
               "larder: warning: --no-token: everybody who can reach %s can read the whole store, "
               "every user of this machine at least\n",
               url.c_str());
}

Result<int> Run(const ServeArguments& arguments, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(auto options, ParseListen(arguments));
  LARDER_ASSIGN_OR_RETURN(const TokenGuard guard, GuardOf(arguments));
  LARDER_ASSIGN_OR_RETURN(const auto authority, AuthorityOf(arguments, options.host));
  if (authority) options.tls = authority->server_context();
  LARDER_ASSIGN_OR_RETURN(const auto follower, StoreFollower::Open(arguments.store));
  WatchHub hub(follower.get(), {});
  ReadApi api(follower.get(), &hub);
  const HostFilter hosts(options.host, arguments.hosts);
  apiserver::HttpServer server(
      options, [&](const httplib::Request& request, httplib::Response& response,
                   apiserver::Connection& connection) {
        const std::string host = request.get_header_value("Host");
        if (!hosts.Allows(host)) return apiserver::AnswerStatus(OtherHostStatus(host), response);
        if (!guard.Allows(request.path, request.get_header_value("Authorization"))) {
          return apiserver::AnswerStatus(apiserver::UnauthorizedStatus(), response);
        }
        api.Handle(request, response, connection);
      });
  api.SetMonitor(&server.monitor());
  LARDER_RETURN_IF_ERROR(server.Start());
  const std::string url = UrlOf(options.host, server.port(), options.tls != nullptr);
  const KubeconfigContent content{url, authority ? authority->ca_certificate() : "", guard.token()};
  TemporaryKubeconfig temporary;
  std::string kubeconfig = arguments.kubeconfig;
  if (!kubeconfig.empty()) {
    LARDER_RETURN_IF_ERROR(WriteKubeconfig(kubeconfig, content));
  } else if (!arguments.no_token) {
    LARDER_ASSIGN_OR_RETURN(kubeconfig, temporary.Write(content));
  }
  Stdout().Print("{}\n", url);
  Stdout().Flush();
  SayHow(arguments, url, kubeconfig);
  while (RealClock()->SleepFor(std::chrono::hours(1), stop)) {
  }
  hub.Stop();
  server.Stop();
  return kOk;
}

}  // namespace

void AddServe(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = app.add_subcommand(
      "serve", "Serve a store as a read-only Kubernetes API; prints its URL on stdout");
  AddStoreOptions(command, arguments->store);
  command->add_option("--listen", arguments->listen, "HOST:PORT; port 0: any free one")
      ->capture_default_str();
  command->add_flag("--allow-remote", arguments->remote,
                    "Listen on other addresses than loopback, too");
  command
      ->add_option("--allow-host", arguments->hosts,
                   "A name that clients may call it by, beside loopback's and the address it "
                   "listens on; its certificate is for it, too; may be repeated")
      ->type_name("NAME");
  command
      ->add_option("--write-kubeconfig", arguments->kubeconfig,
                   "Write the kubeconfig for kubectl, with the token, to this file instead of a "
                   "temporary one")
      ->type_name("FILE");
  auto* token = command->add_option("--token-file", arguments->token_file,
                                    "The token that clients must have, instead of a random one");
  token->type_name("FILE");
  command
      ->add_flag("--no-token", arguments->no_token,
                 "Ask for no token, and speak plain HTTP: for everybody who can reach it")
      ->excludes(token);
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments, context.stop)); });
}

}  // namespace larder::tools
