#include "tests/client/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <stdexcept>

namespace larder::testing {
namespace {

void Must(bool ok) {
  if (!ok) throw std::runtime_error("OpenSSL refused to make a test certificate");
}

std::string FromBio(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  Must(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

Identity Make(const CertificateSpec& spec, bool is_authority, const Identity* issuer) {
  static std::atomic<long> serial{1};
  Identity made;
  made.key.reset(EVP_EC_gen("P-256"));
  made.certificate.reset(X509_new());
  X509* certificate = made.certificate.get();
  X509* signer = issuer != nullptr ? issuer->certificate.get() : certificate;
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), spec.valid_from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate), spec.valid_until_seconds);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(spec.common_name.c_str()), -1,
                             -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  Must(X509_set_pubkey(certificate, made.key.get()) == 1);
  AddExtension(certificate, signer, NID_basic_constraints,
               is_authority ? "critical,CA:TRUE" : "CA:FALSE");
  std::string names;
  for (const std::string& name : spec.alternative_names) {
    names += (names.empty() ? "" : ",") + name;
  }
  if (!names.empty()) AddExtension(certificate, signer, NID_subject_alt_name, names);
  EVP_PKEY* signing_key = issuer != nullptr ? issuer->key.get() : made.key.get();
  Must(X509_sign(certificate, signing_key, EVP_sha256()) > 0);
  return made;
}

}  // namespace

std::string Identity::CertificatePem() const {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate.get());
  return FromBio(bio);
}

std::string Identity::KeyPem() const {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return FromBio(bio);
}

std::string Identity::KeyPemWithPassphrase() const {
  const std::string passphrase = "open sesame";
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key.get(), EVP_aes_256_cbc(),
                           reinterpret_cast<const unsigned char*>(passphrase.data()),
                           static_cast<int>(passphrase.size()), nullptr, nullptr);
  return FromBio(bio);
}

Authority::Authority(const std::string& name)
    : self_(Make({.common_name = name, .alternative_names = {}}, true, nullptr)) {}

Identity Authority::Sign(const CertificateSpec& spec) const { return Make(spec, false, &self_); }

}  // namespace larder::testing
