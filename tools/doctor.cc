// `larder doctor`: how is a controller's cache, and what should be changed?
#include <httplib.h>
#include <unistd.h>

#include <memory>

#include "base/clock.h"
#include "tools/command.h"
#include "tools/doctor/report.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/store_access.h"

namespace larder::tools {
namespace {

struct DoctorArguments {
  StoreArguments store;
  std::string metrics;
  std::string output = "text";
  std::string file;
  double seconds = 2;
};

constexpr std::chrono::milliseconds kBetween{500};

Result<std::string> Fetch(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t slash = url.find('/', scheme == std::string::npos ? 0 : scheme + 3);
  std::string host = url.substr(0, slash);
  if (scheme == std::string::npos) host = "http://" + host;
  std::string path = slash == std::string::npos ? "/metrics" : url.substr(slash);
  if (path == "/") path = "/metrics";
  httplib::Client client(host);
  client.set_connection_timeout(5);
  client.set_read_timeout(10);
  const auto answer = client.Get(path);
  if (!answer) {
    const bool nobody = answer.error() == httplib::Error::Connection;
    return MakeError(ErrorCode::kUnavailable, "cannot read {}{}: {}", host, path,
                     nobody ? "nobody answers there; does the process run, with --listen or its "
                              "metrics on this address?"
                            : httplib::to_string(answer.error()));
  }
  if (answer->status != 200) {
    return MakeError(ErrorCode::kUnavailable, "{}{} answers {}", host, path, answer->status);
  }
  return answer->body;
}

Result<std::vector<MetricsMoment>> Watch(const DoctorArguments& arguments) {
  std::vector<MetricsMoment> moments;
  const auto begin = std::chrono::steady_clock::now();
  Progress progress("watching " + arguments.metrics,
                    static_cast<uint64_t>(arguments.seconds * 1000));
  for (;;) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    LARDER_ASSIGN_OR_RETURN(const std::string text, Fetch(arguments.metrics));
    moments.push_back({seconds, Metrics::Parse(text)});
    progress.Update(static_cast<uint64_t>(seconds * 1000));
    if (seconds >= arguments.seconds) return moments;
    (void)RealClock()->SleepFor(kBetween, {});
  }
}

Result<std::string> Render(const DoctorReport& report, const DoctorArguments& arguments) {
  if (arguments.output == "json") return RenderJson(report);
  if (arguments.output == "markdown") return RenderMarkdown(report);
  if (arguments.output == "html") return RenderHtml(report);
  return RenderText(report, arguments.file.empty() && UseColour(STDOUT_FILENO));
}

Result<void> ReadStore(const StoreArguments& arguments, DoctorInput& input) {
  input.store = arguments.path;
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments));
  LARDER_ASSIGN_OR_RETURN(input.queues, SummariseQueues(*store));
  LARDER_ASSIGN_OR_RETURN(input.stats, GetStats(*store));
  return {};
}

Result<int> Run(const DoctorArguments& arguments) {
  DoctorInput input;
  if (arguments.metrics.empty() && arguments.store.path.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "what should be looked at? Give --store, --metrics, or both");
  }
  input.subject = "larder doctor:";
  if (!arguments.store.path.empty()) {
    const Result<void> read = ReadStore(arguments.store, input);
    // A damaged store is a finding, and the process behind it may still be asked.
    if (!read && read.error().code != ErrorCode::kCorruption) return tl::unexpected(read.error());
    if (!read) input.damage = read.error().message;
    input.subject += " store " + arguments.store.path;
  }
  if (!arguments.metrics.empty()) {
    LARDER_ASSIGN_OR_RETURN(input.moments, Watch(arguments));
    input.subject += arguments.store.path.empty() ? "" : ",";
    input.subject += " process at " + arguments.metrics;
  }
  const DoctorReport report = Diagnose(input);
  LARDER_ASSIGN_OR_RETURN(const std::string text, Render(report, arguments));
  if (arguments.file.empty()) {
    Stdout().Write(text);
    Stdout().Flush();
  } else {
    LARDER_RETURN_IF_ERROR(WriteFile(arguments.file, text));
  }
  return report.Worst() >= Severity::kProblem ? kBadResult : kOk;
}

}  // namespace

void AddDoctor(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Say how a store and a live process are, and what to change; ends with 1 where a finding is "
      "a problem, with 0 where the worst is a warning or a note");
  AddStoreOptions(command, arguments->store);
  command->get_option("--store")->required(false);
  command->add_option("--metrics", arguments->metrics, "The /metrics of a live process")
      ->type_name("URL");
  command->add_option("--seconds", arguments->seconds, "How long to watch the process")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "text, json, markdown or html")
      ->check(CLI::IsMember({"text", "json", "markdown", "html"}))
      ->capture_default_str();
  command->add_option("-f,--file", arguments->file, "Write to this file instead of stdout")
      ->type_name("FILE");
  command->callback([arguments, &context] { context.exit_code = ExitCode(Run(*arguments)); });
}

}  // namespace larder::tools
