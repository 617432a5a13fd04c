// Any text as what a credential plugin prints: no crash, and what is accepted can be used.
#include <cstdint>
#include <string_view>

#include "client/exec_credential.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto credential = larder::ParseExecCredential(text, "client.authentication.k8s.io/v1");
  if (!credential) {
    LARDER_CHECK(credential.error().code == larder::ErrorCode::kUnauthorized);
    return 0;
  }
  LARDER_CHECK(!credential->token.empty() || !credential->certificate_pem.empty());
  LARDER_CHECK(credential->certificate_pem.empty() == credential->key_pem.empty());
  return 0;
}
