// An informer and a work queue without the manager: the parts, put together by hand. Reconciles
// pods of the current kubeconfig's cluster.
#include <csignal>
#include <cstdio>

#include "base/process.h"
#include "client/config.h"
#include "informer/shared_informer.h"

using namespace larder;

// What your controller does. `pod` is null when it is gone.
bool Reconcile(const std::string& key, const ObjectPtr& pod) {
  std::printf("%s is %s\n", key.c_str(), pod ? "there" : "gone");
  return true;
}

Result<void> Run(const std::string& directory, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(auto store, Store::Open({.path = directory}));
  LARDER_ASSIGN_OR_RETURN(auto config, DefaultConfig());  // kubeconfig, or the service account
  LARDER_ASSIGN_OR_RETURN(auto transport, MakeTransport(config));
  LARDER_ASSIGN_OR_RETURN(auto cluster, FetchClusterUid(*transport, stop));
  HotTier hot({});

  WorkQueueOptions work;
  work.name = "pods";
  work.store = store.get();
  LARDER_ASSIGN_OR_RETURN(auto queue, WorkQueue::Open(std::move(work)));

  InformerOptions options;
  options.resource = *LookupResource("pods");
  options.indexes = {*IndexDefinition::ByField("node", "spec.nodeName")};
  LARDER_ASSIGN_OR_RETURN(
      auto pods, SharedInformer::Open({store.get(), &hot, transport.get(), cluster}, options));
  // Which work a change causes: stored in the change's own commit.
  LARDER_RETURN_IF_ERROR(pods->AddEnqueuer(queue.get(), {.name = "pods"},
                                           [](const ObjectChange& change, const Enqueue& enqueue) {
                                             enqueue(change.current()->key().ToString(), 0);
                                           }));
  pods->Start();
  // The first start lists; after a restart this takes milliseconds.
  LARDER_RETURN_IF_ERROR(pods->WaitForSync(Clock::Steady::max(), stop));

  while (auto item = queue->Get(stop)) {
    const auto pod = pods->GetIndexer().GetByKey(*ObjectKey::Parse(*item));
    const bool gone = !pod && pod.error().code == ErrorCode::kNotFound;
    if (!pod && !gone) {  // the disk, not the cluster
      (void)queue->AddRateLimited(*item, pod.error().ToString());
    } else if (Reconcile(*item, gone ? nullptr : *pod)) {
      queue->Forget(*item);
    } else {
      (void)queue->AddRateLimited(*item, "reconcile failed");  // with backoff, counted on disk
    }
    queue->Done(*item);
  }
  pods->Stop();
  return {};
}

int main(int argc, char** argv) {
  PrepareProcess();
  UseLogFormat();
  if (argc != 2) {
    std::fprintf(stderr, "usage: informer_and_queue STORE-DIRECTORY\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line is shown when it is there, also in a pipe
  static std::stop_source stop;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::jthread waiter([&signals] {
    int received = 0;
    sigwait(&signals, &received);
    stop.request_stop();
  });
  const Result<void> outcome = Run(argv[1], stop.get_token());
  const bool asked = stop.stop_requested();
  ::kill(::getpid(), SIGTERM);  // wakes the waiter when Run ended by itself
  if (outcome || asked) return 0;
  std::fprintf(stderr, "informer_and_queue: %s\n", outcome.error().message.c_str());
  return 1;
}
