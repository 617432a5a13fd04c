// What the doctor found: tables of figures, plots, and findings with evidence and advice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "storage/maintenance.h"
#include "tools/doctor/metrics_text.h"
#include "tools/store_report.h"

namespace larder::tools {

enum class Severity { kGood, kNote, kWarning, kProblem };
std::string_view ToString(Severity severity);

struct Finding {
  Severity severity = Severity::kNote;
  std::string area;      // "sync", "queue", "handler", "cache", "memory", "disk"
  std::string title;     // what is the matter
  std::string evidence;  // the figures that say so
  std::string advice;    // what to change
};

struct ReportTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Chart {
  std::string title;
  std::string unit;
  bool line = false;  // values over time; otherwise a bar for each label
  std::vector<std::string> labels;
  std::vector<double> values;
};

struct DoctorReport {
  std::string subject;  // what was looked at
  std::vector<Finding> findings;
  std::vector<ReportTable> tables;
  std::vector<Chart> charts;

  Severity Worst() const;
};

// Metrics of a process at one moment.
struct MetricsMoment {
  double seconds = 0;  // since the first
  Metrics metrics;
};

struct DoctorInput {
  std::vector<MetricsMoment> moments;  // empty: no process was looked at
  std::optional<StoreStats> stats;     // none: no store, or a damaged one
  std::vector<QueueSummary> queues;
  std::string store;   // its path
  std::string damage;  // why it cannot be read; empty: it can
  std::string subject;
};

DoctorReport Diagnose(const DoctorInput& input);

// The report in each of its forms.
std::string RenderText(const DoctorReport& report, bool colour);
std::string RenderJson(const DoctorReport& report);
std::string RenderMarkdown(const DoctorReport& report);
// One file, with its plots as SVG; nothing is fetched from anywhere.
std::string RenderHtml(const DoctorReport& report);

// ---- for the parts of Diagnose

void DiagnoseProcess(const std::vector<MetricsMoment>& moments, DoctorReport& report);
void DiagnoseStore(const StoreStats& stats, const std::vector<QueueSummary>& queues,
                   DoctorReport& report);

}  // namespace larder::tools
