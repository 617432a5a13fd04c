// What the sub-commands of `larder tune` share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tools/command.h"
#include "tuning/recommend.h"
#include "tuning/search.h"

namespace larder::tools {

void AddTuneRecord(CLI::App* tune, Context& context);
void AddTuneModel(CLI::App* tune, Context& context);
void AddTuneReplay(CLI::App* tune, Context& context);
void AddTuneReport(CLI::App* tune, Context& context);
void AddTuneApply(CLI::App* tune, Context& context);
void AddTuneOptions(CLI::App* tune, Context& context);

// How a result is shown: a table, JSON, or one HTML page with plots.
struct ReportArguments {
  std::string output = "table";
  std::string file;  // empty: stdout
  std::string aim = "balanced";
  std::string options_file;  // the recommendation for the aim, for `larder run --options`
  double tolerance = 1.2;
};
void AddReportOptions(CLI::App* command, ReportArguments& arguments);
Result<int> Report(const tuning::SearchOutcome& outcome, const ReportArguments& arguments);

std::string RenderTuneTable(const tuning::SearchOutcome& outcome,
                            const std::vector<tuning::Recommendation>& recommendations);
std::string RenderTuneJson(const tuning::SearchOutcome& outcome,
                           const std::vector<tuning::Recommendation>& recommendations);
std::string RenderTuneHtml(const tuning::SearchOutcome& outcome,
                           const std::vector<tuning::Recommendation>& recommendations);

}  // namespace larder::tools
