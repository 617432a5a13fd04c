#include "testing/environment.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "testing/yaml_to_json.h"

namespace larder::testing {

RunningManager::RunningManager(std::unique_ptr<Manager> manager)
    : manager_(std::move(manager)), thread_([this] {
        outcome_ = manager_->Run(stop_.get_token());
        ended_ = true;
      }) {}

RunningManager::~RunningManager() { static_cast<void>(Stop()); }

Result<void> RunningManager::Stop() {
  stop_.request_stop();
  return Join();
}

Result<void> RunningManager::Join() {
  if (thread_.joinable()) thread_.join();
  return outcome_;
}

Result<std::unique_ptr<Environment>> Environment::Start(apiserver::SimulatorOptions options) {
  std::unique_ptr<Environment> environment(new Environment);
  std::string pattern = (std::filesystem::temp_directory_path() / "larder-testing-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) {
    return MakeError(ErrorCode::kIo, "cannot make a directory {}", pattern);
  }
  environment->directory_ = pattern;
  LARDER_ASSIGN_OR_RETURN(environment->cluster_, apiserver::Simulator::Start(std::move(options)));
  // The real server has it from the start; here it may be there, too.
  const auto made = environment->cluster_->CreateNamespace("default");
  if (!made && made.error().code != ErrorCode::kAlreadyExists) {
    return tl::unexpected(made.error());
  }
  return environment;
}

Environment::~Environment() {
  cluster_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

Result<void> Environment::CreateYaml(std::string_view yaml) {
  LARDER_ASSIGN_OR_RETURN(const std::vector<Json> documents, YamlToJson(yaml));
  LARDER_ASSIGN_OR_RETURN(auto transport, MakeTransport(ForUrl(cluster_->Url())));
  CachedClient client(*transport);
  for (const Json& document : documents) {
    LARDER_ASSIGN_OR_RETURN(
        const Resource resource,
        client.ForKind(document.value("apiVersion", ""), document.value("kind", "")));
    LARDER_RETURN_IF_ERROR(client.Create(resource, document));
  }
  return {};
}

Result<void> Environment::CreateYamlFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return MakeError(ErrorCode::kNotFound, "cannot read {}", path);
  std::ostringstream text;
  text << file.rdbuf();
  return CreateYaml(text.str());
}

ManagerOptions Environment::Options(const std::string& store) const {
  ManagerOptions options;
  options.config.program = "test";
  options.config.store = directory_ + "/" + store;
  options.config.listen = "127.0.0.1:0";
  options.client = ForUrl(cluster_->Url());
  return options;
}

Result<std::unique_ptr<RunningManager>> Environment::Run(const Setup& setup) {
  return Run(setup, Options());
}

Result<std::unique_ptr<RunningManager>> Environment::Run(const Setup& setup,
                                                         ManagerOptions options) {
  const Clock* const clock = options.clock;
  LARDER_ASSIGN_OR_RETURN(auto manager, Manager::Create(std::move(options)));
  LARDER_RETURN_IF_ERROR(setup(*manager));
  auto running = std::make_unique<RunningManager>(std::move(manager));
  // The manager's clock may be a fake one, which nobody moves while we wait.
  Result<void> synced;
  Eventually([&] {
    synced = (*running)->WaitForSync(clock->Now());
    return synced || running->Ended();
  });
  if (synced) return running;
  // Why it ended says more than that it is not in sync.
  const Result<void> ended = running->Stop();
  return tl::unexpected(ended ? synced.error() : ended.error());
}

bool Environment::Eventually(const std::function<bool()>& condition,
                             std::chrono::milliseconds patience) {
  const Clock::Steady deadline = RealClock()->Now() + patience;
  while (!condition()) {
    if (RealClock()->Now() >= deadline) return false;
    RealClock()->SleepFor(std::chrono::milliseconds(5), {});
  }
  return true;
}

}  // namespace larder::testing
