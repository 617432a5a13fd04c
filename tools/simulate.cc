// `larder simulate`: a Kubernetes API server with a busy cluster behind it, for trying things out.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "apiserver/simulator.h"
#include "base/clock.h"
#include "tools/command.h"

namespace larder::tools {
namespace {

struct SimulateArguments {
  apiserver::SimulatorOptions server;
  apiserver::ChurnOptions churn;
  uint64_t objects = 1000;
  double rate = 0;
  std::string kubeconfig;
};

int Simulate(const SimulateArguments& arguments, const StopOnSignal& signals) {
  auto simulator = apiserver::Simulator::Start(arguments.server);
  if (!simulator) return Fail(simulator.error());
  // First, because a load may take minutes.
  if (!arguments.kubeconfig.empty()) {
    auto written = (*simulator)->WriteKubeconfig(arguments.kubeconfig);
    if (!written) return Fail(written.error());
  }
  if (auto loaded = (*simulator)->Load(arguments.objects); !loaded) return Fail(loaded.error());
  if (arguments.rate > 0) {
    apiserver::ChurnOptions churn = arguments.churn;
    churn.rate = arguments.rate;
    (*simulator)->StartChurn(churn);
  }
  const std::stop_token stop = signals;
  std::printf("%s\n", (*simulator)->Url().c_str());
  std::fflush(stdout);
  // For a person; a script reads the URL.
  if (::isatty(STDOUT_FILENO) == 1) {
    std::fprintf(
        stderr, "A cluster of %zu pods is at %s%s. Ctrl-C ends it.\n", (*simulator)->Count("pods"),
        (*simulator)->Url().c_str(),
        arguments.kubeconfig.empty() ? "" : (", kubeconfig " + arguments.kubeconfig).c_str());
  }
  while (RealClock()->SleepFor(std::chrono::hours(1), stop)) {
  }
  (*simulator)->Stop();
  return kOk;
}

}  // namespace

void AddSimulate(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Run a simulated API server with generated pods; prints its URL on stdout");
  command->add_option("--objects", arguments->objects, "Pods to begin with")
      ->check(CheckCount)
      ->capture_default_str();
  command->add_option("--churn", arguments->rate, "Changes a second (creates, updates, deletes)")
      ->capture_default_str();
  command->add_option("--port", arguments->server.port, "0: any free port")->capture_default_str();
  command->add_option("--host", arguments->server.host, "Address to listen on")
      ->capture_default_str();
  command
      ->add_option("--namespaces", arguments->server.workload_namespaces,
                   "Namespaces to spread over")
      ->check(CheckCount)
      ->capture_default_str();
  command->add_option("--nodes", arguments->server.workload_nodes, "Nodes to spread over")
      ->check(CheckCount)
      ->capture_default_str();
  command->add_option("--seed", arguments->server.seed, "The same seed gives the same pods")
      ->capture_default_str();
  command
      ->add_option("--history", arguments->server.watch_window,
                   "Events a watch can go back before it gets a 410")
      ->capture_default_str();
  command->add_flag("--tls", arguments->server.tls, "Serve https with a certificate of its own");
  command
      ->add_option("--kubeconfig", arguments->kubeconfig,
                   "Write a kubeconfig to this file, unless it is somebody else's")
      ->type_name("FILE");
  command->callback([arguments, &context] {
    arguments->churn.seed = arguments->server.seed;
    context.exit_code = Simulate(*arguments, context.stop);
  });
}

}  // namespace larder::tools
