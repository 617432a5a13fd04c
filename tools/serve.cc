// `larder serve`: a store as a read-only Kubernetes API, for kubectl and every other client.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "apiserver/api_handler.h"
#include "apiserver/http_server.h"
#include "base/clock.h"
#include "tools/command.h"
#include "tools/follower.h"
#include "tools/output.h"
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
  bool remote = false;
  std::vector<std::string> hosts;
};

Result<apiserver::HttpServer::Options> ParseListen(const ServeArguments& arguments) {
  apiserver::HttpServer::Options options;
  const std::string& text = arguments.listen;
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (colon != std::string::npos && colon > 0) options.host = text.substr(0, colon);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos ||
      port.size() > 5 || std::stoi(port) > 65535) {
    return MakeError(ErrorCode::kInvalidArgument, "--listen {}: spell it HOST:PORT or PORT", text);
  }
  options.port = std::stoi(port);
  const bool loopback =
      options.host == "127.0.0.1" || options.host == "localhost" || options.host == "::1";
  if (!loopback && !arguments.remote) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--listen {}: whoever can reach that address could read the whole store, "
                     "without a password; if that is wanted, add --allow-remote",
                     text);
  }
  return options;
}

Result<void> WriteKubeconfig(const std::string& path, const std::string& url) {
  std::ofstream file(path);
  file << "apiVersion: v1\nkind: Config\ncurrent-context: larder\n"
       << "clusters:\n- name: larder\n  cluster:\n    server: " << url << "\n"
       << "contexts:\n- name: larder\n  context:\n    cluster: larder\n    user: larder\n"
       << "users:\n- name: larder\n  user: {}\n";
  file.flush();
  if (!file) return MakeError(ErrorCode::kIo, "cannot write {}", path);
  return {};
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

Result<int> Run(const ServeArguments& arguments, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const auto options, ParseListen(arguments));
  LARDER_ASSIGN_OR_RETURN(const auto follower, StoreFollower::Open(arguments.store));
  WatchHub hub(follower.get(), {});
  ReadApi api(follower.get(), &hub);
  const HostFilter hosts(options.host, arguments.hosts);
  apiserver::HttpServer server(options,
                               [&](const httplib::Request& request, httplib::Response& response,
                                   apiserver::Connection& connection) {
                                 const std::string host = request.get_header_value("Host");
                                 if (!hosts.Allows(host))
                                   return apiserver::AnswerStatus(OtherHostStatus(host), response);
                                 api.Handle(request, response, connection);
                               });
  api.SetMonitor(&server.monitor());
  LARDER_RETURN_IF_ERROR(server.Start());
  const std::string url = fmt::format("http://{}:{}", options.host, server.port());
  if (!arguments.kubeconfig.empty()) {
    LARDER_RETURN_IF_ERROR(WriteKubeconfig(arguments.kubeconfig, url));
  }
  Stdout().Print("{}\n", url);
  Stdout().Flush();
  // For a person; a script reads the URL.
  if (::isatty(STDOUT_FILENO) == 1) {
    std::fprintf(stderr, "%s is at %s, read-only: kubectl -s %s get pods -A. Ctrl-C ends it.\n",
                 arguments.store.path.c_str(), url.c_str(), url.c_str());
  }
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
                    "Listen on other addresses than loopback, too: there is no password");
  command
      ->add_option("--allow-host", arguments->hosts,
                   "A name that clients may call it by, beside loopback's and the address it "
                   "listens on; may be repeated")
      ->type_name("NAME");
  command
      ->add_option("--write-kubeconfig", arguments->kubeconfig,
                   "Write a kubeconfig for kubectl to this file")
      ->type_name("FILE");
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Run(*arguments, context.stop)); });
}

}  // namespace larder::tools
