#include "client/kubeconfig.h"

#include <cstdlib>
#include <sstream>

#include "client/file_util.h"
#include "client/kubeconfig_reader.h"

namespace larder {
namespace {

constexpr char kExecExtension[] = "client.authentication.k8s.io/exec";

struct KubeconfigPaths {
  std::vector<std::string> paths;
  bool must_exist = false;  // all of them
};

KubeconfigPaths FindPaths(const std::string& path) {
  if (!path.empty()) return {{path}, true};
  if (const char* variable = std::getenv("KUBECONFIG"); variable != nullptr && *variable != '\0') {
    KubeconfigPaths result;
    std::istringstream list(variable);
    for (std::string entry; std::getline(list, entry, ':');) {
      if (!entry.empty()) result.paths.push_back(entry);
    }
    return result;
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return {{std::string(home) + "/.kube/config"}, false};
  }
  return {};
}

Result<void> ReadCluster(FieldReader& cluster, ClientConfig& config) {
  config.server = cluster.Text("server");
  if (config.server.empty()) cluster.Fail("server", "is missing");
  config.tls_server_name = cluster.Text("tls-server-name");
  config.insecure_skip_tls_verify = cluster.Bool("insecure-skip-tls-verify");
  config.ca_data = cluster.Data("certificate-authority-data");
  if (config.ca_data.empty()) config.ca_file = cluster.Path("certificate-authority");
  config.proxy_url = cluster.Text("proxy-url");
  config.disable_compression = cluster.Bool("disable-compression");
  return cluster.status();
}

Result<ExecPlugin> ReadExec(FieldReader exec, const std::string& cluster_extension) {
  ExecPlugin plugin;
  plugin.api_version = exec.Text("apiVersion");
  plugin.command = exec.Text("command");
  if (plugin.command.empty()) exec.Fail("command", "is missing");
  // A bare name is looked up in PATH; one with a slash is a path like the others in the file.
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = exec.ResolvePath(plugin.command);
  }
  plugin.args = exec.Texts("args");
  plugin.env = exec.NamedValues("env");
  plugin.install_hint = exec.Text("installHint");
  plugin.provide_cluster_info = exec.Bool("provideClusterInfo");
  if (plugin.provide_cluster_info) plugin.cluster_extension_json = cluster_extension;
  if (exec.Text("interactiveMode") == "Always") {
    exec.Fail("interactiveMode", "is Always, but there is no terminal here");
  }
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    exec.Fail("apiVersion",
              "must be client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1");
  }
  LARDER_RETURN_IF_ERROR(exec.status());
  return plugin;
}

Result<void> ReadUser(FieldReader& user, const std::string& cluster_extension,
                      ClientConfig& config) {
  config.client_certificate_data = user.Data("client-certificate-data");
  if (config.client_certificate_data.empty()) {
    config.client_certificate_file = user.Path("client-certificate");
  }
  config.client_key_data = user.Data("client-key-data");
  if (config.client_key_data.empty()) config.client_key_file = user.Path("client-key");
  config.token = user.Text("token");
  config.token_file = user.Path("tokenFile");
  config.username = user.Text("username");
  config.password = user.Text("password");
  config.impersonate.user = user.Text("as");
  config.impersonate.uid = user.Text("as-uid");
  config.impersonate.groups = user.Texts("as-groups");
  config.impersonate.extra = user.TextLists("as-user-extra");
  if (user.Has("auth-provider")) {
    user.Fail("auth-provider", "is no longer supported; use an exec plugin");
  }
  const bool has_token = !config.token.empty() || !config.token_file.empty();
  if (has_token && !config.username.empty()) {
    user.Fail("username", "and a token exclude each other");
  }
  if (user.Has("exec")) {
    if (has_token || !config.username.empty()) {
      user.Fail("exec", "and a token or user name exclude each other");
    }
    LARDER_ASSIGN_OR_RETURN(config.exec, ReadExec(user.Child("exec"), cluster_extension));
  }
  return user.status();
}

FieldReader* Find(std::map<std::string, FieldReader>& entries, const std::string& name) {
  const auto found = entries.find(name);
  return found == entries.end() ? nullptr : &found->second;
}

// Follows the context to its cluster and its user.
Result<ClientConfig> Build(KubeconfigDocument& merged, const std::string& files,
                           const std::string& context) {
  ClientConfig config;
  config.context = context.empty() ? merged.current_context : context;
  if (config.context.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: no current-context is set and none was asked for", files);
  }
  FieldReader* entry = Find(merged.contexts, config.context);
  if (entry == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: there is no context '{}'", files,
                     config.context);
  }
  const std::string cluster_name = entry->Text("cluster");
  const std::string user_name = entry->Text("user");
  if (std::string ns = entry->Text("namespace"); !ns.empty()) config.default_namespace = ns;
  LARDER_RETURN_IF_ERROR(entry->status());

  FieldReader* cluster = Find(merged.clusters, cluster_name);
  if (cluster == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: contexts[{}].context.cluster names '{}', which is not there", files,
                     config.context, cluster_name);
  }
  LARDER_RETURN_IF_ERROR(ReadCluster(*cluster, config));
  if (!user_name.empty()) {
    FieldReader* user = Find(merged.users, user_name);
    if (user == nullptr) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: contexts[{}].context.user names '{}', which is not there", files,
                       config.context, user_name);
    }
    LARDER_RETURN_IF_ERROR(ReadUser(*user, cluster->ExtensionJson(kExecExtension), config));
  }
  if (Result<void> valid = ValidateConfig(config); !valid) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: context '{}': {}", files, config.context,
                     valid.error().message);
  }
  return config;
}

}  // namespace

Result<ClientConfig> ConfigFromKubeconfigs(const std::vector<KubeconfigFile>& files,
                                           const std::string& context) {
  KubeconfigDocument merged;
  std::string names;
  for (const KubeconfigFile& file : files) {
    LARDER_ASSIGN_OR_RETURN(KubeconfigDocument document, ReadKubeconfigDocument(file));
    // map::merge keeps what is there already: the first file wins.
    merged.clusters.merge(document.clusters);
    merged.users.merge(document.users);
    merged.contexts.merge(document.contexts);
    if (merged.current_context.empty()) merged.current_context = document.current_context;
    names += (names.empty() ? "" : ":") + file.path;
  }
  if (merged.clusters.empty() && merged.contexts.empty()) {
    return MakeError(ErrorCode::kNotFound, "{} names no cluster", names);
  }
  try {
    return Build(merged, names, context);
  } catch (const YAML::Exception& e) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: not a valid kubeconfig near line {}", names,
                     e.mark.line + 1);
  }
}

Result<ClientConfig> LoadKubeconfig(const std::string& path, const std::string& context) {
  const KubeconfigPaths found = FindPaths(path);
  std::vector<KubeconfigFile> files;
  std::string missing;
  for (const std::string& each : found.paths) {
    Result<std::string> text = ReadSmallFile(each);
    if (text) {
      files.push_back({each, *std::move(text)});
    } else if (text.error().code == ErrorCode::kNotFound && !found.must_exist) {
      missing += (missing.empty() ? "" : ", ") + each;
    } else {
      return tl::unexpected(std::move(text).error());
    }
  }
  if (files.empty()) {
    return MakeError(ErrorCode::kNotFound, "no kubeconfig (looked for: {})",
                     missing.empty() ? "nothing, as KUBECONFIG and HOME are not set" : missing);
  }
  return ConfigFromKubeconfigs(files, context);
}

}  // namespace larder
