#include "controller/serving_certificate.h"

#include <openssl/err.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

namespace larder::internal {

Result<std::unique_ptr<ServingCertificate>> ServingCertificate::Load(const std::string& cert_file,
                                                                     const std::string& key_file) {
  std::unique_ptr<ServingCertificate> made(new ServingCertificate(cert_file, key_file));
  MutexLock lock(made->mutex_);
  // Before reading: a change in between is seen at the next look.
  made->stamp_ = made->Stamp();
  LARDER_ASSIGN_OR_RETURN(made->current_, made->Read());
  return made;
}

std::shared_ptr<SSL_CTX> ServingCertificate::Current() {
  MutexLock lock(mutex_);
  std::string stamp = Stamp();
  if (stamp == stamp_) return current_;
  stamp_ = std::move(stamp);
  if (auto read = Read(); read) {
    current_ = *std::move(read);
    spdlog::info("serving with the new certificate of {}", cert_file_);
  } else {
    spdlog::warn("serving with the old certificate: {}", read.error().message);
  }
  return current_;
}

Result<std::shared_ptr<SSL_CTX>> ServingCertificate::Read() const {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  const bool usable =
      context && SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1 &&
      SSL_CTX_use_certificate_chain_file(context.get(), cert_file_.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context.get(), key_file_.c_str(), SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_check_private_key(context.get()) == 1;
  if (usable) return context;
  ERR_clear_error();
  return MakeError(ErrorCode::kInvalidArgument,
                   "cannot serve with the certificate {} and the key {}", cert_file_, key_file_);
}

std::string ServingCertificate::Stamp() const {
  std::string stamp;
  for (const std::string& file : {cert_file_, key_file_}) {
    struct stat found {};
    if (::stat(file.c_str(), &found) != 0) continue;
    stamp += fmt::format("{}:{}:{}:{}.{} ", found.st_dev, found.st_ino, found.st_size,
                         found.st_ctim.tv_sec, found.st_ctim.tv_nsec);
  }
  return stamp;
}

}  // namespace larder::internal
