// `larder demo`: what a restart costs with a store, shown on a simulated cluster.
//
// Act one: a controller syncs, works, and is killed with SIGKILL in the middle of its work, while
// the cluster goes on changing. It starts again. Act two: it was away for so long that the server's
// history has expired. Every figure is measured here and now; what was lost is found by comparing
// the workers' journal and the store with the cluster's own history.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "storage/store.h"
#include "tools/command.h"
#include "tools/demo/child.h"
#include "tools/demo/cluster.h"
#include "tools/demo/journal.h"
#include "tools/demo/report.h"
#include "tools/demo/worker.h"

namespace larder::tools {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

// Changes a second that no machine makes.
constexpr double kAtOnce = 1e6;

struct DemoOptions {
  uint64_t objects = 20'000;
  double churn = 200;
  uint64_t seed = 1;
  std::string store;
  bool json = false;
};

// A controller process, from its start to its end.
class Controller {
 public:
  static Result<std::unique_ptr<Controller>> Start(const std::vector<std::string>& arguments,
                                                   const std::stop_token& stop) {
    std::unique_ptr<Controller> controller(new Controller(stop));
    const auto begin = steady_clock::now();
    LARDER_ASSIGN_OR_RETURN(controller->process_, Child::Start(arguments));
    LARDER_RETURN_IF_ERROR(controller->Next());
    controller->ready_.seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
    const Json& line = controller->last_;
    controller->ready_.bytes = line.value("bytes", uint64_t{0});
    controller->ready_.objects = line.value("objects", uint64_t{0});
    controller->ready_.rewritten = line.value("rewritten", uint64_t{0});
    controller->ready_.rss_mb = line.value("rss_mb", 0.0);
    // A list counts when the reflector has returned from it, which is just after the store is
    // complete.
    LARDER_RETURN_IF_ERROR(controller->Next());
    controller->ready_.lists = controller->Figure("lists");
    return controller;
  }

  // Figures at the moment it was ready.
  Phase ready() const { return ready_; }
  // Its last line. Next() waits for a new one.
  uint64_t Figure(const char* name) const { return last_.value(name, uint64_t{0}); }
  Result<void> Next() {
    auto line = process_->ReadLine(std::chrono::minutes(10), stop_);
    if (!line) {
      if (line.error().code == ErrorCode::kCancelled) return tl::unexpected(line.error());
      return MakeError(ErrorCode::kUnavailable, "the controller ended before its work was done");
    }
    last_ = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (last_.value("event", "") == "error") {
      return MakeError(ErrorCode::kIo, "{}", last_.value("message", ""));
    }
    return {};
  }
  // Until everything up to a version is stored, and nothing is pending.
  Result<void> WaitUntilDone(uint64_t version, DemoProgress& progress) {
    for (;;) {
      LARDER_RETURN_IF_ERROR(Next());
      const std::string at = last_.value("version", "");
      progress.Update(fmt::format("{} pieces of work to do", Figure("pending")));
      if (Figure("pending") == 0 && std::strtoull(at.c_str(), nullptr, 10) >= version) return {};
    }
  }
  void Kill() { process_->Kill(); }
  Result<void> Terminate() { return process_->Terminate(std::chrono::seconds(10)); }

 private:
  explicit Controller(std::stop_token stop) : stop_(std::move(stop)) {}

  std::stop_token stop_;
  std::unique_ptr<Child> process_;
  Json last_;
  Phase ready_;
};

class Demo {
 public:
  Demo(const DemoOptions& options, const std::stop_token& stop)
      : options_(options), stop_(stop), progress_(!options.json) {}

  Result<DemoReport> Run() {
    LARDER_RETURN_IF_ERROR(PrepareDirectory());
    progress_.Begin(fmt::format("Starting a simulated cluster of {} pods", options_.objects));
    LARDER_ASSIGN_OR_RETURN(cluster_, Cluster::Start(options_.objects, options_.seed, stop_));
    report_.objects = options_.objects;
    report_.store = store_;
    LARDER_RETURN_IF_ERROR(FirstStart());
    LARDER_RETURN_IF_ERROR(RestartAfterKill());
    LARDER_RETURN_IF_ERROR(RestartAfterExpiry());
    LARDER_RETURN_IF_ERROR(CompareWithHistory());
    progress_.End();
    return report_;
  }

 private:
  Result<void> PrepareDirectory() {
    store_ = options_.store;
    if (store_.empty()) {
      std::string pattern = (fs::temp_directory_path() / "larder-demo-XXXXXX").string();
      if (!::mkdtemp(pattern.data())) {
        return MakeError(ErrorCode::kIo, "cannot make a directory like {}: {}", pattern,
                         std::strerror(errno));
      }
      store_ = pattern + "/store";
    }
    std::error_code error;
    if (fs::exists(store_, error) && !fs::is_empty(store_, error)) {
      return MakeError(
          ErrorCode::kInvalidArgument,
          "{} is not empty, and the demo begins with an empty store; remove it or choose "
          "another --store",
          store_);
    }
    journal_ = store_ + ".journal";
    fs::remove(journal_, error);
    fs::create_directories(fs::absolute(store_).parent_path(), error);
    if (error) {
      return MakeError(ErrorCode::kIo, "cannot make the directory for {}: {}", store_,
                       error.message());
    }
    return {};
  }

  // One in a hundred changes while the controller is away.
  uint64_t Changes() const { return std::max<uint64_t>(options_.objects / 100, 50); }

  // What one reconcile takes: long enough that a kill in the first second finds work pending.
  uint64_t WorkMicroseconds() const {
    return std::max<uint64_t>(400, 4'000'000 / options_.objects);
  }

  // Ready when it has caught up with the newest change of a pod.
  Result<std::unique_ptr<Controller>> StartController() {
    LARDER_ASSIGN_OR_RETURN(const uint64_t newest, NewestVersion());
    return Controller::Start(
        {"--log-level", "off", "demo-worker", "--store", store_, "--server", cluster_->url(),
         "--journal", journal_, "--until-version", std::to_string(newest), "--work-microseconds",
         std::to_string(WorkMicroseconds())},
        stop_);
  }

  Result<void> FirstStart() {
    progress_.Begin("First start: the controller lists the whole cluster");
    LARDER_ASSIGN_OR_RETURN(controller_, StartController());
    report_.cold = controller_->ready();
    LARDER_RETURN_IF_ERROR(cluster_->Churn(options_.churn, 0, options_.seed));
    progress_.Begin("The controller works, the cluster changes");
    // Kill it when some work is done and some is not.
    for (int i = 0; i < 8; ++i) {
      LARDER_RETURN_IF_ERROR(controller_->Next());
      if (controller_->Figure("pending") < options_.objects / 2) break;
    }
    controller_->Kill();
    return {};
  }

  Result<void> RestartAfterKill() {
    progress_.Begin("kill -9. The cluster goes on changing without the controller");
    LARDER_RETURN_IF_ERROR(LookIntoStore());
    LARDER_RETURN_IF_ERROR(cluster_->Churn(kAtOnce, Changes(), options_.seed + 1));
    LARDER_RETURN_IF_ERROR(cluster_->WaitForChurn());
    // The cluster stands still while the controller starts, so that what it must fetch is known
    // exactly.
    LARDER_ASSIGN_OR_RETURN(const auto missed, cluster_->LastEvents(at_kill_.version));
    LARDER_ASSIGN_OR_RETURN(const Journal::Reading before, Journal::Read(journal_));
    report_.changed_while_down = missed.size();

    progress_.Begin("Restart: the controller goes on where it stopped");
    LARDER_ASSIGN_OR_RETURN(controller_, StartController());
    report_.resume = controller_->ready();
    LARDER_RETURN_IF_ERROR(cluster_->Churn(options_.churn, 200, options_.seed + 2));
    LARDER_RETURN_IF_ERROR(cluster_->WaitForChurn());
    LARDER_ASSIGN_OR_RETURN(const uint64_t newest, NewestVersion());
    LARDER_RETURN_IF_ERROR(controller_->WaitUntilDone(newest, progress_));
    report_.pending_resumed = controller_->Figure("resumed");
    LARDER_ASSIGN_OR_RETURN(const Journal::Reading after, Journal::Read(journal_, before.lines));
    LARDER_RETURN_IF_ERROR(CountDeletes(missed, after));
    return controller_->Terminate();
  }

  // Deletes that happened while nobody watched, and those of them that reached a worker.
  Result<void> CountDeletes(const std::map<std::string, Cluster::Event>& missed,
                            const Journal::Reading& after) {
    LARDER_ASSIGN_OR_RETURN(const auto now, cluster_->LastEvents(at_kill_.version));
    for (const auto& [key, event] : missed) {
      // A pod that was created and deleted again meanwhile was never known here.
      if (!event.deleted || at_kill_.objects.count(key) == 0) continue;
      ++report_.deleted_while_down;
      const auto seen = after.last.find(key);
      if (seen == after.last.end()) continue;
      // A pod that came back under its name before the worker looked is seen as what it is now.
      const bool came_back = !now.at(key).deleted;
      if (came_back || seen->second == Journal::kDeleted) ++report_.deletes_delivered;
    }
    return {};
  }

  Result<void> RestartAfterExpiry() {
    progress_.Begin("Second act: the controller is away until the server's history has expired");
    LARDER_RETURN_IF_ERROR(cluster_->Churn(kAtOnce, Changes(), options_.seed + 3));
    LARDER_RETURN_IF_ERROR(cluster_->WaitForChurn());
    LARDER_RETURN_IF_ERROR(cluster_->ExpireHistory());
    LARDER_ASSIGN_OR_RETURN(controller_, StartController());
    report_.relist = controller_->ready();
    LARDER_ASSIGN_OR_RETURN(const uint64_t newest, NewestVersion());
    LARDER_RETURN_IF_ERROR(controller_->WaitUntilDone(newest, progress_));
    return controller_->Terminate();
  }

  // The truth is the cluster's own history: every pod's last state must be in the store, and must
  // have reached a worker.
  Result<void> CompareWithHistory() {
    progress_.Begin("Comparing the store and the workers' journal with the cluster's history");
    LARDER_ASSIGN_OR_RETURN(const auto truth, cluster_->LastEvents(0));
    LARDER_ASSIGN_OR_RETURN(const Journal::Reading journal, Journal::Read(journal_));
    LARDER_ASSIGN_OR_RETURN(const auto store, Store::OpenReadOnly({.path = store_}));
    LARDER_ASSIGN_OR_RETURN(const auto stored, StoredObjects(*store));
    for (const auto& [key, event] : truth) {
      const auto in_store = stored.find(key);
      const auto seen = journal.last.find(key);
      if (event.deleted) {
        // A pod that came and went between two looks is rightly unknown.
        const bool known = seen != journal.last.end();
        if (in_store != stored.end() || (known && seen->second != Journal::kDeleted))
          ++report_.lost;
        continue;
      }
      const std::string version = std::to_string(event.version);
      if (in_store == stored.end() || in_store->second != version || seen == journal.last.end() ||
          seen->second != version) {
        ++report_.lost;
      }
    }
    for (const auto& [key, version] : stored) {
      if (truth.count(key) == 0) ++report_.lost;
    }
    return {};
  }

  // Key and version of every object in the store.
  static Result<std::map<std::string, std::string>> StoredObjects(const Store& store) {
    std::map<std::string, std::string> objects;
    LARDER_ASSIGN_OR_RETURN(const auto collections, store.Collections());
    for (const CollectionInfo& collection : collections) {
      LARDER_RETURN_IF_ERROR(
          store.ScanHeads(collection.id, {}, [&](const ObjectKey& key, const ObjectHead& head) {
            objects[key.ToString()] = head.resource_version;
            return true;
          }));
    }
    return objects;
  }

  // What the killed controller left behind: as a reader beside nobody.
  Result<void> LookIntoStore() {
    LARDER_ASSIGN_OR_RETURN(const auto store, Store::OpenReadOnly({.path = store_}));
    LARDER_ASSIGN_OR_RETURN(const auto collections, store->Collections());
    if (collections.empty()) return MakeError(ErrorCode::kInternal, "the store has no collection");
    at_kill_.version = std::strtoull(collections[0].cursor.resource_version.c_str(), nullptr, 10);
    LARDER_ASSIGN_OR_RETURN(at_kill_.objects, StoredObjects(*store));
    std::string last;
    return store->ScanQueue(kDemoQueue, {}, [&](const StoredQueueItem& item) {
      if (item.item != last) ++report_.pending_at_kill;
      last = item.item;
      return true;
    });
  }

  // The newest version of a pod: other resources' versions never come through a watch on pods.
  Result<uint64_t> NewestVersion() {
    LARDER_ASSIGN_OR_RETURN(const auto events, cluster_->LastEvents(0));
    uint64_t newest = 0;
    for (const auto& [key, event] : events) newest = std::max(newest, event.version);
    return newest;
  }

  const DemoOptions options_;
  const std::stop_token stop_;
  DemoProgress progress_;
  DemoReport report_;
  std::string store_;
  std::string journal_;
  struct {
    uint64_t version = 0;
    std::map<std::string, std::string> objects;
  } at_kill_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Controller> controller_;
};

int RunDemo(const DemoOptions& options, const std::stop_token& stop) {
  auto report = Demo(options, stop).Run();
  if (!report) return Fail(report.error());
  if (options.json) {
    std::printf("%s\n", report->ToJson().c_str());
  } else {
    std::printf("%s", report->ToTable().c_str());
  }
  return report->lost == 0 && report->deletes_delivered == report->deleted_while_down ? kOk
                                                                                      : kBadResult;
}

}  // namespace

void AddDemo(CLI::App& app, Context& context) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* demo = app.add_subcommand(
      "demo", "Kill a controller in the middle of its work and show what its restart costs");
  demo->add_option("--objects", options->objects, "Pods in the simulated cluster")
      ->check(CLI::Range(uint64_t{100}, uint64_t{2'000'000}))
      ->capture_default_str();
  demo->add_option("--churn", options->churn, "Changes a second while the controller runs")
      ->check(CLI::Range(1.0, 100'000.0))
      ->capture_default_str();
  demo->add_option("--store", options->store,
                   "Keep the store here (default: a new temporary directory)");
  demo->add_option("--seed", options->seed, "The same seed gives the same cluster")
      ->capture_default_str();
  demo->add_flag("--json", options->json, "Print one JSON object, and nothing else, on stdout");
  demo->callback([options, &context] { context.exit_code = RunDemo(*options, context.stop); });

  auto worker = std::make_shared<WorkerOptions>();
  CLI::App* run = app.add_subcommand("demo-worker", "The controller process of `larder demo`");
  run->group("");
  run->add_option("--store", worker->store)->required();
  run->add_option("--server", worker->server)->required();
  run->add_option("--journal", worker->journal)->required();
  run->add_option("--until-version", worker->until_version);
  run->add_option("--work-microseconds", worker->work_microseconds);
  run->callback([worker, &context] { context.exit_code = RunWorker(*worker, context.stop); });
}

}  // namespace larder::tools
