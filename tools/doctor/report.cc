#include "tools/doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/output.h"
#include "tools/table_writer.h"

namespace larder::tools {

std::string_view ToString(Severity severity) {
  switch (severity) {
    case Severity::kGood:
      return "good";
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kProblem:
      return "problem";
  }
  return "";
}

Severity DoctorReport::Worst() const {
  Severity worst = Severity::kGood;
  for (const Finding& finding : findings) worst = std::max(worst, finding.severity);
  return worst;
}

DoctorReport Diagnose(const DoctorInput& input) {
  DoctorReport report;
  report.subject = input.subject;
  DiagnoseProcess(input.moments, report);
  if (!input.damage.empty()) {
    report.findings.push_back(
        {Severity::kProblem, "disk", "the store is damaged", input.damage,
         fmt::format("larder verify --store {0} says what is; larder verify --repair --store {0} "
                     "keeps all that is sound, and has the rest listed anew.",
                     input.store)});
  }
  if (input.stats) DiagnoseStore(*input.stats, input.queues, report);
  // What the store says again the process has said, and is not asked a moment later.
  std::set<std::string> said;
  std::erase_if(report.findings,
                [&](const Finding& finding) { return !said.insert(finding.title).second; });
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return report;
}

namespace {

std::string FormatTable(const ReportTable& table) {
  TableWriter writer(table.columns);
  for (const auto& row : table.rows) writer.Add(row);
  return writer.Take();
}

}  // namespace

std::string RenderText(const DoctorReport& report, bool colour) {
  std::string out = Paint(report.subject, Colour::kBold, colour) + "\n\n";
  if (report.findings.empty())
    out += Paint("Nothing to complain about.", Colour::kGreen, colour) + "\n";
  for (const Finding& finding : report.findings) {
    const Colour paint = finding.severity == Severity::kProblem   ? Colour::kRed
                         : finding.severity == Severity::kWarning ? Colour::kYellow
                                                                  : Colour::kDim;
    out += Paint(fmt::format("{:<7}", ToString(finding.severity)), paint, colour) +
           Printable(
               fmt::format(" {}: {}\n    {}\n", finding.title, finding.evidence, finding.advice));
  }
  for (const ReportTable& table : report.tables) {
    out += "\n" + Paint(table.title, Colour::kBold, colour) + "\n" + FormatTable(table);
  }
  return out;
}

std::string RenderJson(const DoctorReport& report) {
  Json out = {{"subject", report.subject},
              {"verdict", std::string(ToString(report.Worst()))},
              {"findings", Json::array()},
              {"tables", Json::array()}};
  for (const Finding& finding : report.findings) {
    out["findings"].push_back({{"severity", std::string(ToString(finding.severity))},
                               {"area", finding.area},
                               {"title", finding.title},
                               {"evidence", finding.evidence},
                               {"advice", finding.advice}});
  }
  for (const ReportTable& table : report.tables) {
    out["tables"].push_back(
        {{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}});
  }
  return IndentedJson(out);
}

std::string RenderMarkdown(const DoctorReport& report) {
  std::string out = "# " + report.subject + "\n\n";
  if (report.findings.empty()) out += "Nothing to complain about.\n";
  for (const Finding& finding : report.findings) {
    out += fmt::format("- **{}** ({}): {}. {}\n", ToString(finding.severity), finding.title,
                       finding.evidence, finding.advice);
  }
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (std::string cell : cells) {
      for (size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) {
        cell.insert(at, "\\");
      }
      text += " " + cell + " |";
    }
    return text + "\n";
  };
  for (const ReportTable& table : report.tables) {
    out += "\n## " + table.title + "\n\n" + line(table.columns) +
           line(std::vector<std::string>(table.columns.size(), "---"));
    for (const auto& row : table.rows) out += line(row);
  }
  return out;
}

}  // namespace larder::tools
