// Credential plugins: the client.authentication.k8s.io protocol, v1 and v1beta1.
//
// RunExecPlugin starts the program with KUBERNETES_EXEC_INFO in its environment, which tells of
// the cluster and its authority (`ca_pem`) where the plugin wants that, and reads the
// ExecCredential that it prints. Nothing of its output reaches a log or a message. Thread-safe;
// blocks until the program ended.
//
//   Result<ExecCredential> credential = RunExecPlugin(config, *config.exec, ca_pem, stop);
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "client/config.h"

namespace larder {

struct ExecCredential {
  std::string token;
  std::string certificate_pem;
  std::string key_pem;
  std::optional<Clock::Wall> expires;  // without it: until the server says 401
};

// Reads a plugin's output. kUnauthorized, saying what is wrong with it but not what it is, unless
// it is an ExecCredential of `api_version` with a token, or a certificate and its key, or both.
Result<ExecCredential> ParseExecCredential(std::string_view json, std::string_view api_version);

// kUnauthorized where the plugin is missing, failed or printed something else; kTimeout;
// kCancelled.
Result<ExecCredential> RunExecPlugin(const ClientConfig& config, const ExecPlugin& plugin,
                                     const std::string& ca_pem, const std::stop_token& stop);

}  // namespace larder
