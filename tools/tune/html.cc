// The result of `larder tune` as one HTML page that fetches nothing, with plots in SVG, for light
// and dark screens.
#include <algorithm>
#include <cmath>
#include <set>

#include "tools/html_text.h"
#include "tools/tune/tune.h"

namespace larder::tools {
namespace {

using tuning::Measured;
using tuning::MeasureInfo;
using tuning::Recommendation;
using tuning::SearchOutcome;

constexpr const char* kTuneStyle =
    ":root{color-scheme:light dark;--text:#1c2430;--dim:#5a6675;--line:#d5dbe4;--back:#ffffff;"
    "--card:#f5f7fa;--other:#8b97a8;--current:#c8501e;--rocks:#7a4fb0;--best:#1f7a4d}"
    "@media(prefers-color-scheme:dark){:root{--text:#e4e8ee;--dim:#9ba7b6;--line:#38424f;"
    "--back:#14181e;--card:#1d232b;--other:#76839a;--current:#ff9a66;--rocks:#c3a1f0;"
    "--best:#5fd39a}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;"
    "color:var(--text);background:var(--back)}h1{font-size:1.4rem}h2{font-size:1.1rem;"
    "margin-top:2rem}p.dim,small{color:var(--dim)}.scroll{overflow-x:auto}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th,td{text-align:right;padding:.2rem .5rem;border-bottom:1px solid var(--line);"
    "white-space:nowrap}th{color:var(--dim);font-weight:600}td:first-child,th:first-child"
    "{text-align:left}.advice{background:var(--card);border-left:4px solid var(--best);"
    "padding:.5rem .9rem;margin:.6rem 0}.advice b{display:block}.keep{border-color:var(--other)}"
    "pre{background:var(--card);padding:.5rem .8rem;overflow-x:auto;margin:.4rem 0;font-size:13px}"
    ".plots{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;flex:1 1 26rem}"
    "figcaption{font-weight:600}svg{width:100%;height:auto}svg text{fill:var(--text);"
    "font-size:11px}svg .dim{fill:var(--dim)}svg .axis{stroke:var(--line);stroke-width:1}"
    "circle{fill:var(--other)}.current{fill:var(--current)}.rocks{fill:var(--rocks)}"
    ".best{fill:var(--best)}polyline{fill:none;stroke:var(--best);stroke-dasharray:4 3}"
    ".key span{margin-right:1.2rem}.dot{display:inline-block;width:.7em;height:.7em;"
    "border-radius:50%;margin-right:.35em}";

const char* ClassOf(const Measured& entry, const std::set<std::string>& chosen) {
  if (entry.candidate.name == tuning::kCurrentName) return "current";
  if (entry.candidate.engine.rocksdb_defaults) return "rocks";
  return chosen.contains(entry.candidate.name) ? "best" : "";
}

struct Axis {
  double least = 0, most = 1;
  // Logarithmic where the figures span more than a decade.
  bool logarithmic = false;

  static Axis Of(std::vector<double> values) {
    Axis axis;
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    axis.least = std::max(*least, 1e-3);
    axis.most = std::max(*most, axis.least * 1.01);
    axis.logarithmic = axis.most / axis.least > 8;
    const double margin = axis.logarithmic ? 1.15 : 1.06;
    axis.most *= margin;
    axis.least = axis.logarithmic ? axis.least / margin : axis.least * 0.94;
    return axis;
  }
  double Place(double value) const {
    const double v = std::max(value, least);
    if (logarithmic) return std::log(v / least) / std::log(most / least);
    return (v - least) / (most - least);
  }
  double At(double place) const {
    return logarithmic ? least * std::pow(most / least, place) : least + (most - least) * place;
  }
};

std::string Number(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  return value >= 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

// One trade-off: a point for each finalist, and the line of those that none beats in these two.
std::string Plot(const SearchOutcome& outcome, const std::set<std::string>& chosen,
                 const char* x_key, const char* y_key) {
  constexpr double kWidth = 460, kHeight = 300, kLeft = 52, kRight = 12, kTop = 30, kBottom = 40;
  const MeasureInfo& x = tuning::MeasureOf(x_key);
  const MeasureInfo& y = tuning::MeasureOf(y_key);
  std::vector<const Measured*> entries = outcome.Finalists();
  std::vector<double> xs, ys;
  for (const Measured* entry : entries) {
    xs.push_back(entry->mean.*x.value);
    ys.push_back(entry->mean.*y.value);
  }
  const Axis across = Axis::Of(xs), up = Axis::Of(ys);
  const auto px = [&](double v) { return kLeft + across.Place(v) * (kWidth - kLeft - kRight); };
  const auto py = [&](double v) {
    return kHeight - kBottom - up.Place(v) * (kHeight - kTop - kBottom);
  };
  std::string body;
  for (const double place : {0.0, 0.5, 1.0}) {
    body += fmt::format(
        "<text class='dim' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>"
        "<text class='dim' x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>",
        kLeft + place * (kWidth - kLeft - kRight), kHeight - kBottom + 15, Number(across.At(place)),
        kLeft - 6, kHeight - kBottom - place * (kHeight - kTop - kBottom) + 4,
        Number(up.At(place)));
  }
  body += fmt::format(
      "<line class='axis' x1='{0}' y1='{1}' x2='{0}' y2='{2}'/><line class='axis' x1='{0}' "
      "y1='{2}' x2='{3}' y2='{2}'/><text x='{4:.1f}' y='{5:.1f}' "
      "text-anchor='middle'>{6}{7}</text>",
      kLeft, kTop, kHeight - kBottom, kWidth - kRight, (kLeft + kWidth) / 2, kHeight - 6, x.key,
      across.logarithmic ? " (log)" : "");
  body += fmt::format("<text x='{}' y='{}'>{}{}</text>", kLeft - 44, 14, y.key,
                      up.logarithmic ? " (log)" : "");
  std::sort(entries.begin(), entries.end(), [&](const Measured* a, const Measured* b) {
    return a->mean.*x.value < b->mean.*x.value;
  });
  std::string line;
  double lowest = 1e300;
  for (const Measured* entry : entries) {
    if (!entry->failure.empty() || entry->mean.*y.value >= lowest) continue;
    lowest = entry->mean.*y.value;
    line += fmt::format("{:.1f},{:.1f} ", px(entry->mean.*x.value), py(lowest));
  }
  body += fmt::format("<polyline points='{}'/>", line);
  for (const Measured* entry : entries) {
    const char* kind = ClassOf(*entry, chosen);
    const double cx = px(entry->mean.*x.value), cy = py(entry->mean.*y.value);
    body += fmt::format(
        "<circle class='{}' cx='{:.1f}' cy='{:.1f}' r='{}'><title>{}: {} {}, {} {}"
        "</title></circle>",
        kind, cx, cy, *kind ? 5.5 : 3.5, EscapeHtml(entry->candidate.name),
        Number(entry->mean.*x.value), x.unit, Number(entry->mean.*y.value), y.unit);
    if (*kind) {
      const bool at_right = cx > kWidth * 0.6;
      // What is recommended is often near what there is: their names must not lie on each other.
      const bool below = std::string_view(kind) == "best";
      std::string name = entry->candidate.name;
      if (name.size() > 34) name = name.substr(0, 32) + "...";
      body += fmt::format("<text class='{}' x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>", kind,
                          cx + (at_right ? -8 : 8), below ? cy + 15 : cy - 7,
                          at_right ? "end" : "start", EscapeHtml(name));
    }
  }
  return fmt::format(
      "<figure><figcaption>{} and {}</figcaption><svg viewBox='0 0 {} {}' role='img'>{}</svg>"
      "</figure>\n",
      x.key, y.key, kWidth, kHeight, body);
}

std::string Advice(const Recommendation& entry) {
  std::string out = fmt::format(
      "<div class='advice{}'><b>{}: {}</b>{}.", entry.keep_current ? " keep" : "",
      ToString(entry.aim),
      EscapeHtml(entry.keep_current ? "keep the current options" : entry.chosen->candidate.name),
      EscapeHtml(entry.reason));
  if (!entry.as_good.empty()) {
    out += fmt::format(" <small>Within the noise as good: {}.</small>", EscapeHtml(entry.as_good));
  }
  if (!entry.keep_current) {
    out += fmt::format("<pre>{}</pre>", EscapeHtml(entry.chosen->candidate.engine.ToText()));
  }
  return out + "</div>\n";
}

std::string Table(const SearchOutcome& outcome) {
  std::string out = "<div class='scroll'><table><tr><th>candidate</th><th>front</th>";
  for (const MeasureInfo& info : tuning::ComparedMeasures()) {
    out += fmt::format("<th title='{}'>{} <small>{}</small></th>", info.key, EscapeHtml(info.title),
                       info.unit);
  }
  out += "</tr>\n";
  for (const Measured* entry : outcome.Finalists()) {
    out += fmt::format("<tr><td>{}</td><td>{}</td>", EscapeHtml(entry->candidate.name),
                       !entry->failure.empty()                            ? "refused"
                       : tuning::PercentBehindFront(outcome, *entry) == 0 ? "yes"
                                                                          : "no");
    for (const MeasureInfo& info : tuning::ComparedMeasures()) {
      out += fmt::format("<td>{}</td>", Number(entry->mean.*info.value));
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

}  // namespace

std::string RenderTuneHtml(const SearchOutcome& outcome,
                           const std::vector<Recommendation>& recommendations) {
  std::set<std::string> chosen;
  for (const Recommendation& entry : recommendations) chosen.insert(entry.chosen->candidate.name);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width'><title>larder tune: "
      "{0}</title><style>{1}</style></head><body>\n"
      "<h1>larder tune: {0}</h1>\n<p class='dim'>{2} candidates, {3} of them in the last round; "
      "memory limit {4} MiB. Less is better in every figure.</p>\n<h2>Recommendations</h2>\n",
      EscapeHtml(outcome.header.workload), kTuneStyle, outcome.measured.size(),
      outcome.Finalists().size(), outcome.header.memory_limit >> 20);
  for (const Recommendation& entry : recommendations) out += Advice(entry);
  out +=
      "<h2>Trade-offs</h2>\n<p class='key'><span><i class='dot' style='background:var(--current)'>"
      "</i>current options</span><span><i class='dot' style='background:var(--best)'></i>"
      "recommended</span><span><i class='dot' style='background:var(--rocks)'></i>RocksDB's own "
      "defaults</span><span><i class='dot' style='background:var(--other)'></i>others</span></p>\n"
      "<div class='plots'>\n";
  constexpr std::pair<const char*, const char*> kPlots[] = {
      {"write_amplification", "space_amplification"},
      {"write_amplification", "restart_ms"},
      {"cpu_us_per_event", "commit_p99_us"},
      {"memory_mib", "get_p50_us"}};
  for (const auto& [x, y] : kPlots) out += Plot(outcome, chosen, x, y);
  out += "</div>\n<h2>The last round</h2>\n" + Table(outcome);
  out +=
      "<p class='dim'>write, space, read: times the bytes as larder encodes them by default. "
      "Restart: with the log half as long as it gets. Noise between runs:";
  for (const auto& [key, value] : outcome.noise) {
    out += fmt::format(" {} {:.0f}%;", key, value * 100);
  }
  return out + "</p>\n</body></html>\n";
}

}  // namespace larder::tools
