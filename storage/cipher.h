// AES-256-GCM for what may reach the disk only encrypted.
//
// Every sealed text has its own random nonce; the row's key is authenticated with it, so a row
// copied to another place is refused. Several keys may be open at once (rotation): sealing uses the
// first, opening finds the one by its id. Thread-safe. OpenSSL does the work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace larder {

class Cipher {
 public:
  static constexpr size_t kKeyBytes = 32;

  // Each key is 32 bytes. The first one seals.
  static Result<Cipher> Make(std::vector<std::string> keys);
  // Reads keys from a file: one base64 line of 32 bytes each, newest first. Refused when others can
  // read it.
  static Result<Cipher> FromFile(const std::string& path);

  // `bound_to` is authenticated, not stored.
  Result<std::string> Seal(std::string_view plain, std::string_view bound_to) const;
  // kCorruption when the text was changed or belongs elsewhere; kForbidden when its key is not
  // among ours.
  Result<std::string> Open(std::string_view sealed, std::string_view bound_to) const;
  // Was this sealed with the newest key?
  bool IsCurrent(std::string_view sealed) const;

 private:
  struct Key {
    uint32_t id;  // first bytes of the key's hash: tells which key, says nothing of it
    std::string bytes;
  };
  std::vector<Key> keys_;
};

}  // namespace larder
