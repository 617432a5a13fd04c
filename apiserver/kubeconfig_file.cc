#include "apiserver/kubeconfig_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace larder::apiserver {

Result<void> WriteKubeconfigFile(const std::string& path, std::string_view writer,
                                 std::string_view text) {
  const std::string mark = fmt::format("# Written by {}.", writer);
  std::error_code failed;
  if (std::filesystem::exists(path, failed)) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line) || line != mark) {
      return MakeError(ErrorCode::kAlreadyExists,
                       "{} is there and was not written by {}: move it away, or give another name",
                       path, writer);
    }
  }
  const std::string marked = fmt::format("{}\n{}", mark, text);
  std::string beside = path + ".XXXXXX";
  const int file = ::mkstemp(beside.data());  // of mode 0600
  const bool written = file >= 0 && ::write(file, marked.data(), marked.size()) ==
                                        static_cast<ssize_t>(marked.size());
  if (file >= 0 && ::close(file) == 0 && written &&
      std::rename(beside.c_str(), path.c_str()) == 0) {
    return {};
  }
  const int why = errno;
  if (file >= 0) ::unlink(beside.c_str());
  return MakeError(ErrorCode::kIo, "cannot write the kubeconfig {}: {}", path, std::strerror(why));
}

}  // namespace larder::apiserver
