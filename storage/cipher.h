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
  // Reads keys from a file: one base64 line of 32 bytes each, newest first; `#` starts a comment.
  // Refused when others can read the file, but for our group what is root's: a kubelet mounts so.
  static Result<Cipher> FromFile(const std::string& path);
  // The same from an environment variable, where commas may stand for line ends.
  static Result<Cipher> FromEnvironment(const std::string& variable);

  // `bound_to` is authenticated, not stored.
  Result<std::string> Seal(std::string_view plain, std::string_view bound_to) const;
  // kCorruption when the text was changed or belongs elsewhere; kForbidden when its key is not
  // among ours.
  Result<std::string> Open(std::string_view sealed, std::string_view bound_to) const;
  // Was this sealed with the newest key?
  bool IsCurrent(std::string_view sealed) const;

  // A keyed hash of a value, as text, for index keys that must not show it: equal values look
  // equal, nothing else can be learned. Depends on the newest key; KeyName says which that is.
  Result<std::string> Blind(std::string_view value) const;
  std::string KeyName() const;

 private:
  static Result<Cipher> FromText(std::string_view text, std::string_view where);

  struct Key {
    uint32_t id;  // first bytes of the key's hash: tells which key, says nothing of it
    std::string bytes;
  };
  std::vector<Key> keys_;
};

}  // namespace larder
