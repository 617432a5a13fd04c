#include "tests/soak/run.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "apiserver/simulator.h"
#include "storage/store.h"
#include "tests/crash/process.h"
#include "tests/soak/controller.h"
#include "tests/soak/judge.h"

namespace larder::soak {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

SteadyClock::duration ToDuration(double seconds) {
  return std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
}

constexpr double kMegabyte = 1 << 20;
// So long a process may take to stop in good order, or to come to rest.
constexpr auto kPatience = 120s;
// A process takes minutes to come to its level: what grows within shorter lives says nothing of
// hours.
constexpr double kTellingLife = 900;
// A restart hands out so many rows before the handler hangs again; what of them is deleted later
// must be told.
constexpr uint64_t kHandedOutByALife = 256;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "soak: %s\n", what.c_str());
  std::_Exit(2);
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

uint64_t DiskUse(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) == 0)
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

uint64_t EntriesOf(const std::string& directory) {
  uint64_t entries = 0;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    ++entries;
  }
  return entries;
}

class Soak {
 public:
  explicit Soak(const RunOptions& options)
      : options_(options),
        store_(options.directory + "/store"),
        status_(options.directory + "/status"),
        watch_window_(static_cast<size_t>(std::max(10'000.0, 40 * options.rate))),
        start_(SteadyClock::now()) {
    apiserver::SimulatorOptions server;
    server.seed = options.seed;
    server.watch_window = watch_window_;
    // A stream with few changes keeps its place by bookmarks.
    server.bookmark_interval = 5s;
    auto simulator = apiserver::Simulator::Start(server);
    if (!simulator) Die(simulator.error().ToString());
    simulator_ = *std::move(simulator);
    if (!simulator_->Load(options.objects)) Die("no pods");
    namespace_ = ObjectKey::Parse(simulator_->Snapshot("pods").begin()->first)->ns;
    if (!options.csv.empty()) {
      csv_.open(options.csv);
      csv_ << "seconds,life,age,rss_bytes,anonymous_bytes,cached_bytes,heap_bytes,disk_bytes,rows,"
              "objects,threads,files,"
              "changes,behind\n";
    }
  }

  std::vector<std::string> Run() {
    std::jthread churn([this](const std::stop_token& stop) { Churn(stop); });
    const auto end = start_ + ToDuration(options_.seconds);
    while (SteadyClock::now() < end && problems_.empty()) Live(end);
    const double ran = Seconds();
    churn.request_stop();
    churn.join();
    Say(fmt::format("churn: {} changes in {:.0f} s, {:.0f} a second of {:.0f} asked for",
                    changes_.load(), ran, static_cast<double>(changes_) / ran, options_.rate));
    Settle();
    Judge();
    return problems_;
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(SteadyClock::now() - start_).count();
  }

  // A flat number of objects: what there are too many of is deleted more often.
  void Churn(const std::stop_token& stop) {
    std::mt19937_64 random(options_.seed);
    while (!stop.stop_requested()) {
      const auto due = static_cast<uint64_t>(Seconds() * options_.rate);
      if (changes_ >= due) {
        std::this_thread::sleep_for(5ms);
        continue;
      }
      apiserver::ChurnOptions churn;
      churn.seed = random();
      const uint64_t now = simulator_->Count("pods");
      churn.create = now <= options_.objects ? 1.5 : 0.5;
      churn.remove = 2 - churn.create;
      const uint64_t some = std::min<uint64_t>(due - changes_, 40);
      simulator_->RunChurn(some, churn);
      changes_ += some;
    }
  }

  pid_t StartController(uint64_t settle_at) {
    std::error_code ignored;
    fs::remove(status_, ignored);
    std::vector<std::string> command = {options_.program, "controller"};
    command.insert(command.end(), {"--url", simulator_->Url(), "--store", store_});
    command.insert(command.end(), {"--namespace", namespace_, "--status", status_});
    command.insert(command.end(), {"--log", options_.directory + "/log"});
    command.insert(command.end(), {"--settle-at", std::to_string(settle_at)});
    if (life_ > 1) command.emplace_back("--hang-at-once");
    return crash::Spawn(command);
  }

  // One process, from its start to its end by us.
  void Live(SteadyClock::time_point end) {
    ++life_;
    const auto born = SteadyClock::now();
    const pid_t pid = StartController(0);
    const auto until = std::min(end, born + ToDuration(options_.restart_every));
    uint64_t relists = 0;
    most_behind_ = samples_.empty() ? 0 : samples_.back().behind;
    for (auto next = born; SteadyClock::now() < until;) {
      next += ToDuration(options_.sample_every);
      if (const auto code = crash::WaitFor(pid, std::min(next, until))) {
        problems_.push_back(
            fmt::format("life {}: the process ended by itself, with {}", life_, *code));
        return;
      }
      const ControllerStatus status = ReadStatus(status_);
      Take(pid, status, std::chrono::duration<double>(SteadyClock::now() - born).count());
      if (status.relists > relists) {
        relists = status.relists;
        Relisted();
      }
      if (options_.expire_after > 0 && Seconds() > options_.expire_after && !expired_) Expire();
    }
    End(pid);
  }

  // Who is starved until the server has forgotten its place must list; nobody else.
  void Relisted() {
    const std::string what =
        fmt::format("life {}: at {:.0f} s an informer listed again, at most {} changes behind",
                    life_, Seconds(), most_behind_);
    if (most_behind_ >= watch_window_) return Say(what);
    problems_.push_back(fmt::format("{}; the server has the last {}", what, watch_window_));
  }

  void Expire() {
    simulator_->ExpireHistory();
    simulator_->DropConnections();
    expired_ = true;
  }

  void Take(pid_t pid, const ControllerStatus& status, double age) {
    Sample sample;
    sample.seconds = Seconds();
    sample.age = age;
    sample.life = life_;
    std::ifstream proc(fmt::format("/proc/{}/status", pid));
    for (std::string word; proc >> word;) {
      if (word == "VmRSS:") proc >> sample.rss_bytes;
      if (word == "RssAnon:") proc >> sample.anonymous_bytes;
      if (word == "Threads:") proc >> sample.threads;
    }
    sample.rss_bytes *= 1024;
    sample.anonymous_bytes *= 1024;
    sample.files = EntriesOf(fmt::format("/proc/{}/fd", pid));
    sample.disk_bytes = DiskUse(store_);
    sample.rows = status.rows;
    sample.cached_bytes = status.cached_bytes;
    sample.heap_bytes = status.heap_bytes;
    sample.objects = simulator_->Count("pods");
    sample.changes = changes_;
    const uint64_t version = simulator_->Version();
    // It says nothing before it knows where it stands.
    if (status.version != 0 && version > status.version) sample.behind = version - status.version;
    most_behind_ = std::max(most_behind_, sample.behind);
    if (csv_.is_open()) {
      csv_ << fmt::format("{:.2f},{},{:.2f},{},{},{},{},{},{},{},{},{},{},{}\n", sample.seconds,
                          sample.life, sample.age, sample.rss_bytes, sample.anonymous_bytes,
                          sample.cached_bytes, sample.heap_bytes, sample.disk_bytes, sample.rows,
                          sample.objects, sample.threads, sample.files, sample.changes,
                          sample.behind)
           << std::flush;
    }
    samples_.push_back(sample);
  }

  void End(pid_t pid) {
    const Sample last = samples_.empty() ? Sample{} : samples_.back();
    const bool kill = life_ % 2 == 0;
    Say(fmt::format(
        "life {}: {:.0f} s, RSS {:.1f} MB, disk {:.1f} MB, {} rows wait, {} objects, {} "
        "threads, {} files; ends {}",
        life_, last.age, static_cast<double>(last.rss_bytes) / kMegabyte,
        static_cast<double>(last.disk_bytes) / kMegabyte, last.rows, last.objects, last.threads,
        last.files, kill ? "by kill -9" : "in good order"));
    if (kill) return crash::Kill(pid);
    ::kill(pid, SIGTERM);
    const auto code = crash::WaitFor(pid, SteadyClock::now() + kPatience);
    if (code == 0) return;
    if (!code) crash::Kill(pid);
    problems_.push_back(fmt::format("life {}: it did not stop in good order ({})", life_,
                                    code ? std::to_string(*code) : "it still ran"));
  }

  // The handler hangs no more: it must hear what waited, and the store must equal the server.
  void Settle() {
    if (!problems_.empty()) return;
    const auto expected = simulator_->Snapshot("pods");
    uint64_t newest = 0;
    for (const auto& [key, object] : expected)
      newest = std::max<uint64_t>(newest, std::stoull(object.second));
    const auto born = SteadyClock::now();
    const pid_t pid = StartController(newest);
    const auto code = crash::WaitFor(pid, born + kPatience);
    if (!code) crash::Kill(pid);
    if (code != 0) {
      problems_.push_back(fmt::format("the last process did not come to rest; {} rows wait",
                                      ReadStatus(status_).rows));
      return;
    }
    Say(fmt::format("at rest {:.1f} s after the handler was let go",
                    std::chrono::duration<double>(SteadyClock::now() - born).count()));
    CompareStore(expected);
  }

  void CompareStore(const std::map<std::string, std::pair<std::string, std::string>>& expected) {
    StoreOptions options;
    options.path = store_;
    const auto store = Store::Open(options);
    if (!store) {
      problems_.push_back(store.error().ToString());
      return;
    }
    const auto collections = (*store)->Collections();
    if (!collections) {
      problems_.push_back(collections.error().ToString());
      return;
    }
    for (const CollectionInfo& collection : *collections) {
      if (!collection.spec.ns.empty()) continue;
      size_t found = 0, wrong = 0;
      // In full: a row whose dictionary is gone has a head still.
      const auto scanned = (*store)->Scan(collection.id, {}, {}, [&](const ObjectPtr& object) {
        ++found;
        const auto it = expected.find(object->key().ToString());
        if (it == expected.end() || it->second.first != object->uid() ||
            it->second.second != object->resource_version()) {
          ++wrong;
        }
        return true;
      });
      if (!scanned) {
        problems_.push_back(scanned.error().ToString());
      } else if (wrong > 0 || found != expected.size()) {
        problems_.push_back(
            fmt::format("the store has {} pods, {} of them wrong; the server has {}", found, wrong,
                        expected.size()));
      } else {
        Say(fmt::format("the store equals the server: {} pods", found));
      }
    }
  }

  std::vector<Point> Steady(const std::function<double(const Sample&)>& value) const {
    std::vector<Point> points;
    for (const Sample& sample : samples_) {
      if (sample.age >= options_.warm_up)
        points.push_back({sample.seconds, value(sample), sample.life});
    }
    return points;
  }

  void JudgeOne(const char* name, const std::function<double(const Sample&)>& value) {
    const std::vector<Point> points = Steady(value);
    if (points.size() < 3) {
      problems_.push_back(fmt::format("{}: too few samples to judge by", name));
      return;
    }
    for (const bool within : {true, false}) {
      const Slope slope = within ? WithinLives(points) : OverAll(points);
      const bool flat = IsFlat(slope, options_.bound_percent);
      const bool judged = !within || options_.judge_lives || options_.restart_every >= kTellingLife;
      const std::string line = fmt::format("{:<10} {:<12} {}", name,
                                           within ? "within lives" : "over all", ToString(slope));
      Say(fmt::format("{}: {}{}", line, flat ? "flat" : "GROWS",
                      judged ? "" : " (not judged: the lives are too short to tell)"));
      if (judged && !flat) problems_.push_back(line);
    }
  }

  void Judge() {
    JudgeOne("RSS MB",
             [](const Sample& s) { return static_cast<double>(s.rss_bytes) / kMegabyte; });
    JudgeOne("disk MB",
             [](const Sample& s) { return static_cast<double>(s.disk_bytes) / kMegabyte; });
    JudgeOne("threads", [](const Sample& s) { return static_cast<double>(s.threads); });
    JudgeOne("files", [](const Sample& s) { return static_cast<double>(s.files); });
    // What came and went meanwhile must not be among the rows.
    uint64_t most_rows = 0, most_objects = options_.objects;
    for (const Sample& sample : samples_) {
      most_rows = std::max(most_rows, sample.rows);
      most_objects = std::max(most_objects, sample.objects);
    }
    const uint64_t bound =
        options_.objects + most_objects + kHandedOutByALife * static_cast<uint64_t>(life_);
    Say(fmt::format("rows of the handler that hangs: at most {}, of {} that may be", most_rows,
                    bound));
    if (most_rows > bound)
      problems_.push_back(fmt::format("{} rows wait for one handler", most_rows));
    if (most_rows == 0) problems_.emplace_back("no handler was behind");
  }

  const RunOptions options_;
  const std::string store_;
  const std::string status_;
  const size_t watch_window_;  // changes that the server keeps
  const SteadyClock::time_point start_;
  std::unique_ptr<apiserver::Simulator> simulator_;
  std::string namespace_;  // one that has pods
  std::ofstream csv_;
  std::atomic<uint64_t> changes_{0};
  int life_ = 0;
  uint64_t most_behind_ = 0;  // in this life, and at the end of the one before
  bool expired_ = false;
  std::vector<Sample> samples_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> RunSoak(const RunOptions& options) { return Soak(options).Run(); }

}  // namespace larder::soak
