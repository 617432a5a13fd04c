#include "apiserver/tls.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <utility>

namespace larder::apiserver {
namespace {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using X509Ptr = std::unique_ptr<X509, Freer<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free_all>>;

tl::unexpected<Error> TlsError(std::string_view what) {
  char reason[256] = "";
  ERR_error_string_n(ERR_get_error(), reason, sizeof(reason));
  return MakeError(ErrorCode::kInternal, "cannot {}: {}", what, reason);
}

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string CertificatePem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return Contents(bio.get());
}

std::string KeyPem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return Contents(bio.get());
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  if (X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str())) {
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
}

// An unsigned certificate for the key, valid from an hour ago for a year.
X509Ptr NewCertificate(EVP_PKEY* key, const std::string& common_name) {
  X509Ptr certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial));
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 365L * 24 * 3600);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  return certificate;
}

bool IsAddress(const std::string& host) {
  unsigned char buffer[16];
  return inet_pton(AF_INET, host.c_str(), buffer) == 1 ||
         inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

std::string AlternativeNames(const std::vector<std::string>& hosts) {
  std::string out;
  for (const std::string& host : hosts) {
    if (!out.empty()) out += ",";
    out += (IsAddress(host) ? "IP:" : "DNS:") + host;
  }
  return out;
}

}  // namespace

TlsAuthority::~TlsAuthority() {
  SSL_CTX_free(context_);
  EVP_PKEY_free(ca_key_);
  X509_free(ca_);
}

Result<std::unique_ptr<TlsAuthority>> TlsAuthority::Create(const std::vector<std::string>& hosts) {
  std::unique_ptr<TlsAuthority> out(new TlsAuthority);
  out->ca_key_ = EVP_EC_gen("P-256");
  const KeyPtr server_key(EVP_EC_gen("P-256"));
  if (!out->ca_key_ || !server_key) return TlsError("make a key");
  out->ca_ = NewCertificate(out->ca_key_, "larder simulator CA").release();
  X509_set_issuer_name(out->ca_, X509_get_subject_name(out->ca_));
  AddExtension(out->ca_, out->ca_, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(out->ca_, out->ca_, NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(out->ca_, out->ca_, NID_subject_key_identifier, "hash");
  if (X509_sign(out->ca_, out->ca_key_, EVP_sha256()) == 0) return TlsError("sign the CA");
  out->ca_pem_ = CertificatePem(out->ca_);

  const X509Ptr server = NewCertificate(server_key.get(), "larder simulator");
  X509_set_issuer_name(server.get(), X509_get_subject_name(out->ca_));
  AddExtension(server.get(), out->ca_, NID_ext_key_usage, "serverAuth");
  AddExtension(server.get(), out->ca_, NID_subject_alt_name, AlternativeNames(hosts));
  if (X509_sign(server.get(), out->ca_key_, EVP_sha256()) == 0) {
    return TlsError("sign the server's certificate");
  }

  out->context_ = SSL_CTX_new(TLS_server_method());
  if (!out->context_) return TlsError("make a TLS context");
  SSL_CTX_set_min_proto_version(out->context_, TLS1_2_VERSION);
  SSL_CTX_set_mode(out->context_, SSL_MODE_AUTO_RETRY);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(out->context_), out->ca_);
  SSL_CTX_set_verify(out->context_, SSL_VERIFY_PEER, nullptr);
  const unsigned char session_context[] = "larder";
  SSL_CTX_set_session_id_context(out->context_, session_context, sizeof(session_context) - 1);
  if (SSL_CTX_use_certificate(out->context_, server.get()) != 1 ||
      SSL_CTX_use_PrivateKey(out->context_, server_key.get()) != 1) {
    return TlsError("use the server's certificate");
  }
  return out;
}

Result<PemPair> TlsAuthority::IssueClient(const std::string& common_name) const {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return TlsError("make a key");
  const X509Ptr certificate = NewCertificate(key.get(), common_name);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(ca_));
  AddExtension(certificate.get(), ca_, NID_ext_key_usage, "clientAuth");
  if (X509_sign(certificate.get(), ca_key_, EVP_sha256()) == 0) {
    return TlsError("sign a client's certificate");
  }
  return PemPair{CertificatePem(certificate.get()), KeyPem(key.get())};
}

}  // namespace larder::apiserver
