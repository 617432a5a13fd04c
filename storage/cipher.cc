#include "storage/cipher.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/base64.h"
#include "base/process.h"

namespace larder {
namespace {

constexpr size_t kIdBytes = 4;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;

using Context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

tl::unexpected<Error> OpenSslFailed(std::string_view what) {
  return MakeError(ErrorCode::kInternal, "OpenSSL: {} failed", what);
}

bool IsOurGroup(gid_t group) {
  std::vector<gid_t> groups(static_cast<size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(count, 0)));
  return group == ::getegid() || std::find(groups.begin(), groups.end(), group) != groups.end();
}

// May only its owner read it, or else our group what is root's? Of a Secret volume a kubelet makes
// each file readable for the pod's group (fsGroup), whatever mode the volume asks for, and the pod
// cannot change that.
bool IsPrivate(const struct stat& info) {
  constexpr mode_t kOfOthers = 077, kGroupReads = 040;
  const mode_t open_to = info.st_mode & kOfOthers;
  const bool of_root = info.st_uid == 0 && ::geteuid() != 0;
  return open_to == 0 || (open_to == kGroupReads && of_root && IsOurGroup(info.st_gid));
}

}  // namespace

Result<Cipher> Cipher::Make(std::vector<std::string> keys) {
  if (keys.empty()) return MakeError(ErrorCode::kInvalidArgument, "no encryption key given");
  Cipher cipher;
  for (std::string& key : keys) {
    if (key.size() != kKeyBytes) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "an encryption key has {} bytes; it must have {}", key.size(), kKeyBytes);
    }
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256(Bytes(std::string_view(key)), key.size(), hash);
    uint32_t id = 0;
    std::memcpy(&id, hash, sizeof id);
    cipher.keys_.push_back({id, std::move(key)});
  }
  return cipher;
}

Result<Cipher> Cipher::FromFile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return MakeError(ErrorCode::kNotFound, "encryption key file {}: {}", path,
                     std::strerror(errno));
  }
  if (!IsPrivate(info)) {
    return MakeError(ErrorCode::kForbidden,
                     "encryption key file {} can be read by others (mode {:o}); run: chmod 600 {} "
                     "(a Secret volume needs defaultMode: 0400, and the pod an fsGroup)",
                     path, info.st_mode & 0777, path);
  }
  std::ifstream file(path);
  if (!file) {
    return MakeError(ErrorCode::kForbidden, "encryption key file {}: {}", path,
                     std::strerror(errno));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return FromText(text, "encryption key file " + path);
}

Result<Cipher> Cipher::FromEnvironment(const std::string& variable) {
  const char* text = std::getenv(variable.c_str());
  if (!text) {
    return MakeError(ErrorCode::kNotFound,
                     "environment variable {}, for encryption keys, is not set", variable);
  }
  HideFromPrograms(variable);
  return FromText(text, "environment variable " + variable);
}

Result<Cipher> Cipher::FromText(std::string_view text, std::string_view where) {
  std::vector<std::string> keys;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\n,"), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    Result<std::string> key = DecodeBase64(line);
    if (!key || key->size() != kKeyBytes) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: line {} is not 32 bytes in base64; make one with: "
                       "openssl rand -base64 32",
                       where, number);
    }
    keys.push_back(*std::move(key));
  }
  if (keys.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} has no key; make one with: openssl rand -base64 32", where);
  }
  return Make(std::move(keys));
}

Result<std::string> Cipher::Seal(std::string_view plain, std::string_view bound_to) const {
  const Key& key = keys_.front();
  std::string out(kIdBytes + kNonceBytes + plain.size() + kTagBytes, '\0');
  std::memcpy(out.data(), &key.id, kIdBytes);
  unsigned char* nonce = Bytes(out) + kIdBytes;
  unsigned char* text = nonce + kNonceBytes;
  if (RAND_bytes(nonce, kNonceBytes) != 1) return OpenSslFailed("RAND_bytes");
  Context context(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  int size = 0;
  if (!context ||
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr,
                         Bytes(std::string_view(key.bytes)), nonce) != 1 ||
      EVP_EncryptUpdate(context.get(), nullptr, &size, Bytes(bound_to),
                        static_cast<int>(bound_to.size())) != 1 ||
      EVP_EncryptUpdate(context.get(), text, &size, Bytes(plain), static_cast<int>(plain.size())) !=
          1 ||
      EVP_EncryptFinal_ex(context.get(), text + size, &size) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, text + plain.size()) !=
          1) {
    return OpenSslFailed("AES-256-GCM");
  }
  return out;
}

Result<std::string> Cipher::Open(std::string_view sealed, std::string_view bound_to) const {
  if (sealed.size() < kIdBytes + kNonceBytes + kTagBytes) {
    return MakeError(ErrorCode::kCorruption, "encrypted value is too short");
  }
  uint32_t id = 0;
  std::memcpy(&id, sealed.data(), kIdBytes);
  const std::string_view nonce = sealed.substr(kIdBytes, kNonceBytes);
  const std::string_view text =
      sealed.substr(kIdBytes + kNonceBytes, sealed.size() - kIdBytes - kNonceBytes - kTagBytes);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  for (const Key& key : keys_) {
    if (key.id != id) continue;
    std::string out(text.size(), '\0');
    Context context(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
    int size = 0;
    if (!context ||
        EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr,
                           Bytes(std::string_view(key.bytes)), Bytes(nonce)) != 1 ||
        EVP_DecryptUpdate(context.get(), nullptr, &size, Bytes(bound_to),
                          static_cast<int>(bound_to.size())) != 1 ||
        EVP_DecryptUpdate(context.get(), Bytes(out), &size, Bytes(text),
                          static_cast<int>(text.size())) != 1 ||
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) != 1) {
      return OpenSslFailed("AES-256-GCM");
    }
    if (EVP_DecryptFinal_ex(context.get(), Bytes(out) + size, &size) != 1) {
      return MakeError(ErrorCode::kCorruption, "encrypted value was changed or moved");
    }
    return out;
  }
  return MakeError(ErrorCode::kForbidden,
                   "encrypted with a key that was not given; add the old key behind the new one");
}

Result<std::string> Cipher::Blind(std::string_view value) const {
  // A key of its own for this use, so that a hash says nothing about a sealed text.
  const std::string label = "larder index value";
  unsigned char key[EVP_MAX_MD_SIZE], hash[EVP_MAX_MD_SIZE];
  unsigned int key_size = 0, hash_size = 0;
  const std::string& newest = keys_.front().bytes;
  if (!HMAC(EVP_sha256(), newest.data(), static_cast<int>(newest.size()),
            Bytes(std::string_view(label)), label.size(), key, &key_size) ||
      !HMAC(EVP_sha256(), key, static_cast<int>(key_size), Bytes(value), value.size(), hash,
            &hash_size)) {
    return OpenSslFailed("HMAC-SHA256");
  }
  constexpr size_t kBlindBytes = 16;
  std::string out;
  for (size_t i = 0; i < kBlindBytes; ++i) out += fmt::format("{:02x}", hash[i]);
  return out;
}

std::string Cipher::KeyName() const { return fmt::format("{:08x}", keys_.front().id); }

bool Cipher::IsCurrent(std::string_view sealed) const {
  uint32_t id = 0;
  if (sealed.size() < kIdBytes) return false;
  std::memcpy(&id, sealed.data(), kIdBytes);
  return id == keys_.front().id;
}

}  // namespace larder
