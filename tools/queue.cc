// `larder queue ls|show|requeue|forget|drain`: the work that waits in a store.
#include <memory>
#include <nlohmann/json.hpp>

#include "queue/dead_letter.h"
#include "tools/age.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/store_access.h"
#include "tools/store_report.h"
#include "tools/table_writer.h"

namespace larder::tools {
namespace {

struct QueueArguments {
  StoreArguments store;
  std::string queue;
  std::vector<std::string> items;
  bool all = false;
  bool dead = false;
  bool json = false;
  size_t limit = 0;
  StopOnSignal stop;
};

Result<void> CheckQueue(const Store& store, const std::string& name) {
  LARDER_ASSIGN_OR_RETURN(const auto queues, store.Queues());
  std::string known;
  for (const std::string& queue : queues) {
    if (queue == name) return {};
    known += (known.empty() ? "" : ", ") + queue;
  }
  return MakeError(ErrorCode::kNotFound, "the store has no queue {} with anything in it; it has {}",
                   name, known.empty() ? "none" : known);
}

Result<int> List(const QueueArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_ASSIGN_OR_RETURN(const auto queues, SummariseQueues(*store));
  if (arguments.json) {
    Stdout().Write(IndentedJson(StatsToJson({}, queues)["queues"]));
    return kOk;
  }
  TableWriter table({"QUEUE", "READY", "DELAYED", "FAILING", "DEAD", "OLDEST"});
  for (const size_t column : {1U, 2U, 3U, 4U}) table.AlignRight(column);
  for (const QueueSummary& queue : queues) {
    table.Add({queue.name, HumanCount(queue.ready), HumanCount(queue.delayed),
               HumanCount(queue.failing), HumanCount(queue.dead),
               queue.oldest_ms == 0 ? "-" : AgeOf(queue.oldest_ms / 1000, NowSeconds())});
  }
  table.Flush(Stdout());
  return kOk;
}

std::string StateOf(const QueueRecord& record, int64_t now_ms) {
  if (record.dead) return "dead";
  if (record.not_before_ms <= now_ms) return "ready";
  return "in " + HumanDuration(std::chrono::seconds((record.not_before_ms - now_ms) / 1000));
}

Result<int> Show(const QueueArguments& arguments) {
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenReader(arguments.store));
  LARDER_RETURN_IF_ERROR(CheckQueue(*store, arguments.queue));
  const int64_t now_ms = NowSeconds() * 1000;
  TableWriter table({"ITEM", "STATE", "PRIORITY", "FAILURES", "ADDED", "LAST ERROR"});
  table.AlignRight(2);
  table.AlignRight(3);
  Json list = Json::array();
  size_t shown = 0;
  const auto wanted = [&](const StoredQueueItem& item) {
    if (arguments.dead && !item.record.dead) return false;
    return arguments.items.empty() || std::find(arguments.items.begin(), arguments.items.end(),
                                                item.item) != arguments.items.end();
  };
  const auto more = [&] { return ++shown != arguments.limit || arguments.limit == 0; };
  const auto show = [&](const StoredQueueItem& item) {
    if (!wanted(item)) return true;
    const QueueRecord& record = item.record;
    if (arguments.json) {
      list.push_back({{"item", item.item},
                      {"state", record.dead                     ? "dead"
                                : record.not_before_ms > now_ms ? "delayed"
                                                                : "ready"},
                      {"priority", record.priority},
                      {"failures", record.failures},
                      {"added", TimeToJson(record.added_ms)},
                      {"notBefore", TimeToJson(record.not_before_ms)},
                      {"lastError", record.last_error}});
    } else {
      table.Add({item.item, StateOf(record, now_ms), std::to_string(record.priority),
                 std::to_string(record.failures), AgeOf(record.added_ms / 1000, NowSeconds()),
                 record.last_error});
    }
    return more();
  };
  bool damaged = false;
  const auto show_damaged = [&](const DamagedQueueItem& row) {
    damaged = true;
    if (arguments.json) {
      list.push_back({{"item", row.item ? Json(*row.item) : Json()},
                      {"state", "damaged"},
                      {"lastError", row.error.message}});
    } else {
      table.Add({row.item.value_or("?"), "damaged", "-", "-", "-", row.error.message});
    }
    return more();
  };
  LARDER_RETURN_IF_ERROR(store->ScanQueue(arguments.queue, {}, show, show_damaged));
  if (arguments.json) {
    Stdout().Write(IndentedJson(list));
  } else {
    table.Flush(Stdout());
  }
  return damaged || (shown == 0 && !arguments.items.empty()) ? kBadResult : kOk;
}

Result<size_t> ChangeInStore(Store& store, const std::string& queue, DeadLetterChange change,
                             const std::vector<std::string>& items) {
  LARDER_RETURN_IF_ERROR(CheckQueue(store, queue));
  return larder::ChangeDeadLetters(store, queue, change, items);
}

Result<int> ChangeDeadLetters(const QueueArguments& arguments, const char* done,
                              DeadLetterChange change) {
  if (arguments.items.empty() && !arguments.all) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "name items, or give --all for every dead letter");
  }
  const auto store = OpenOwner(arguments.store, "changing a queue");
  const bool live = !store && store.error().code == ErrorCode::kLocked;
  if (!store && !live) return tl::unexpected(store.error());
  // None: all.
  const auto items = arguments.all ? std::vector<std::string>() : arguments.items;
  LARDER_ASSIGN_OR_RETURN(const size_t changed,
                          live ? AskToChangeDeadLetters(arguments.store.path, arguments.queue,
                                                        change, items, arguments.stop)
                               : ChangeInStore(**store, arguments.queue, change, items));
  Stdout().Print("{} {} of {}\n", done, Plural(changed, "dead letter"), arguments.queue);
  return kOk;
}

Result<int> Requeue(const QueueArguments& arguments) {
  return ChangeDeadLetters(arguments, "requeued", DeadLetterChange::kRequeue);
}

Result<int> Forget(const QueueArguments& arguments) {
  return ChangeDeadLetters(arguments, "forgot", DeadLetterChange::kDrop);
}

// Everything goes: pending, delayed and dead.
Result<int> Drain(const QueueArguments& arguments) {
  if (!arguments.all) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "draining loses the work that waits in {}; say so with --all",
                     arguments.queue);
  }
  LARDER_ASSIGN_OR_RETURN(const auto store, OpenOwner(arguments.store, "draining a queue"));
  LARDER_RETURN_IF_ERROR(CheckQueue(*store, arguments.queue));
  constexpr size_t kBatch = 10'000;
  size_t drained = 0;
  for (;;) {
    Transaction transaction = store->Begin();
    size_t batch = 0;
    const auto remove = [&](const std::string& item, uint64_t generation) {
      transaction.DeleteQueueItem(arguments.queue, item, generation);
      return ++batch < kBatch;
    };
    LARDER_RETURN_IF_ERROR(store->ScanQueue(
        arguments.queue, {},
        [&](const StoredQueueItem& item) { return remove(item.item, item.generation); },
        [&](const DamagedQueueItem& row) {
          return !row.item || remove(*row.item, row.generation);
        }));
    if (batch == 0) break;
    drained += batch;
    LARDER_RETURN_IF_ERROR(store->Commit(std::move(transaction), Durability::kSync));
  }
  Stdout().Print("drained {} items of {}\n", drained, arguments.queue);
  return kOk;
}

}  // namespace

void AddQueue(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<QueueArguments>();
  CLI::App* command =
      app.add_subcommand("queue", "Look at the work that waits, and at dead letters");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help,
                       Result<int> (*run)(const QueueArguments&)) {
    CLI::App* verb = command->add_subcommand(name, help);
    AddStoreOptions(verb, arguments->store);
    verb->callback([arguments, &context, run] {
      arguments->stop = context.stop;
      context.exit_code = ExitCode(run(*arguments), arguments->store);
      Stdout().Flush();
    });
    return verb;
  };
  add("ls", "List the queues", List)->add_flag("--json", arguments->json, "For scripts");
  CLI::App* show = add("show", "Show what is in a queue", Show);
  show->add_option("queue", arguments->queue, "Its name, as larder queue ls shows it")->required();
  show->add_option("item", arguments->items, "Only these");
  show->add_flag("--dead", arguments->dead, "Only dead letters");
  show->add_option("--limit", arguments->limit, "At most so many")->check(CheckCount);
  show->add_flag("--json", arguments->json, "For scripts");
  const std::tuple<const char*, const char*, Result<int> (*)(const QueueArguments&)> changes[] = {
      {"requeue", "Put dead letters back to work, also those of a running process", Requeue},
      {"forget", "Drop dead letters, also those of a running process", Forget},
      {"drain", "Drop everything in a queue; needs the store to itself", Drain}};
  for (const auto& [name, help, run] : changes) {
    CLI::App* verb = add(name, help, run);
    verb->add_option("queue", arguments->queue, "Its name, as larder queue ls shows it")
        ->required();
    if (run != Drain) verb->add_option("item", arguments->items, "Dead letters");
    verb->add_flag("--all", arguments->all, "All of them");
  }
}

}  // namespace larder::tools
