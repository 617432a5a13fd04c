// The judge of one seed: what must hold of a store, whatever happened before, by the history of the
// world and by the journals of worker and handler. It remembers the first thing that went wrong.
//
//   Judge judge(&world, &journal, &deliveries);
//   judge.Check({store, indexer, queue, "handler"});
//   if (!judge.violation().empty()) ...
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "indexer/indexer.h"
#include "queue/work_queue.h"
#include "tests/simulation/deliveries.h"
#include "tests/simulation/journal.h"
#include "tests/simulation/world.h"

namespace larder::simulation {

// A state as worker and handler write it down.
std::string StateText(std::string_view uid, std::string_view version);

// An open store, as the controller on it sees it.
struct OpenParts {
  Store* store = nullptr;
  Indexer* indexer = nullptr;
  WorkQueue* queue = nullptr;
  std::string handler;  // its durable name
};

// All pods of a store.
Result<State> StoredPods(Indexer& indexer);
// The keys whose changes wait for a handler on disk.
Result<std::set<std::string>> PendingKeys(const OpenParts& parts);
// Anything but dead letters.
bool IsWorkLeft(const WorkQueue& queue);

class Judge {
 public:
  Judge(World* world, Journal* journal, Deliveries* deliveries)
      : world_(*world), journal_(*journal), deliveries_(*deliveries) {}

  // The first thing that went wrong; empty: nothing.
  const std::string& violation() const { return violation_; }
  void ExpectThat(bool good, const std::string& what) {
    if (!good && violation_.empty()) violation_ = what;
  }
  // What journals answer: what is wrong, or nothing.
  void ExpectNothing(const std::string& wrong) { ExpectThat(wrong.empty(), wrong); }
  // An error where none may be. Returns false.
  bool Fail(std::string_view what, const Error& error);

  // Everything that must hold when a process begins, and at a calm end.
  void Check(const OpenParts& parts);
  // At a calm end: the store is the cluster, and nothing is left to do.
  void CheckCaughtUp(const OpenParts& parts);

 private:
  void CheckSound(const OpenParts& parts);
  void CheckPrefix(const OpenParts& parts, const State& stored);
  void CheckWork(const OpenParts& parts, const State& stored);
  void CheckHandler(const OpenParts& parts, const State& stored);

  World& world_;
  Journal& journal_;
  Deliveries& deliveries_;
  std::string violation_;
};

}  // namespace larder::simulation
