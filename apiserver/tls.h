// A certificate authority of the simulator's own, made at start: server and client certificates for
// tests.
//
// Keys are P-256 and live in memory only, unless a kubeconfig is written with the client's.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace larder::apiserver {

struct PemPair {
  std::string certificate;
  std::string key;
};

class TlsAuthority {
 public:
  // `hosts`: names and addresses the server's certificate is for.
  static Result<std::unique_ptr<TlsAuthority>> Create(const std::vector<std::string>& hosts);
  ~TlsAuthority();
  TlsAuthority(const TlsAuthority&) = delete;
  TlsAuthority& operator=(const TlsAuthority&) = delete;

  const std::string& ca_certificate() const { return ca_pem_; }
  // A client certificate with this common name.
  Result<PemPair> IssueClient(const std::string& common_name) const;
  // TLS 1.2 and above; asks for a client certificate, and checks it, but does not insist.
  SSL_CTX* server_context() const { return context_; }

 private:
  TlsAuthority() = default;

  X509* ca_ = nullptr;
  EVP_PKEY* ca_key_ = nullptr;
  SSL_CTX* context_ = nullptr;
  std::string ca_pem_;
};

}  // namespace larder::apiserver
