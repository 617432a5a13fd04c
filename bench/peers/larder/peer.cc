#include "bench/peers/larder/peer.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/support.h"
#include "client/config.h"

namespace larder::bench {

std::unique_ptr<HttpTransport> Connect(const std::string& kubeconfig) {
  ClientConfig config = OrDie(LoadKubeconfig(kubeconfig));
  config.qps = 0;
  return OrDie(MakeTransport(config));
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double SinceStart() {
  static const double first_call = Now();
  const char* text = std::getenv("BENCH_START");
  return Now() - (text != nullptr ? std::strtod(text, nullptr) / 1e9 : first_call);
}

void PrintLine(const nlohmann::ordered_json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

ReceivedBytes::ReceivedBytes()
    : thread_([this](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          Look();
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
      }) {}

void ReceivedBytes::Look() {
  DIR* const fds = ::opendir("/proc/self/fd");
  if (fds == nullptr) return;
  const std::lock_guard lock(mutex_);
  while (const dirent* const entry = ::readdir(fds)) {
    const int fd = std::atoi(entry->d_name);
    struct stat status {};
    if (fd < 3 || ::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    uint64_t& seen = by_socket_[status.st_ino];
    seen = std::max<uint64_t>(seen, info.tcpi_bytes_received);
  }
  ::closedir(fds);
}

uint64_t ReceivedBytes::Total() {
  Look();
  const std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const auto& [inode, bytes] : by_socket_) total += bytes;
  return total;
}

}  // namespace larder::bench
