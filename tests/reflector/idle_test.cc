// What many collections cost while nothing happens: one network thread for all, and next to no CPU.
// The server is a process of its own, so that everything measured here is the client's.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "apiserver/simulator.h"
#include "reflector/reflector.h"
#include "tests/reflector/mirror_target.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

constexpr size_t kCollections = 50;

// A simulated server in a child process.
class OtherProcess {
 public:
  OtherProcess() {
    int ends[2];
    if (pipe(ends) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      auto started = apiserver::Simulator::Start({.workload_namespaces = 2});
      const bool loaded = started && (*started)->Load(100);
      const std::string url = loaded ? (*started)->Url() : "";
      if (write(ends[1], url.data(), url.size()) < 0) _exit(1);
      close(ends[1]);
      for (;;) pause();
    }
    close(ends[1]);
    char text[256];
    for (ssize_t size; (size = read(ends[0], text, sizeof text)) > 0;) {
      url_.append(text, static_cast<size_t>(size));
    }
    close(ends[0]);
  }
  ~OtherProcess() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  const std::string& url() const { return url_; }

 private:
  pid_t child_ = -1;
  std::string url_;
};

size_t ThreadsNamed(const std::string& wanted) {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == wanted;
  }
  return count;
}

std::chrono::microseconds CpuTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Collection {
  MirrorTarget target;
  std::unique_ptr<Reflector> reflector;
  std::jthread thread;
};

TEST(IdleTest, FiftyCollectionsShareOneNetworkThreadAndCostNothing) {
  const OtherProcess server;
  ASSERT_FALSE(server.url().empty());
  auto transport = MakeTransport(ForUrl(server.url()));
  ASSERT_TRUE(transport) << transport.error().ToString();
  std::vector<std::unique_ptr<Collection>> collections;
  for (size_t i = 0; i < kCollections; ++i) {
    auto collection = std::make_unique<Collection>();
    ReflectorOptions options;
    options.resource = *LookupResource("pods");
    options.label_selector = "part!=" + std::to_string(i);
    auto made = Reflector::Create(options, transport->get(), &collection->target);
    ASSERT_TRUE(made) << made.error().ToString();
    collection->reflector = *std::move(made);
    collection->thread = std::jthread([reflector = collection->reflector.get()](
                                          const std::stop_token& stop) { reflector->Run(stop); });
    collections.push_back(std::move(collection));
  }
  const auto give_up = std::chrono::steady_clock::now() + 30s;
  for (const auto& collection : collections) {
    ASSERT_TRUE(collection->target.WaitFor([](const auto& all) { return all.size() == 100; }, 30s));
    while (collection->reflector->Status().watches == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      std::this_thread::sleep_for(5ms);
    }
  }
  EXPECT_EQ(ThreadsNamed("larder-net"), 1U);

  const auto begun = std::chrono::steady_clock::now();
  const auto cpu = CpuTime();
  std::this_thread::sleep_for(3s);
  const std::chrono::duration<double> used = CpuTime() - cpu;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
  const double percent = 100 * used.count() / passed.count();
  std::printf("%zu idle collections: %.3f %% of a core\n", kCollections, percent);
  EXPECT_LT(percent, 1.0);
}

}  // namespace
}  // namespace larder
