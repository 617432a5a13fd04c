// Who may read a store that is served: whoever has the token.
//
// A kubeconfig carries the token, and the authority of a certificate that is made at every start:
// kubectl sends no token without TLS.
//
//   LARDER_ASSIGN_OR_RETURN(const TokenGuard guard, TokenGuard::Random());
//   if (!guard.Allows(request.path, request.get_header_value("Authorization"))) ...   // 401
//   WriteKubeconfig(path, {url, authority, guard.token()});
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace larder::tools {

// Immutable.
class TokenGuard {
 public:
  // Everybody may.
  TokenGuard() = default;
  static Result<TokenGuard> Random();
  // One line of a file that nobody else can read.
  static Result<TokenGuard> FromFile(const std::string& path);

  // Empty: none is asked for.
  const std::string& token() const { return token_; }
  // Health and version are for everybody. Takes equally long for every wrong token.
  bool Allows(std::string_view path, std::string_view authorization) const;

 private:
  std::string token_;
};

struct KubeconfigContent {
  std::string url;
  std::string authority;  // PEM; empty: no TLS
  std::string token;
};

// As apiserver/kubeconfig_file.h: it takes the place of none that this function did not write.
Result<void> WriteKubeconfig(const std::string& path, const KubeconfigContent& content);

// A kubeconfig for as long as the server runs.
class TemporaryKubeconfig {
 public:
  TemporaryKubeconfig() = default;
  ~TemporaryKubeconfig();
  TemporaryKubeconfig(const TemporaryKubeconfig&) = delete;
  TemporaryKubeconfig& operator=(const TemporaryKubeconfig&) = delete;

  // Its path.
  Result<std::string> Write(const KubeconfigContent& content);

 private:
  std::string directory_;
};

}  // namespace larder::tools
