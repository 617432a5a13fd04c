// What a restart costs against a first start: the demo's figures, each with what is asked of it.
//
//   restart_bench [--quick] [--json]
//
// Runs `larder demo --json` several times in fresh processes and takes the median of each figure.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/support.h"
#include "schema/object.h"

namespace larder::bench {
namespace {

struct Question {
  const char* name;
  const char* unit;
  double bar;
  bool at_least;
  std::function<double(const Json&)> figure;
};

int Main(bool quick, bool json_output) {
  const int runs = quick ? 1 : 5;
  const std::string objects = quick ? "5000" : "20000";
  std::vector<Json> results;
  for (int i = 0; i < runs; ++i) {
    const auto out = Output("'" LARDER_COMMAND "' demo --json --objects " + objects);
    Json result = Json::parse(out.value_or(""), nullptr, /*allow_exceptions=*/false);
    if (!result.is_object()) Die("larder demo failed");
    results.push_back(std::move(result));
    std::fprintf(stderr, "run %d of %d\n", i + 1, runs);
  }
  const auto at = [](const char* phase, const char* name) {
    return [phase, name](const Json& json) { return json[phase][name].get<double>(); };
  };
  const auto ratio = [&](const char* name) {
    return [=](const Json& json) {
      return json["cold"][name].get<double>() / std::max(json["resume"][name].get<double>(), 1e-9);
    };
  };
  // A restart has fixed costs, so the ratio grows with the cluster; the bar is for 20,000 objects.
  const std::vector<Question> questions = {
      {"first start / restart, time to ready", "x", quick ? 5.0 : 20.0, true, ratio("seconds")},
      {"lists after a restart", "lists", 0, false, at("resume", "lists")},
      {"objects transferred after a restart / changed meanwhile", "x", 1.5, false,
       [](const Json& json) {
         return json["resume"]["objects"].get<double>() / json["changed_while_down"].get<double>();
       }},
      {"rows rewritten by a relist / all rows", "x", 0.02, false,
       [](const Json& json) {
         return json["relist"]["rewritten"].get<double>() / json["objects"].get<double>();
       }},
      {"peak memory of a first start", "MB", 128, false, at("cold", "rss_mb")},
      {"peak memory of a restart", "MB", 128, false, at("resume", "rss_mb")},
      {"pending work that a kill lost", "items", 0, false,
       [](const Json& json) {
         return json["pending_at_kill"].get<double>() - json["pending_resumed"].get<double>();
       }},
      {"lost", "objects", 0, false, [](const Json& json) { return json["lost"].get<double>(); }},
  };
  Rows rows;
  for (const Question& question : questions) {
    std::vector<double> values;
    values.reserve(results.size());
    for (const Json& result : results) values.push_back(question.figure(result));
    rows.push_back({question.name, Median(values), question.unit, question.bar, question.at_least});
  }
  Print(rows, json_output);
  return AllPass(rows) ? 0 : 1;
}

}  // namespace
}  // namespace larder::bench

int main(int argc, char** argv) {
  bool quick = false, json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      quick = true;
    } else if (word == "--json") {
      json = true;
    } else {
      std::fprintf(stderr, "usage: restart_bench [--quick] [--json]\n");
      return 2;
    }
  }
  return larder::bench::Main(quick, json);
}
