// `larder tune replay`, `report` and `apply`: try options on a copy, say which suit, use them.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "storage/mailbox.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store_access.h"
#include "tools/tune/tune.h"
#include "tuning/model.h"

namespace larder::tools {
namespace {

namespace fs = std::filesystem;

struct ReplayArguments {
  std::string store;
  std::string key_file;
  std::string workload;
  std::string profile;
  double scale = 1;
  uint64_t seed = 0;
  std::string current;
  size_t memory_limit = 0;
  uint64_t disk_budget = 0;
  std::string results;
  std::string scratch;
  unsigned repeats = 2;
  bool quick = false;
  std::vector<std::string> candidates;
  ReportArguments report;
};

// A directory for stores and traces that is gone at the end, whatever happens.
class Scratch {
 public:
  static Result<std::unique_ptr<Scratch>> Make(const std::string& parent) {
    std::string path =
        ((parent.empty() ? fs::temp_directory_path() : fs::path(parent)) / "larder-tune-XXXXXX")
            .string();
    if (!::mkdtemp(path.data())) {
      return MakeError(ErrorCode::kIo, "cannot make a scratch directory {}", path);
    }
    return std::make_unique<Scratch>(path);
  }
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

bool IsTrace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  file.read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == "LARD";
}

Result<std::unique_ptr<tuning::WorkSource>> OpenSource(const ReplayArguments& arguments,
                                                       const Store* store) {
  if (arguments.workload.empty() == arguments.profile.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "give either --workload FILE or --profile NAME");
  }
  if (!arguments.workload.empty() && IsTrace(arguments.workload)) {
    if (!store) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "a trace is replayed on a copy of the store that it was recorded from: give "
                       "--store DIR");
    }
    return tuning::SourceOfTrace(arguments.workload, *store);
  }
  LARDER_ASSIGN_OR_RETURN(tuning::WorkloadModel model,
                          arguments.profile.empty() ? tuning::LoadModel(arguments.workload)
                                                    : tuning::FindProfile(arguments.profile));
  if (arguments.seed != 0) model.seed = arguments.seed;
  model = tuning::Scaled(std::move(model), arguments.scale);
  // A profile is of no store: its objects are made up.
  return tuning::SourceOfModel(model, arguments.profile.empty() ? store : nullptr);
}

Result<EngineOptions> CurrentOptions(const ReplayArguments& arguments) {
  if (!arguments.current.empty()) return EngineOptions::Load(arguments.current);
  std::error_code error;
  const std::string applied = AppliedOptionsPath(arguments.store);
  if (!arguments.store.empty() && fs::exists(applied, error)) return EngineOptions::Load(applied);
  return EngineOptions();
}

// "db.max_background_jobs=4,*.compression=kZSTD" as a candidate of that name.
Result<tuning::Candidate> ParseCandidate(const std::string& text, const EngineOptions& current) {
  tuning::Candidate out;
  out.name = text;
  out.changes = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      return MakeError(ErrorCode::kInvalidArgument, "--candidate {}: spell it NAME=VALUE,...",
                       text);
    }
    LARDER_RETURN_IF_ERROR(out.change.Set(part.substr(0, equals), part.substr(equals + 1)));
    at = end + 1;
  }
  out.engine = current.With(out.change);
  return out;
}

// What was asked for; or what the store had while it was recorded; or what a store has by default.
size_t MemoryLimit(const ReplayArguments& arguments) {
  if (arguments.memory_limit != 0) return arguments.memory_limit;
  if (!arguments.workload.empty() && IsTrace(arguments.workload)) {
    const auto reader = TraceReader::Open(arguments.workload);
    if (reader && (*reader)->summary().memory_limit != 0) return (*reader)->summary().memory_limit;
  }
  return StoreOptions().memory_limit;
}

Result<int> Replay(const ReplayArguments& arguments, const StopOnSignal& stop) {
  LARDER_RETURN_IF_ERROR(tuning::AimFromString(arguments.report.aim));
  std::unique_ptr<Store> store;
  if (!arguments.store.empty()) {
    StoreArguments access;
    access.path = arguments.store;
    access.key_file = arguments.key_file;
    LARDER_ASSIGN_OR_RETURN(store, OpenReader(access));
  }
  LARDER_ASSIGN_OR_RETURN(const auto source, OpenSource(arguments, store.get()));
  tuning::SearchOptions search;
  LARDER_ASSIGN_OR_RETURN(search.current, CurrentOptions(arguments));
  search.matrix = arguments.quick || !arguments.candidates.empty()
                      ? tuning::MakeSmallMatrix(search.current)
                      : tuning::MakeMatrix(search.current);
  if (!arguments.candidates.empty()) {
    std::erase_if(search.matrix, [](const tuning::Candidate& entry) { return !entry.baseline; });
    for (const std::string& text : arguments.candidates) {
      LARDER_ASSIGN_OR_RETURN(tuning::Candidate candidate, ParseCandidate(text, search.current));
      search.matrix.push_back(std::move(candidate));
    }
    search.rounds = {1};
  } else if (arguments.quick) {
    search.rounds = {0.3, 1};
  }
  search.memory_limit = MemoryLimit(arguments);
  search.disk_budget = arguments.disk_budget;
  search.repeats = arguments.repeats;
  search.results = arguments.results;
  search.stop = stop;
  LARDER_ASSIGN_OR_RETURN(const auto scratch, Scratch::Make(arguments.scratch));
  search.folder = scratch->path();
  Progress progress("replaying", 1000);
  search.progress = [&](const std::string& what, double done) {
    progress.Show(static_cast<uint64_t>(done * 1000), what);
  };
  auto outcome = tuning::Search(*source, search);
  progress.Finish();
  if (!outcome) return tl::unexpected(outcome.error());
  if (outcome->interrupted) {
    const bool kept = !arguments.results.empty();
    return MakeError(
        ErrorCode::kCancelled, "interrupted; {} candidates were measured{}",
        outcome->measured.size(),
        kept ? fmt::format(" and are in {}: the same command goes on from there", arguments.results)
             : "; give --results FILE to keep them");
  }
  return Report(*outcome, arguments.report);
}

struct ReadArguments {
  std::string results;
  ReportArguments report;
};

Result<int> ReadReport(const ReadArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto results, tuning::Results::Load(arguments.results));
  LARDER_ASSIGN_OR_RETURN(const tuning::SearchOutcome outcome, tuning::OutcomeOf(*results));
  return Report(outcome, arguments.report);
}

struct ApplyArguments {
  std::string store;
  std::string file;
  bool remove = false;
};

Result<int> Apply(const ApplyArguments& arguments) {
  if (arguments.remove == !arguments.file.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "give either an options file or --remove");
  }
  EngineOptions engine;
  if (!arguments.remove) {
    LARDER_ASSIGN_OR_RETURN(engine, EngineOptions::Load(arguments.file));
  }
  Output& out = Stdout();
  if (!arguments.remove && engine.Empty()) {
    // What a replay writes that found nothing better.
    out.Print("{} sets nothing: {} keeps the options that it has (--remove: larder's own)\n",
              arguments.file, arguments.store);
    out.Flush();
    return kOk;
  }
  LARDER_RETURN_IF_ERROR(LeaveOptions(arguments.store, engine));
  if (arguments.remove) {
    out.Print("{} uses larder's own options from its next start on\n", arguments.store);
    out.Flush();
    return kOk;
  }
  size_t live = 0;
  for (const auto& [place, value] : engine.values()) {
    for (const EngineOptionInfo& info : KnownEngineOptions()) {
      if (info.section != place.section || info.name != place.name) continue;
      live += info.live ? 1 : 0;
      out.Print("{}={} {}\n", EngineOptions::ShortName(place), value,
                info.live ? "at once, where the store is open" : "at the next start");
    }
  }
  out.Print("{} of {} options can change while the store runs; its owner looks every second\n",
            live, engine.values().size());
  out.Flush();
  return kOk;
}

}  // namespace

void AddTuneReplay(CLI::App* tune, Context& context) {
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = tune->add_subcommand(
      "replay", "Replay a workload with many options on copies, and recommend; takes minutes");
  command
      ->add_option("--store", arguments->store,
                   "The store that the workload is of; it is only read")
      ->envname("LARDER_STORE")
      ->type_name("DIR");
  command
      ->add_option("--encryption-key-file", arguments->key_file,
                   "Keys of what is stored encrypted, newest first")
      ->envname("LARDER_ENCRYPTION_KEY_FILE")
      ->type_name("FILE");
  command->add_option("--workload", arguments->workload, "A trace or a model of this store")
      ->type_name("FILE");
  command->add_option("--profile", arguments->profile,
                      "Or one of rolling-restart, steady-churn, job-storms, node-failure, "
                      "event-flood");
  command->add_option("--scale", arguments->scale, "Multiplies objects and events of a model")
      ->check(CLI::Range(0.001, 1000.0))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Another sequence of the same model");
  command
      ->add_option("--current", arguments->current,
                   "The options to improve on; default: those applied to the store")
      ->type_name("FILE");
  command
      ->add_option("--memory-limit", arguments->memory_limit,
                   "The store's; default: that of the recorded store, or 64 MiB")
      ->transform(CLI::AsSizeValue(false));
  command
      ->add_option("--disk-budget", arguments->disk_budget,
                   "Never recommend what takes more; 0: no bound")
      ->transform(CLI::AsSizeValue(false));
  command
      ->add_option("--results", arguments->results,
                   "Keeps every measurement; the same command goes on from it")
      ->type_name("FILE");
  command->add_option("--scratch", arguments->scratch, "Where copies are made; default: TMPDIR")
      ->type_name("DIR");
  command->add_option("--repeats", arguments->repeats, "Runs of the last round")
      ->check(CLI::Range(1, 20))
      ->capture_default_str();
  command->add_flag("--quick", arguments->quick, "Few candidates, for a first look");
  command->add_option("--candidate", arguments->candidates,
                      "Only these: db.max_background_jobs=4,*.compression=kZSTD; may be repeated");
  AddReportOptions(command, arguments->report);
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Replay(*arguments, context.stop)); });
}

void AddTuneReport(CLI::App* tune, Context& context) {
  auto arguments = std::make_shared<ReadArguments>();
  CLI::App* command = tune->add_subcommand("report", "Show results that were measured before");
  command->add_option("results", arguments->results, "The file of --results")->required();
  AddReportOptions(command, arguments->report);
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(ReadReport(*arguments)); });
}

void AddTuneApply(CLI::App* tune, Context& context) {
  auto arguments = std::make_shared<ApplyArguments>();
  CLI::App* command = tune->add_subcommand(
      "apply", "Give a store options for all its later starts, and at once what can be");
  command->add_option("--store", arguments->store, "The store's directory")
      ->required()
      ->envname("LARDER_STORE")
      ->type_name("DIR");
  command->add_option("options", arguments->file, "What --write-options wrote");
  command->add_flag("--remove", arguments->remove, "Back to larder's own options");
  command->callback([arguments, &context] { context.exit_code = ExitCode(Apply(*arguments)); });
}

}  // namespace larder::tools
