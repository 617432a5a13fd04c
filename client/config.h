// Where the API server is and who we are to it.
//
// Read from a kubeconfig as kubectl reads it, from the pod's service account, or made by hand. A
// ClientConfig is plain data: copy it, change it, give it to MakeTransport. Files that it names
// (token, certificate, key) are read again as they rotate; inline data is not.
//
// The loaders may be called from any thread. They fail with kNotFound where there is no file (or it
// is empty of clusters) and with kInvalidArgument where its content is wrong; the message names the
// file and the field, and never shows a secret.
//
//   Result<ClientConfig> config = DefaultConfig();
//   if (!config) return Fail(config.error());
//   auto transport = MakeTransport(*config);
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace larder {

// A program that prints credentials (client.authentication.k8s.io). It is run with its argv, never
// through a shell, without a terminal; what it prints is never logged.
struct ExecPlugin {
  std::string api_version;  // "client.authentication.k8s.io/v1" or ".../v1beta1"
  std::string command;      // a path, or a name that is looked up in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // added to our own environment
  std::string install_hint;                              // shown when the command does not exist
  bool provide_cluster_info = false;
  std::string cluster_extension_json;  // the cluster's extension for the plugin, as JSON
  std::chrono::milliseconds timeout{60'000};
  size_t max_output_bytes = size_t{1} << 20;
};

// Act as somebody else; the server checks that we may.
struct Impersonation {
  std::string user;
  std::string uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;

  bool Empty() const { return user.empty() && uid.empty() && groups.empty() && extra.empty(); }
};

struct ClientConfig {
  // "https://host:6443", with a path in front of /api where a proxy wants one. Plain http only for
  // loopback addresses.
  std::string server;

  // Who may sign the server's certificate, as PEM. With neither the system's list is used; a file
  // that is named and cannot be read is an error.
  std::string ca_file;
  std::string ca_data;
  // The name that the certificate must carry where it is not the host in `server`.
  std::string tls_server_name;
  // Do not verify the server. Anyone on the way can then read and change everything: logged as a
  // warning.
  bool insecure_skip_tls_verify = false;
  // "http://", "https://" or "socks5://". Empty: the environment's proxy settings, as curl reads
  // them.
  std::string proxy_url;

  // Client certificate and key, PEM, from a file or inline (inline wins).
  std::string client_certificate_file;
  std::string client_certificate_data;
  std::string client_key_file;
  std::string client_key_data;
  // Bearer token. The file is read again at least once a minute and after a 401; what it held last
  // wins over `token`.
  std::string token;
  std::string token_file;
  // HTTP basic authentication, as some proxies in front of an API server still use it.
  std::string username;
  std::string password;
  std::optional<ExecPlugin> exec;
  Impersonation impersonate;

  // The context's namespace; "default" where it names none.
  std::string default_namespace = "default";
  // The name of the context that this came from; empty when not from a kubeconfig.
  std::string context;

  // Requests a second on average, and how many at once, for everything that goes through one
  // transport. 0: no limit.
  double qps = 50;
  int burst = 100;
  // Do not ask for gzip.
  bool disable_compression = false;
  std::string user_agent;  // empty: "larder/<version>"

  std::chrono::milliseconds connect_timeout{10'000};
  // How much of an unread answer is held for one stream before its transfer is paused.
  size_t stream_buffer_bytes = size_t{1} << 20;
};

// Reads `path`; where that is empty, the files of KUBECONFIG, else ~/.kube/config. Several files in
// KUBECONFIG merge as in kubectl: for each cluster, user and context and for current-context the
// first file that has it wins, and files that do not exist are skipped. `context` empty means
// current-context.
Result<ClientConfig> LoadKubeconfig(const std::string& path = {}, const std::string& context = {});

// The service account of the pod that we run in.
Result<ClientConfig> InClusterConfig();

// A kubeconfig where there is one, else the service account; otherwise an error that says what was
// looked for.
Result<ClientConfig> DefaultConfig();

// For tests and local servers: no credentials, no limit on the rate.
ClientConfig ForUrl(std::string_view url);

// What MakeTransport checks first: the URL, plain http only to loopback, fields that exclude each
// other.
Result<void> ValidateConfig(const ClientConfig& config);

// "larder/0.1.0".
std::string DefaultUserAgent();

}  // namespace larder
