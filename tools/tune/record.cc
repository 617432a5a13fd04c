// `larder tune record` and `larder tune model`: a workload from a live store, or from what is
// stored.
#include <memory>

#include "storage/mailbox.h"
#include "storage/measure.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store_access.h"
#include "tools/table_writer.h"
#include "tools/tune/tune.h"
#include "tuning/model.h"

namespace larder::tools {
namespace {

constexpr std::chrono::milliseconds kPoll{50};
// How long the owner may take to begin or to end: it looks every sync interval.
constexpr std::chrono::seconds kPatience{30};

struct RecordArguments {
  StoreArguments store;
  double seconds = 600;
  uint64_t max_bytes = uint64_t{256} << 20;
  std::string file = "larder.trace";
};

// What changed how often, by resource.
struct Churn {
  uint64_t puts = 0;
  uint64_t deletes = 0;
  uint64_t gets = 0;
  uint64_t json_bytes = 0;
  uint64_t stored_bytes = 0;
};

Result<std::map<CollectionId, Churn>> ReadChurn(TraceReader& reader) {
  std::map<CollectionId, Churn> churn;
  TraceStep step;
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const bool more, reader.Next(step));
    if (!more) return churn;
    if (step.kind == TraceStep::Kind::kGet && step.family == Family::kObjects) {
      if (const auto collection = CollectionOfRow(step.key)) ++churn[*collection].gets;
    }
    if (step.kind != TraceStep::Kind::kCommit) continue;
    LARDER_RETURN_IF_ERROR(ForEachRow(step.batch, [&](const TraceRow& row) {
      if (row.family != Family::kObjects) return;
      const auto collection = CollectionOfRow(row.key);
      if (!collection) return;
      Churn& entry = churn[*collection];
      if (row.change != TraceRow::Change::kPut) {
        ++entry.deletes;
        return;
      }
      ++entry.puts;
      entry.stored_bytes += row.key.size() + row.value.size();
      if (const auto object = DescribeObjectRow(row.key, row.value)) {
        entry.json_bytes += object->json_bytes;
      }
    }));
  }
}

Result<void> PrintTrace(const std::string& path) {
  LARDER_ASSIGN_OR_RETURN(const auto reader, TraceReader::Open(path));
  const TraceSummary& summary = reader->summary();
  LARDER_ASSIGN_OR_RETURN(const auto churn, ReadChurn(*reader));
  const double seconds =
      static_cast<double>(std::max<int64_t>(1, summary.ended_ms - summary.started_ms)) / 1000;
  TableWriter table({"RESOURCE", "WRITES", "DELETES", "GETS", "WRITES/S", "JSON", "STORED"});
  for (size_t column = 1; column < 7; ++column) table.AlignRight(column);
  for (const auto& [collection, entry] : churn) {
    const auto stream = summary.collections.find(collection);
    const uint64_t puts = std::max<uint64_t>(1, entry.puts);
    table.Add(
        {stream == summary.collections.end() ? std::to_string(collection) : stream->second.resource,
         HumanCount(entry.puts), HumanCount(entry.deletes), HumanCount(entry.gets),
         fmt::format("{:.1f}", static_cast<double>(entry.puts) / seconds),
         HumanBytes(entry.json_bytes / puts), HumanBytes(entry.stored_bytes / puts)});
  }
  table.Flush(Stdout());
  Stdout().Print("{} commits, {} gets, {} scans in {:.1f} s", HumanCount(summary.commits),
                 HumanCount(summary.gets), HumanCount(summary.scans), seconds);
  if (summary.dropped > 0) Stdout().Print("; {} operations were left out", summary.dropped);
  if (summary.full) Stdout().Write("; ended early because the trace reached its size");
  Stdout().Print("\n");
  return {};
}

Result<int> Record(const RecordArguments& arguments, const std::stop_token& stop) {
  const std::string& store = arguments.store.path;
  const std::chrono::milliseconds duration(static_cast<int64_t>(arguments.seconds * 1000));
  LARDER_RETURN_IF_ERROR(RequestRecording(store, duration, arguments.max_bytes));
  Progress progress("recording", static_cast<uint64_t>(duration.count()));
  const auto begin = std::chrono::steady_clock::now();
  bool asked_to_end = false;
  auto give_up = begin + duration + kPatience;
  RecordingProgress now;
  for (;;) {
    now = LookAtRecording(store);
    if (now.state == RecordingProgress::State::kDone ||
        now.state == RecordingProgress::State::kFailed) {
      break;
    }
    const auto passed = std::chrono::steady_clock::now() - begin;
    progress.Show(static_cast<uint64_t>(
                      std::chrono::duration_cast<std::chrono::milliseconds>(passed).count()),
                  fmt::format("recording, {}", HumanBytes(now.bytes)));
    if (stop.stop_requested() && !asked_to_end) {
      asked_to_end = true;
      EndRecording(store);
      give_up = std::chrono::steady_clock::now() + kPatience;
      // It never began: nothing to wait for.
      if (now.state == RecordingProgress::State::kAsked) {
        return MakeError(ErrorCode::kCancelled, "interrupted before the recording began");
      }
    }
    if (std::chrono::steady_clock::now() > give_up) {
      EndRecording(store);
      return MakeError(
          ErrorCode::kTimeout,
          "the process that owns the store {} does not {} the recording; is it a larder "
          "that can, and does it run?",
          store, now.state == RecordingProgress::State::kAsked ? "begin" : "end");
    }
    // Not with the stop token: after Ctrl-C we still wait for the end of the file.
    (void)RealClock()->SleepFor(kPoll, {});
  }
  progress.Finish();
  if (now.state == RecordingProgress::State::kFailed) {
    return MakeError(ErrorCode::kIo, "the store's owner could not record: {}", now.error);
  }
  LARDER_RETURN_IF_ERROR(TakeRecording(store, arguments.file));
  LARDER_RETURN_IF_ERROR(PrintTrace(arguments.file));
  Stdout().Print("{}: {}; replay it with: larder tune replay --store {} --workload {}\n",
                 arguments.file, HumanBytes(now.bytes), store, arguments.file);
  Stdout().Flush();
  return kOk;
}

struct ModelArguments {
  StoreArguments store;
  std::string file;
};

Result<int> Model(const ModelArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const tuning::WorkloadModel model, tuning::ModelOf(*store));
  const std::string text = tuning::ToJson(model);
  if (arguments.file.empty()) {
    Stdout().Write(text);
    Stdout().Flush();
    return kOk;
  }
  LARDER_RETURN_IF_ERROR(WriteFile(arguments.file, text));
  TableWriter table({"RESOURCE", "OBJECTS", "JSON", "UPDATES/S", "CREATES/S", "INDEXES"});
  for (size_t column = 1; column < 6; ++column) table.AlignRight(column);
  for (const tuning::ResourceModel& of : model.resources) {
    table.Add({of.resource, HumanCount(of.objects), HumanBytes(of.json_bytes),
               fmt::format("{:.3f}", of.updates), fmt::format("{:.3f}", of.creates),
               std::to_string(of.indexes)});
  }
  table.Flush(Stdout());
  Stdout().Print("{}: replay it with: larder tune replay --store {} --workload {}\n",
                 arguments.file, arguments.store.path, arguments.file);
  Stdout().Flush();
  return kOk;
}

}  // namespace

void AddTuneRecord(CLI::App* tune, Context& context) {
  auto arguments = std::make_shared<RecordArguments>();
  CLI::App* command = tune->add_subcommand(
      "record", "Record what a live store is asked to do; Ctrl-C ends it and keeps what there is");
  AddStoreOptions(command, arguments->store);
  command->add_option("--for", arguments->seconds, "How long: 90s, 10m, 1h")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}}))
      ->check(CLI::Range(0.01, 86'400.0))
      ->default_str("10m");
  command->add_option("--max-bytes", arguments->max_bytes, "End when the trace is so large")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("-f,--file", arguments->file, "Where the trace goes")
      ->type_name("FILE")
      ->capture_default_str();
  command->callback(
      [arguments, &context] { context.exit_code = ExitCode(Record(*arguments, context.stop)); });
}

void AddTuneModel(CLI::App* tune, Context& context) {
  auto arguments = std::make_shared<ModelArguments>();
  CLI::App* command = tune->add_subcommand(
      "model", "Make a workload from a store's statistics, where it cannot be recorded");
  AddStoreOptions(command, arguments->store);
  command->add_option("-f,--file", arguments->file, "Where the workload goes; none: stdout")
      ->type_name("FILE");
  command->callback([arguments, &context] { context.exit_code = ExitCode(Model(*arguments)); });
}

}  // namespace larder::tools
