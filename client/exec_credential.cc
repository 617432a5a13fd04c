#include "client/exec_credential.h"

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "client/subprocess.h"
#include "client/timestamp.h"
#include "schema/object.h"

namespace larder {
namespace {

constexpr std::string_view kGroup = "client.authentication.k8s.io/";

tl::unexpected<Error> Refused(std::string_view what) {
  return MakeError(ErrorCode::kUnauthorized, "the credential plugin's output is not usable: {}",
                   what);
}

// An absent or null field is an empty text; nullopt where it is something else than text.
std::optional<std::string> TextField(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::string();
  if (!found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

Json ClusterInfo(const ClientConfig& config, const ExecPlugin& plugin, const std::string& ca_pem) {
  Json cluster = {{"server", config.server}};
  if (!config.tls_server_name.empty()) cluster["tls-server-name"] = config.tls_server_name;
  if (config.insecure_skip_tls_verify) cluster["insecure-skip-tls-verify"] = true;
  if (!config.proxy_url.empty()) cluster["proxy-url"] = config.proxy_url;
  if (config.disable_compression) cluster["disable-compression"] = true;
  if (!ca_pem.empty()) cluster["certificate-authority-data"] = EncodeBase64(ca_pem);
  if (!plugin.cluster_extension_json.empty()) {
    cluster["config"] = Json::parse(plugin.cluster_extension_json, nullptr, false);
  }
  return cluster;
}

std::string ExecInfo(const ClientConfig& config, const ExecPlugin& plugin,
                     const std::string& ca_pem) {
  Json info = {{"kind", "ExecCredential"},
               {"apiVersion", plugin.api_version},
               {"spec", {{"interactive", false}}}};
  if (plugin.provide_cluster_info) {
    info["spec"]["cluster"] = ClusterInfo(config, plugin, ca_pem);
  }
  return info.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<ExecCredential> ParseExecCredential(std::string_view json, std::string_view api_version) {
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return Refused("it is not a JSON object");
  if (TextField(document, "kind") != "ExecCredential") {
    return Refused("its kind is not ExecCredential");
  }
  if (TextField(document, "apiVersion") != api_version) {
    return Refused(fmt::format("its apiVersion is not {}, as the kubeconfig asks", api_version));
  }
  const auto status = document.find("status");
  if (status == document.end() || !status->is_object()) return Refused("it has no status");

  const auto token = TextField(*status, "token");
  const auto certificate = TextField(*status, "clientCertificateData");
  const auto key = TextField(*status, "clientKeyData");
  const auto expires = TextField(*status, "expirationTimestamp");
  if (!token) return Refused("status.token is not text");
  if (!certificate) return Refused("status.clientCertificateData is not text");
  if (!key) return Refused("status.clientKeyData is not text");
  if (!expires) return Refused("status.expirationTimestamp is not text");
  if (certificate->empty() != key->empty()) {
    return Refused("a client certificate and its key must come together");
  }
  if (token->empty() && certificate->empty()) {
    return Refused("it has neither a token nor a client certificate");
  }
  ExecCredential credential{*token, *certificate, *key, std::nullopt};
  if (!expires->empty()) {
    credential.expires = ParseTimestamp(*expires);
    if (!credential.expires) return Refused("status.expirationTimestamp is not an RFC 3339 time");
  }
  return credential;
}

Result<ExecCredential> RunExecPlugin(const ClientConfig& config, const ExecPlugin& plugin,
                                     const std::string& ca_pem, const std::stop_token& stop) {
  if (plugin.api_version != std::string(kGroup) + "v1" &&
      plugin.api_version != std::string(kGroup) + "v1beta1") {
    return MakeError(ErrorCode::kUnauthorized,
                     "the credential plugin {} wants apiVersion '{}'; {}v1 and {}v1beta1 are known",
                     plugin.command, plugin.api_version, kGroup, kGroup);
  }
  ProgramSpec program;
  program.argv.push_back(plugin.command);
  program.argv.insert(program.argv.end(), plugin.args.begin(), plugin.args.end());
  program.env = plugin.env;
  program.env.emplace_back("KUBERNETES_EXEC_INFO", ExecInfo(config, plugin, ca_pem));
  program.timeout = plugin.timeout;
  program.max_output_bytes = plugin.max_output_bytes;

  Result<std::string> output = RunProgram(program, stop);
  if (!output) {
    Error error = std::move(output).error();
    if (error.code == ErrorCode::kCancelled) return tl::unexpected(std::move(error));
    // Codes such as kNotFound mean something else to those who asked for an object.
    const bool missing = error.code == ErrorCode::kNotFound;
    if (error.code != ErrorCode::kTimeout) error.code = ErrorCode::kUnauthorized;
    error.message = "the credential plugin gave no credential: " + error.message;
    if (missing && !plugin.install_hint.empty()) error.message += "; " + plugin.install_hint;
    return tl::unexpected(std::move(error));
  }
  return ParseExecCredential(*output, plugin.api_version);
}

}  // namespace larder
