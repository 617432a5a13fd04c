// The report as one HTML file with plots in SVG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/doctor/report.h"
#include "tools/html_text.h"

namespace larder::tools {
namespace {

std::string Short(double value) {
  const std::pair<double, const char*> units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [size, name] : units) {
    if (value >= size) return fmt::format("{:.1f}{}", value / size, name);
  }
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
}

double Most(const Chart& chart) {
  double most = 0;
  for (const double value : chart.values) most = std::max(most, value);
  return most > 0 ? most : 1;
}

std::string Bars(const Chart& chart) {
  constexpr int kRow = 22, kLabel = 220, kWidth = 640, kBar = 340;
  const double most = Most(chart);
  std::string body;
  for (size_t i = 0; i < chart.values.size(); ++i) {
    const int y = static_cast<int>(i) * kRow;
    const double width = std::max(1.0, kBar * chart.values[i] / most);
    body += fmt::format(
        "<text x='{}' y='{}' class='label'>{}</text><rect x='{}' y='{}' width='{:.1f}' "
        "height='14'/>"
        "<text x='{:.1f}' y='{}'>{}</text>",
        kLabel - 8, y + 14, EscapeHtml(chart.labels[i]), kLabel, y + 3, width, kLabel + width + 6,
        y + 14, Short(chart.values[i]));
  }
  return fmt::format("<svg viewBox='0 0 {} {}' width='{}'>{}</svg>", kWidth,
                     static_cast<int>(chart.values.size()) * kRow + 4, kWidth, body);
}

std::string Line(const Chart& chart) {
  constexpr double kWidth = 640, kHeight = 160, kLeft = 60, kBottom = 20;
  const double most = Most(chart);
  std::string points;
  for (size_t i = 0; i < chart.values.size(); ++i) {
    const double x = kLeft + (kWidth - kLeft - 10) * static_cast<double>(i) /
                                 static_cast<double>(std::max<size_t>(1, chart.values.size() - 1));
    const double y = kHeight - kBottom - (kHeight - kBottom - 10) * chart.values[i] / most;
    points += fmt::format("{:.1f},{:.1f} ", x, y);
  }
  return fmt::format(
      "<svg viewBox='0 0 {0} {1}' width='{0}'><line x1='{2}' y1='{3}' x2='{0}' y2='{3}'/>"
      "<line x1='{2}' y1='10' x2='{2}' y2='{3}'/><text x='{4}' y='16' class='label'>{5}</text>"
      "<text x='{4}' y='{3}' class='label'>0</text><polyline points='{6}'/></svg>",
      kWidth, kHeight, kLeft, kHeight - kBottom, kLeft - 6, Short(most), points);
}

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1c2430}h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .6rem;"
    "border-bottom:1px solid #dde2ea}th{font-weight:600;color:#5a6675}"
    ".finding{border-left:4px solid #9aa5b4;padding:.4rem .8rem;margin:.6rem 0;background:#f6f8fa}"
    ".problem{border-color:#c62f2f}.warning{border-color:#d99a1b}.note{border-color:#4a7fb5}"
    ".finding b{display:block}.advice{color:#5a6675}svg text{font-size:12px;fill:#1c2430}"
    "svg .label{text-anchor:end;fill:#5a6675}svg rect{fill:#4a7fb5}"
    "svg line{stroke:#9aa5b4}svg polyline{fill:none;stroke:#4a7fb5;stroke-width:2}";

}  // namespace

std::string RenderHtml(const DoctorReport& report) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{0}</title>"
      "<style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      EscapeHtml(report.subject), kStyle);
  if (report.findings.empty()) out += "<p>Nothing to complain about.</p>\n";
  for (const Finding& finding : report.findings) {
    out += fmt::format(
        "<div class='finding {}'><b>{}: {}</b>{}<div class='advice'>{}</div></div>\n",
        ToString(finding.severity), ToString(finding.severity), EscapeHtml(finding.title),
        EscapeHtml(finding.evidence), EscapeHtml(finding.advice));
  }
  for (const Chart& chart : report.charts) {
    out += fmt::format("<h2>{} <small>({})</small></h2>\n{}\n", EscapeHtml(chart.title),
                       EscapeHtml(chart.unit), chart.line ? Line(chart) : Bars(chart));
  }
  for (const ReportTable& table : report.tables) {
    out += "<h2>" + EscapeHtml(table.title) + "</h2>\n<table><tr>";
    for (const std::string& column : table.columns) out += "<th>" + EscapeHtml(column) + "</th>";
    out += "</tr>\n";
    for (const auto& row : table.rows) {
      out += "<tr>";
      for (const std::string& cell : row) out += "<td>" + EscapeHtml(cell) + "</td>";
      out += "</tr>\n";
    }
    out += "</table>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace larder::tools
