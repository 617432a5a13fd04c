#include "tests/crash/episode.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "apiserver/simulator.h"
#include "storage/maintenance.h"
#include "tests/crash/faulty_disk.h"
#include "tests/crash/mutants.h"
#include "tests/crash/open_store.h"
#include "tests/crash/oracle.h"
#include "tests/crash/plans.h"
#include "tests/crash/process.h"
#include "tests/crash/subject.h"

namespace larder::crash {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto kSettleTime = 60s;

// How the pods are stored. A dictionary needs more of them, and enough time: a first process has
// both.
enum class Form { kPlain, kByDictionary, kEncrypted };
constexpr Form kForms[] = {Form::kEncrypted,    Form::kEncrypted,    Form::kByDictionary,
                           Form::kByDictionary, Form::kByDictionary, Form::kPlain};
constexpr uint64_t kPods = 60;
constexpr uint64_t kPodsForADictionary = 150;

// Stand in every pod, which half of the processes do not compress, and as the value of an index
// key.
constexpr const char* kCanaries[] = {"kubectl.kubernetes.io/restartedAt", ".cluster.internal"};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "crash: %s\n", what.c_str());
  std::_Exit(2);
}

class Episode {
 public:
  explicit Episode(const EpisodeOptions& options)
      : options_(options),
        dice_(options.seed),
        sync_((options.mode == "power" || options.mode == "io") && options.seed % 3 == 0),
        form_(kForms[options.seed % std::size(kForms)]),
        store_(options.store),
        key_file_(form_ == Form::kEncrypted ? options.directory + "/key" : ""),
        said_(options.directory + "/stderr"),
        found_(options.directory + "/store.found"),
        journal_(options.directory + "/journal"),
        met_(MetFile(journal_)) {
    apiserver::SimulatorOptions server;
    server.seed = options.seed;
    server.workload_namespaces = 3;
    server.workload_nodes = 5;
    auto simulator = apiserver::Simulator::Start(server);
    if (!simulator) Die(simulator.error().ToString());
    simulator_ = *std::move(simulator);
    if (!simulator_->Load(form_ == Form::kByDictionary ? kPodsForADictionary : kPods)) {
      Die("no pods");
    }
    simulator_->SaveState();
    if (!key_file_.empty()) WriteKey();
    oracle_.emplace(simulator_.get(), store_, journal_, key_file_);
  }

  EpisodeResult Run() {
    if (form_ == Form::kByDictionary) {
      result_.crash = "none: prepared";
      result_.violations = Prepare();
    }
    StartChurn();
    while (result_.runs < options_.runs && result_.violations.empty()) {
      ++result_.runs;
      result_.violations = Crash();
      if (options_.mode == "flip") Damage();
      if (options_.mutant == "empty-store") fs::remove_all(store_);
      if (options_.mutant == "dictionary-gone") RemoveDictionaries(store_);
      result_.crash = crash_;
      KeepAsFound();
      if (result_.violations.empty()) result_.violations = LookForCanaries();
      if (!result_.violations.empty()) break;
      result_.violations = options_.mode == "flip" ? JudgeDamaged() : Judge();
    }
    if (result_.violations.empty()) {
      result_.crash = "none: at rest";
      result_.violations = Settle();
      if (result_.violations.empty()) result_.violations = LookForCanaries();
    }
    return std::move(result_);
  }

 private:
  void WriteKey() const {
    std::ofstream(key_file_) << "bGFyZGVyLWNyYXNoLXByb2dyYW1tZS1zLW93bi1rZXk=" << std::endl;
    fs::permissions(key_file_, fs::perms::owner_read | fs::perms::owner_write);
  }

  // The store has a dictionary, and every row is made with it.
  std::vector<std::string> Prepare() {
    if (const auto code = ComeToRest(0ms); code != kSettled) return NotAtRest(code);
    {
      const auto store = OpenWhenFree(StoreAt(store_, key_file_));
      if (!store) return {"promise 7: the store cannot be opened: " + store.error().ToString()};
      const auto compacted = Compact(**store);
      if (!compacted) return {"promise 7: cannot be compacted: " + compacted.error().ToString()};
    }
    return CheckAtRest();
  }

  // What is encrypted is in no file in the clear, not in a log either.
  std::vector<std::string> LookForCanaries() const {
    if (form_ != Form::kEncrypted || !fs::exists(store_)) return {};
    std::vector<std::string> violations;
    for (const auto& entry : fs::recursive_directory_iterator(store_)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      for (const char* canary : kCanaries) {
        if (bytes.find(canary) == std::string::npos) continue;
        violations.push_back(
            fmt::format("promise 10: \"{}\" is in {}", canary, entry.path().string()));
      }
    }
    return violations;
  }

  Expectations Expected() const {
    Expectations expected;
    expected.damaged = options_.mode == "flip";
    expected.nothing_lost = (options_.mode != "power" || sync_) && !expected.damaged;
    expected.disk_failed = options_.mode == "io" || options_.mode == "full";
    expected.expired_at = expired_at_;
    // What a process that was killed has left may not be on the disk.
    expected.nothing_undone = options_.mode != "power" || !left_;
    return expected;
  }

  std::vector<std::string> Check(const Expectations& expected, bool* refused) {
    auto violations = oracle_->Check(expected, refused);
    // The judge has closed it in good order.
    std::error_code ignored;
    fs::remove(UnsyncedFile(journal_), ignored);
    return violations;
  }

  std::vector<std::string> Judge() {
    bool refused = false;
    // Who opens a store mends it. Half of the time that is a copy, and the next process begins with
    // what the crash left.
    const bool leaves = dice_.Chance(50);
    std::vector<std::string> violations =
        leaves ? oracle_->CheckAt(found_, Expected(), &refused) : Check(Expected(), &refused);
    left_ = leaves;
    if (const std::optional<Found>& found = oracle_->LastFound()) {
      if (found->state != SyncState::kSynced) ++result_.met[std::string(ToString(found->state))];
      if (form_ == Form::kByDictionary) Meet(kDictionaryMet, found->by_dictionary > 0);
      if (form_ == Form::kEncrypted) Meet(kEncryptionMet, found->encrypted > 0);
    }
    return violations;
  }

  // Something was planned; did it come true?
  void Meet(const std::string& what, bool came_true) {
    ++result_.planned[what];
    if (came_true) ++result_.met[what];
  }

  // A damaged store is opened by the judge, or by a process that goes on with it first. That one
  // must refuse it, or say what it met, or come to rest as the server is; what it told meanwhile is
  // judged like all else. What was refused is repaired, and the next processes go on with that.
  std::vector<std::string> JudgeDamaged() {
    bool refused = false;
    std::optional<int> code;
    if (dice_.Chance(50)) {
      // The judge learns from a copy which prefix the process began with.
      const std::string copy = options_.directory + "/store.copy";
      CopyStore(copy);
      auto violations = oracle_->CheckAt(copy, Expected(), &refused);
      std::error_code ignored;
      fs::remove_all(copy, ignored);
      if (!violations.empty()) return violations;
      code = RunToRest({});
      crash_ += fmt::format("; a process ended with {}", code ? std::to_string(*code) : "nothing");
      result_.crash = crash_;
      StartChurn();
      violations = JudgeEnd(code);
      if (!violations.empty()) return violations;
      if (!code) return {"promise 7: a process on the damaged store neither ends nor says why"};
      if (code == kSettled) ++result_.lived;
      if (*code > 0 && !refused) {
        return {"promise 7: a process refused a store in which nothing is wrong: " + Said()};
      }
    }
    Expectations expected = Expected();
    expected.settled = code == kSettled;
    auto violations = Check(expected, &refused);
    if (!refused && (!code || code == kSettled)) return violations;
    if (!violations.empty()) return violations;
    ++result_.refused;
    Mend();
    violations = Check(Expected(), &refused);
    if (refused) return {"promise 7: what was repaired is damaged still"};
    return violations;
  }

  std::string Said() const {
    std::ifstream file(said_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // What is wrong with how a process ended. Debian's RocksDB has its assertions on: a known one
  // is a crash like any other, and is counted.
  std::vector<std::string> JudgeEnd(std::optional<int> code) {
    if (!code || code == kSettled || code == -SIGKILL) return {};
    const std::string said = Said();
    if (code == kDamaged) {
      if (options_.mode == "flip") return {};
      return {"promise 7: a process met damage that nobody did: " + said};
    }
    // Files are made and locked beside RocksDB's, too, which a full disk refuses.
    const bool may_refuse = disk_failed_ || options_.mode == "flip" || options_.mode == "full";
    if (code == kRefused && may_refuse) return {};
    if (*code >= 0) return {fmt::format("promise 6: a process ended with {}: {}", *code, said)};
    const std::string assertion = AssertionIn(said);
    if (code == -SIGABRT && IsKnownAssertion(assertion, disk_failed_)) {
      ++result_.aborts[assertion];
      return {};
    }
    return {fmt::format("promise 7: a process was ended by signal {}: {}", -*code, said)};
  }

  pid_t Start(const std::vector<std::string>& command) {
    std::error_code ignored;
    fs::remove(met_, ignored);
    return Spawn(command, said_);
  }

  // Whether the disk failed under the process that has ended.
  void ReadMet() {
    std::string what;
    std::ifstream file(met_);
    disk_failed_ = static_cast<bool>(std::getline(file, what));
    if (disk_failed_) ++result_.met[what];
  }

  void StartChurn() {
    apiserver::ChurnOptions churn;
    churn.rate = 400;
    churn.create = 2;
    churn.update = 6;
    churn.remove = 2;
    churn.seed = dice_.Any();
    simulator_->StartChurn(churn);
  }

  // Of a process that is to be started.
  std::vector<std::string> Command(const std::string& plan) {
    if (!plan.empty()) ++result_.planned[PointOf(plan)];
    std::vector<std::string> command = {options_.program, "subject",
                                        "--url",          simulator_->Url(),
                                        "--store",        store_,
                                        "--journal",      journal_,
                                        "--seed",         std::to_string(dice_.Any() >> 1),
                                        "--plan",         plan,
                                        "--mutant",       options_.mutant};
    if (sync_) command.emplace_back("--sync");
    if (!key_file_.empty()) command.insert(command.end(), {"--key-file", key_file_});
    command.insert(command.end(), {"--log", journal_ + ".log"});
    return command;
  }

  // What is wrong with how the process ended.
  std::vector<std::string> Crash() {
    const unsigned another = options_.mutant == "any-cluster" ? 50 : 10;
    if (options_.mode == "kill" && dice_.Chance(another)) AnotherCluster();
    const std::string plan = ChoosePlan(options_.mode, left_, dice_);
    if (dice_.Chance(15) || plan.starts_with("kill:relist")) ExpireHistory();
    crash_ = plan.empty() ? "by time" : plan;
    const pid_t pid = Start(Command(plan));
    // Then there is room again, and some time to go on in.
    if (options_.mode == "full") FillDisk();
    const auto start = std::chrono::steady_clock::now();
    const milliseconds patience(plan.empty() ? 10 + dice_.Below(190) : 150 + dice_.Below(150));
    std::optional<int> code;
    if (dice_.Chance(25)) {
      // In the middle of a relist, or near it; or of a watch that goes on elsewhere.
      code = WaitFor(pid, start + 80ms);
      if (dice_.Chance(70)) ExpireHistory();
      simulator_->DropConnections();
      if (!code)
        code = WaitFor(pid, std::chrono::steady_clock::now() + milliseconds(dice_.Below(60)));
    } else {
      code = WaitFor(pid, start + patience);
    }
    if (!code) Kill(pid);
    if (!code && options_.mode == "kill") ++result_.met["any time"];
    ReadMet();
    // A process whose disk fails has written that down.
    if (code == -SIGKILL && !plan.empty()) ++result_.met[PointOf(plan)];
    if (disk_failed_ || code == -SIGKILL || options_.mode == "kill") ++result_.injected;
    return JudgeEnd(code);
  }

  void ExpireHistory() {
    simulator_->ExpireHistory("pods");
    expired_at_ = simulator_->Version();
  }

  // The cluster is set up anew at the same address: versions are given out again.
  void AnotherCluster() {
    simulator_->StopChurn();
    if (!simulator_->RestoreState()) Die("no saved state");
    if (!simulator_->SetClusterUid(fmt::format("cluster-{:016x}", dice_.Any())))
      Die("no new cluster");
    simulator_->SaveState();
    expired_at_ = simulator_->Version();
    StartChurn();
  }

  // The disk has no room for a while from when the process meets that.
  void FillDisk() {
    std::this_thread::sleep_for(milliseconds(dice_.Below(200)));
    const std::string ballast = store_ + ".ballast";
    const auto space = fs::space(fs::path(store_).parent_path());
    const uint64_t left = dice_.Below(100'000);
    {
      const int file = ::open(ballast.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      if (space.available > left) {
        (void)!::posix_fallocate(file, 0, static_cast<off_t>(space.available - left));
      }
      ::close(file);
    }
    const auto patience = std::chrono::steady_clock::now() + 2s;
    while (!fs::exists(met_) && std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(1ms);
    }
    std::this_thread::sleep_for(milliseconds(dice_.Below(400)));
    ::unlink(ballast.c_str());
  }

  // Flips a bit, or cuts the end off, of one file.
  void Damage() {
    static constexpr const char* kKinds[] = {"log", "table", "manifest", "current", "options"};
    const std::string kind =
        options_.file.empty() ? kKinds[dice_.Below(std::size(kKinds))] : options_.file;
    std::vector<fs::path> files;
    if (!fs::exists(store_)) return;
    for (const auto& entry : fs::recursive_directory_iterator(store_)) {
      if (entry.is_regular_file() && entry.file_size() > 0 &&
          FileKind(entry.path().string()) == kind) {
        files.push_back(entry.path());
      }
    }
    if (files.empty()) return;
    std::sort(files.begin(), files.end());
    const fs::path& path = files[dice_.Below(files.size())];
    ++result_.injected;
    ++result_.met[kind];
    const uint64_t size = fs::file_size(path);
    if (dice_.Chance(30)) {
      const uint64_t cut = dice_.Below(size);
      crash_ = fmt::format("{} of {} bytes cut to {}", path.filename().string(), size, cut);
      fs::resize_file(path, cut);
      return;
    }
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(dice_.Below(size));
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ (1 << dice_.Below(8))));
    crash_ = fmt::format("{} of {} bytes: a bit at {}", path.filename().string(), size, at);
  }

  // Opening a store changes it: for whoever looks into a violation.
  void KeepAsFound() const { CopyStore(found_); }

  void CopyStore(const std::string& copy) const {
    std::error_code ignored;
    fs::remove_all(copy, ignored);
    fs::copy(store_, copy, fs::copy_options::recursive, ignored);
    fs::permissions(copy, fs::perms::owner_all, ignored);
  }

  // What an operator does with a damaged store: repair it, or begin anew.
  void Mend() {
    if (Repair(StoreAt(store_, key_file_))) return;
    ++result_.emptied;
    std::error_code ignored;
    fs::remove_all(store_, ignored);
  }

  // A last process, which comes to rest. With fail_at_rest the disk fails under this one, too, but
  // not for good: it must get over that by itself.
  std::vector<std::string> Settle() {
    std::optional<int> code;
    const bool failing =
        options_.fail_at_rest && (options_.mode == "io" || options_.mode == "full");
    if (failing) {
      code = RunToRest(options_.mode == "io" ? "fail:" + ChooseFault(dice_) : "");
    }
    // One that could not even open its store, or was aborted by an assertion of RocksDB's (Debian's
    // has them on), is a crash like any other.
    const bool runs_still = failing && !code;
    auto violations = JudgeEnd(code);
    if (!violations.empty()) return violations;
    if (!runs_still && code != kSettled) code = ComeToRest(150ms);
    return code == kSettled ? CheckAtRest() : NotAtRest(code);
  }

  // Of a sound disk, in a second process where a known assertion ended the first.
  std::optional<int> ComeToRest(milliseconds before) {
    const auto code = RunToRest({}, before);
    return code == -SIGABRT && JudgeEnd(code).empty() ? RunToRest({}, before) : code;
  }

  std::vector<std::string> NotAtRest(std::optional<int> code) const {
    return {fmt::format("promise 6: the process did not come to rest: {}; {}",
                        code ? fmt::format("it ended with {}", *code) : "it still ran", Said())};
  }

  std::vector<std::string> CheckAtRest() {
    Expectations expected = Expected();
    expected.settled = true;
    bool refused = false;
    return Check(expected, &refused);
  }

  // What the process ended with; nullopt: it did not. After `before` nothing happens any more.
  std::optional<int> RunToRest(const std::string& plan, milliseconds before = 150ms) {
    const std::string settle = options_.directory + "/settle";
    std::error_code ignored;
    fs::remove(settle, ignored);
    std::vector<std::string> command = Command(plan);
    command.insert(command.end(), {"--settle-file", settle});
    const pid_t pid = Start(command);
    if (options_.mode == "full" && options_.fail_at_rest) FillDisk();
    std::optional<int> code = WaitFor(pid, std::chrono::steady_clock::now() + before);
    simulator_->StopChurn();
    uint64_t newest = 0;
    for (const apiserver::HistoryEntry& entry : simulator_->History()) {
      if (entry.resource == "pods") newest = entry.version;
    }
    std::ofstream(settle) << newest << std::endl;
    if (!code) code = WaitFor(pid, std::chrono::steady_clock::now() + kSettleTime);
    if (!code) Kill(pid);
    ReadMet();
    return code;
  }

  const EpisodeOptions options_;
  Dice dice_;
  const bool sync_;  // an informer with Durability::kSync
  const Form form_;
  const std::string store_;
  const std::string key_file_;  // empty: nothing is encrypted
  const std::string said_;      // what the last process said
  const std::string found_;     // a copy of the store as the last crash left it
  const std::string journal_;
  const std::string met_;
  bool left_ = false;         // the store was judged by a copy last
  bool disk_failed_ = false;  // under the last process
  uint64_t expired_at_ = 0;   // a watch from before this version is not possible any more
  EpisodeResult result_;
  std::unique_ptr<apiserver::Simulator> simulator_;
  std::optional<Oracle> oracle_;
  std::string crash_;
};

}  // namespace

EpisodeResult RunEpisode(const EpisodeOptions& options) { return Episode(options).Run(); }

}  // namespace larder::crash
