#include "tools/serve/access.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "apiserver/base64.h"
#include "apiserver/kubeconfig_file.h"
#include "base/base64.h"

namespace larder::tools {
namespace {

constexpr size_t kTokenBytes = 32;

// Letters, digits and signs stay as they are in YAML within double quotes.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; });
}

std::string KubeconfigText(const KubeconfigContent& content) {
  std::string cluster = fmt::format("    server: \"{}\"\n", content.url);
  if (!content.authority.empty()) {
    cluster += fmt::format("    certificate-authority-data: {}\n", EncodeBase64(content.authority));
  }
  const std::string user =
      content.token.empty() ? "{}" : fmt::format("{{token: \"{}\"}}", content.token);
  return fmt::format(
      "apiVersion: v1\nkind: Config\ncurrent-context: larder\n"
      "clusters:\n- name: larder\n  cluster:\n{}"
      "contexts:\n- name: larder\n  context:\n    cluster: larder\n    user: larder\n"
      "users:\n- name: larder\n  user: {}\n",
      cluster, user);
}

}  // namespace

Result<TokenGuard> TokenGuard::Random() {
  std::string bytes(kTokenBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), kTokenBytes) != 1) {
    return MakeError(ErrorCode::kInternal, "cannot make a random token");
  }
  TokenGuard out;
  out.token_ = apiserver::Base64UrlEncode(bytes);
  return out;
}

Result<TokenGuard> TokenGuard::FromFile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return MakeError(ErrorCode::kInvalidArgument, "--token-file {}: {}", path,
                     std::strerror(errno));
  }
  if ((info.st_mode & 077) != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--token-file {} can be read by others (mode {:o}); run: chmod 600 {}", path,
                     info.st_mode & 0777, path);
  }
  TokenGuard out;
  std::ifstream file(path);
  std::getline(file, out.token_);
  if (out.token_.empty() || !IsPlain(out.token_)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--token-file {}: its first line must be a token, without spaces and quotes",
                     path);
  }
  return out;
}

bool TokenGuard::Allows(std::string_view path, std::string_view authorization) const {
  if (token_.empty()) return true;
  for (const char* open : {"/healthz", "/readyz", "/livez", "/version"}) {
    if (path == open) return true;
  }
  const std::string wanted = "Bearer " + token_;
  return authorization.size() == wanted.size() &&
         CRYPTO_memcmp(authorization.data(), wanted.data(), wanted.size()) == 0;
}

Result<void> WriteKubeconfig(const std::string& path, const KubeconfigContent& content) {
  return apiserver::WriteKubeconfigFile(path, "larder serve", KubeconfigText(content));
}

Result<std::string> TemporaryKubeconfig::Write(const KubeconfigContent& content) {
  std::error_code failed;
  std::string directory = std::filesystem::temp_directory_path(failed) / "larder-serve-XXXXXX";
  if (failed || !::mkdtemp(directory.data())) {
    return MakeError(ErrorCode::kIo,
                     "there is no directory for a temporary kubeconfig; give --write-kubeconfig "
                     "FILE, or a TMPDIR that can be written to");
  }
  directory_ = directory;
  const std::string path = directory_ + "/kubeconfig";
  LARDER_RETURN_IF_ERROR(WriteKubeconfig(path, content));
  return path;
}

TemporaryKubeconfig::~TemporaryKubeconfig() {
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

}  // namespace larder::tools
