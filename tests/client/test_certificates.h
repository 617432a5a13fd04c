// Certificates made in the test: an authority, and what it signs.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

namespace larder::testing {

struct OpensslDeleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslDeleter>;
using CertificatePtr = std::unique_ptr<X509, OpensslDeleter>;

struct Identity {
  KeyPtr key;
  CertificatePtr certificate;

  std::string CertificatePem() const;
  std::string KeyPem() const;
  std::string KeyPemWithPassphrase() const;
};

struct CertificateSpec {
  std::string common_name = "test";
  std::vector<std::string> alternative_names;  // "DNS:localhost", "IP:127.0.0.1"
  long valid_from_seconds = -3600;             // from now
  long valid_until_seconds = 3600;
};

class Authority {
 public:
  explicit Authority(const std::string& name);
  std::string Pem() const { return self_.CertificatePem(); }
  X509* certificate() const { return self_.certificate.get(); }
  Identity Sign(const CertificateSpec& spec) const;
  // For a server at 127.0.0.1 and localhost.
  Identity SignServer() const {
    return Sign({.common_name = "server", .alternative_names = {"IP:127.0.0.1", "DNS:localhost"}});
  }

 private:
  Identity self_;
};

}  // namespace larder::testing
