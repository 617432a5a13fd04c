// The certificate of a server, read again when its files change: cert-manager and the kubelet
// replace them long before the process ends.
//
// Thread-safe. Errors: kInvalidArgument where the files cannot be used at the start; later the
// certificate that is there stays, and the log says why.
//
//   LARDER_ASSIGN_OR_RETURN(auto certificate, ServingCertificate::Load("tls.crt", "tls.key"));
//   SSL_new(certificate->Current().get());
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/mutex.h"

namespace larder::internal {

class ServingCertificate {
 public:
  static Result<std::unique_ptr<ServingCertificate>> Load(const std::string& cert_file,
                                                          const std::string& key_file);

  // For a new connection; looks at the files.
  std::shared_ptr<SSL_CTX> Current();

 private:
  ServingCertificate(std::string cert_file, std::string key_file)
      : cert_file_(std::move(cert_file)), key_file_(std::move(key_file)) {}
  Result<std::shared_ptr<SSL_CTX>> Read() const;
  // Differs when either file was replaced or written.
  std::string Stamp() const;

  const std::string cert_file_;
  const std::string key_file_;
  Mutex mutex_;
  std::string stamp_ LARDER_GUARDED_BY(mutex_);
  std::shared_ptr<SSL_CTX> current_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::internal
