#include "tests/crash/sweep.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "apiserver/simulator.h"
#include "tests/crash/oracle.h"
#include "tests/crash/process.h"
#include "tests/crash/subject.h"

namespace larder::crash {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kStepPatience = 60s;
constexpr uint64_t kPods = 12;
constexpr uint64_t kChangesAStep = 8;
// How many operations there are differs a little from process to process.
constexpr int kUnharmedAtTheEnd = 3;

// One scenario with one failure.
class Trial {
 public:
  Trial(const SweepOptions& options, std::string plan, std::string directory)
      : options_(options),
        plan_(std::move(plan)),
        directory_(std::move(directory)),
        store_(directory_ + "/store"),
        journal_(directory_ + "/journal"),
        settle_(directory_ + "/settle"),
        said_(directory_ + "/stderr") {
    fs::create_directories(directory_);
    apiserver::SimulatorOptions server;
    server.seed = options.seed;
    server.workload_namespaces = 2;
    server.workload_nodes = 3;
    auto simulator = apiserver::Simulator::Start(server);
    if (!simulator || !(*simulator)->Load(kPods)) {
      std::fprintf(stderr, "crash: no simulated server\n");
      std::_Exit(2);
    }
    simulator_ = *std::move(simulator);
    oracle_.emplace(simulator_.get(), store_, journal_);
  }

  // What is wrong.
  std::vector<std::string> Run() {
    code_ = RunScenario();
    if (auto wrong = JudgeEnd(); !wrong.empty()) return wrong;
    bool refused = false;
    Expectations expected;
    expected.disk_failed = true;
    expected.settled = code_ == kSettled || code_ == kUnharmed;
    auto violations = oracle_->Check(expected, &refused);
    if (!violations.empty() || expected.settled) return violations;
    code_after_ = RunToRest();
    if (code_after_ != kSettled)
      return {"promise 6: on a sound disk no process comes to rest: " + Said()};
    expected.settled = true;
    return oracle_->Check(expected, &refused);
  }

  std::optional<int> code() const { return code_; }
  const std::string& assertion() const { return assertion_; }

 private:
  std::vector<std::string> JudgeEnd() {
    if (!code_) return {"promise 6: the process neither came to rest nor ended: " + Said()};
    if (code_ == -SIGABRT) assertion_ = AssertionIn(Said());
    const bool met = code_ != kUnharmed && fs::exists(MetFile(journal_));
    if (code_ == kUnharmed || code_ == kSettled || code_ == kGaveUp || code_ == -SIGKILL) return {};
    if (met && code_ == kRefused) return {};
    if (IsKnownAssertion(assertion_, met)) return {};
    return {fmt::format("promise {}: the process ended with {}: {}",
                        *code_ > 0 && code_ != kDamaged ? 6 : 7, *code_, Said())};
  }

  std::vector<std::string> Command(const std::string& plan) const {
    return {options_.program, "subject",
            "--url",          simulator_->Url(),
            "--store",        store_,
            "--journal",      journal_,
            "--seed",         "1",
            "--plan",         plan,
            "--settle-file",  settle_,
            "--log",          journal_ + ".log",
            "--mutant",       options_.mutant};
  }

  // The version of the newest pod, for a process that is to come to rest there.
  void WriteNewest(const std::string& file) const {
    uint64_t newest = 0;
    for (const apiserver::HistoryEntry& entry : simulator_->History()) {
      if (entry.resource == "pods") newest = entry.version;
    }
    std::ofstream(file + ".new") << newest << std::endl;
    fs::rename(file + ".new", file);
  }

  void ChangeSome(int step) const {
    apiserver::ChurnOptions churn;
    churn.create = 2;
    churn.update = 4;
    churn.remove = 2;
    churn.seed = options_.seed + static_cast<uint64_t>(step);
    simulator_->RunChurn(kChangesAStep, churn);
  }

  // What the process ended with; nullopt: it did not.
  std::optional<int> RunScenario() {
    int step = 0;
    WriteNewest(StepFile(settle_, step));
    std::vector<std::string> command = Command(plan_);
    command.emplace_back("--scenario");
    const pid_t pid = Spawn(std::move(command), said_);
    for (const auto deadline = std::chrono::steady_clock::now() + kStepPatience;;) {
      const auto now = std::chrono::steady_clock::now();
      if (const auto code = WaitFor(pid, now + 1ms)) return code;
      if (now > deadline) break;
      if (step + 1 < kScenarioSteps && fs::exists(StepDoneFile(settle_, step))) {
        ++step;
        ChangeSome(step);
        WriteNewest(StepFile(settle_, step));
      }
    }
    Kill(pid);
    return std::nullopt;
  }

  std::optional<int> RunToRest() {
    WriteNewest(settle_);
    const pid_t pid = Spawn(Command({}), said_);
    const auto code = WaitFor(pid, std::chrono::steady_clock::now() + kStepPatience);
    if (!code) Kill(pid);
    return code;
  }

  std::string Said() const {
    std::ifstream file(said_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const SweepOptions& options_;
  const std::string plan_, directory_, store_, journal_, settle_, said_;
  std::unique_ptr<apiserver::Simulator> simulator_;
  std::optional<Oracle> oracle_;
  std::optional<int> code_;
  std::optional<int> code_after_;
  std::string assertion_;
};

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options) : options_(options) {}

  SweepResult Run() {
    for (const std::string& operation : options_.operations) {
      // Others than those that fail once, where not all are taken.
      FailEach("fail", operation, 1);
      FailEach("break", operation, 1 + options_.stride / 2);
    }
    return std::move(result_);
  }

 private:
  void FailEach(const std::string& action, const std::string& operation, int first) {
    const bool one = options_.only != 0;
    next_ = one ? options_.only : first;
    unharmed_ = 0;
    std::vector<std::jthread> workers;
    for (int i = 0; i < (one ? 1 : options_.jobs); ++i) {
      workers.emplace_back([&] {
        while (!Ended()) {
          FailOne(action, operation, next_.fetch_add(options_.stride));
          if (one) return;
        }
      });
    }
  }

  bool Ended() {
    std::lock_guard lock(mutex_);
    return !result_.violations.empty() || unharmed_ >= kUnharmedAtTheEnd;
  }

  void FailOne(const std::string& action, const std::string& operation, int number) {
    const std::string plan = fmt::format("{}:any:{}:{}", action, operation, number);
    const std::string directory = options_.directory + "/" + action + std::to_string(number);
    bool violated = false;
    {
      Trial trial(options_, plan, directory);
      std::vector<std::string> violations = trial.Run();
      violated = !violations.empty();
      std::lock_guard lock(mutex_);
      ++result_.runs;
      if (trial.code() == kRefused) ++result_.refused;
      if (!trial.assertion().empty()) ++result_.aborts[plan + ": " + trial.assertion()];
      if (trial.code() == kUnharmed) {
        ++unharmed_;
      } else {
        result_.reached[operation] = std::max(result_.reached[operation], number);
      }
      if (violated && result_.violations.empty()) {
        result_.violations = std::move(violations);
        result_.plan = plan;
      }
    }
    if (!violated) fs::remove_all(directory);
  }

  const SweepOptions options_;
  std::atomic<int> next_{1};
  std::mutex mutex_;  // guards what follows
  int unharmed_ = 0;
  SweepResult result_;
};

}  // namespace

SweepResult RunSweep(const SweepOptions& options) { return Sweep(options).Run(); }

}  // namespace larder::crash
