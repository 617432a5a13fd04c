// The result of `larder tune` for people and scripts.
#include <nlohmann/json.hpp>

#include "schema/object.h"
#include "tools/output.h"
#include "tools/table_writer.h"
#include "tools/tune/tune.h"

namespace larder::tools {

using tuning::Aim;
using tuning::Measured;
using tuning::MeasureInfo;
using tuning::Recommendation;
using tuning::SearchOutcome;

namespace {

std::string Figure(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

// What is compared with in the summary, where it was measured.
std::vector<const Measured*> Baselines(const SearchOutcome& outcome) {
  std::vector<const Measured*> out;
  for (const char* name : {tuning::kCurrentName, tuning::kLarderName, tuning::kRocksDbValuesName,
                           tuning::kRocksDbName}) {
    const Measured* const entry = outcome.Find(name);
    if (entry && entry->round == outcome.last_round) out.push_back(entry);
  }
  return out;
}

bool IsOnFront(const SearchOutcome& outcome, const Measured& entry) {
  return tuning::PercentBehindFront(outcome, entry) == 0;
}

std::string OptionsFile(const SearchOutcome& outcome, const Recommendation& chosen) {
  return fmt::format(
      "# larder tune: for {}, of the workload {}.\n# {}: {}.\n# Use it with: larder run --options "
      "FILE, or: larder tune apply --store DIR FILE\n\n{}",
      ToString(chosen.aim), outcome.header.workload, chosen.chosen->candidate.name, chosen.reason,
      chosen.chosen->candidate.engine.ToText());
}

}  // namespace

void AddReportOptions(CLI::App* command, ReportArguments& arguments) {
  command->add_option("-o,--output", arguments.output, "table, json or html")
      ->check(CLI::IsMember({"table", "json", "html"}))
      ->capture_default_str();
  command->add_option("-f,--file", arguments.file, "Where that goes; none: stdout")
      ->type_name("FILE");
  command->add_option("--aim", arguments.aim, "wear, size, restart or balanced: what to write")
      ->capture_default_str();
  command
      ->add_option("--write-options", arguments.options_file,
                   "Write what is recommended for the aim, for `larder run --options`")
      ->type_name("FILE");
  command
      ->add_option("--tolerance", arguments.tolerance,
                   "How many times worse any other measure may get")
      ->check(CLI::Range(1.0, 10.0))
      ->capture_default_str();
}

Result<int> Report(const SearchOutcome& outcome, const ReportArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const Aim aim, tuning::AimFromString(arguments.aim));
  const auto recommendations = tuning::Recommend(outcome, {.tolerance = arguments.tolerance});
  const std::string text = arguments.output == "json"   ? RenderTuneJson(outcome, recommendations)
                           : arguments.output == "html" ? RenderTuneHtml(outcome, recommendations)
                                                        : RenderTuneTable(outcome, recommendations);
  if (arguments.file.empty()) {
    Stdout().Write(text);
  } else {
    LARDER_RETURN_IF_ERROR(WriteFile(arguments.file, text));
  }
  if (!arguments.options_file.empty()) {
    for (const Recommendation& entry : recommendations) {
      if (entry.aim != aim) continue;
      LARDER_RETURN_IF_ERROR(WriteFile(arguments.options_file, OptionsFile(outcome, entry)));
      if (arguments.output == "table") {
        Stdout().Print("\n{}: {} ({})\n", arguments.options_file, entry.chosen->candidate.name,
                       ToString(aim));
      }
    }
  }
  Stdout().Flush();
  return kOk;
}

std::string RenderTuneTable(const SearchOutcome& outcome,
                            const std::vector<Recommendation>& recommendations) {
  std::vector<std::string> header = {"CANDIDATE", "FRONT"};
  for (const MeasureInfo& info : tuning::ComparedMeasures()) header.emplace_back(info.title);
  TableWriter table(header);
  for (size_t i = 2; i < header.size(); ++i) table.AlignRight(i);
  for (const Measured* entry : outcome.Finalists()) {
    std::vector<std::string> row = {entry->candidate.name, !entry->failure.empty()      ? "refused"
                                                           : IsOnFront(outcome, *entry) ? "yes"
                                                                                        : "no"};
    for (const MeasureInfo& info : tuning::ComparedMeasures()) {
      row.push_back(Figure(entry->mean.*info.value));
    }
    table.Add(std::move(row));
  }
  std::string out = table.Take();
  out +=
      "\nWRITE, SPACE, READ: times the bytes as larder encodes them; COMMIT, GET: median and 99th "
      "percentile, us;\nSTALLS, RESTART: ms; CPU: us an event; MEMORY: MiB\n";
  for (const Measured& entry : outcome.measured) {
    if (!entry.failure.empty()) {
      out += fmt::format("refused: {}: {}\n", entry.candidate.name, entry.failure);
    }
  }
  out += "\n";
  for (const Recommendation& entry : recommendations) {
    out +=
        fmt::format("{}: {}: {}\n", ToString(entry.aim),
                    entry.keep_current ? "keep the current options" : entry.chosen->candidate.name,
                    entry.reason);
    if (!entry.as_good.empty()) {
      out += fmt::format("  within the noise as good: {}\n", entry.as_good);
    }
    for (const Measured* other : Baselines(outcome)) {
      if (other == entry.chosen) continue;
      const tuning::Comparison comparison =
          tuning::Compare(entry.aim, entry.chosen->mean, other->mean);
      out += fmt::format("  against {}: {:.2f} times better; worst besides: {:.2f} times the {}\n",
                         other->candidate.name, comparison.aim_factor, comparison.worst_factor,
                         comparison.worst);
    }
  }
  if (const Measured* current = outcome.Find(tuning::kCurrentName)) {
    const double behind = tuning::PercentBehindFront(outcome, *current);
    out += behind == 0
               ? "\nthe current options are on the front\n"
               : fmt::format("\nthe current options are {:.0f}% behind the front\n", behind);
  }
  return out;
}

std::string RenderTuneJson(const SearchOutcome& outcome,
                           const std::vector<Recommendation>& recommendations) {
  Json candidates = Json::array();
  for (const Measured& entry : outcome.measured) {
    Json json = {{"name", entry.candidate.name},
                 {"options", entry.candidate.engine.ToText()},
                 {"baseline", entry.candidate.baseline},
                 {"round", entry.round},
                 {"final", entry.round == outcome.last_round},
                 {"onFront", entry.round == outcome.last_round && IsOnFront(outcome, entry)},
                 {"runs", entry.runs.size()},
                 {"measures", tuning::ToJson(entry.mean)}};
    if (!entry.failure.empty()) json["refused"] = entry.failure;
    candidates.push_back(std::move(json));
  }
  Json advice = Json::array();
  for (const Recommendation& entry : recommendations) {
    Json against = Json::object();
    for (const Measured* other : Baselines(outcome)) {
      const tuning::Comparison comparison =
          tuning::Compare(entry.aim, entry.chosen->mean, other->mean);
      against[other->candidate.name] = {{"timesBetter", comparison.aim_factor},
                                        {"worstFactor", comparison.worst_factor},
                                        {"worst", comparison.worst}};
    }
    advice.push_back({{"aim", ToString(entry.aim)},
                      {"candidate", entry.chosen->candidate.name},
                      {"keepCurrent", entry.keep_current},
                      {"reason", entry.reason},
                      {"asGood", entry.as_good},
                      {"options", entry.chosen->candidate.engine.ToText()},
                      {"against", std::move(against)}});
  }
  Json noise = Json::object();
  for (const auto& [key, value] : outcome.noise) noise[key] = value;
  const Measured* const current = outcome.Find(tuning::kCurrentName);
  const Json out = {
      {"workload", outcome.header.workload},
      {"memoryLimit", outcome.header.memory_limit},
      {"recommendations", std::move(advice)},
      {"currentPercentBehindFront", current ? tuning::PercentBehindFront(outcome, *current) : 0},
      {"noise", std::move(noise)},
      {"candidates", std::move(candidates)}};
  return IndentedJson(out);
}

}  // namespace larder::tools
