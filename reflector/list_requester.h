// Reads a whole collection into the target: in one list, in pages, or by comparing metadata first.
//
// Each call is BeginList … EndList on the target, and EndList is reached only when the list arrived
// whole and names a usable version. Any error leaves the list unfinished: nothing is swept, the
// caller begins again.
//
//   auto outcome = lister.Full({.why = "first", .version = ""}, stop);
//   if (outcome && outcome->end == ListRequester::End::kDone) Watch(outcome->version);
//
// Not thread-safe: the reflector's thread only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "client/transport.h"
#include "reflector/list_reader.h"
#include "reflector/recorder.h"
#include "reflector/reflector_options.h"
#include "reflector/requests.h"
#include "reflector/shard_selector.h"
#include "reflector/target.h"
#include "reflector/wire_choice.h"

namespace larder {

class ListRequester {
 public:
  struct Job {
    std::string why;      // for the target, see Target::BeginList
    std::string version;  // list at a state not older than this; empty: the newest
    std::string cursor;   // what the target had; a list with a lower version is a rewound server
  };
  // How a list ended, where that is not an error.
  enum class End {
    kDone,     // complete and committed
    kRewound,  // the server's version is lower than the cursor, or an object's than the stored
               // one: list in full, trusting no equal version
    kTooMuch,  // too many objects differ, or the server has no metadata lists, or none in one
               // answer: a full list is cheaper
  };
  struct Outcome {
    End end = End::kDone;
    std::string version;
  };

  ListRequester(const ReflectorOptions& options, Clock* clock, HttpTransport* transport,
                Target* target, Recorder* recorder, const Requests* requests,
                const ShardSelector* shard, WireChoice* wire)
      : options_(options),
        clock_(clock),
        transport_(*transport),
        target_(*target),
        recorder_(*recorder),
        requests_(*requests),
        shard_(*shard),
        wire_(*wire) {}

  Result<Outcome> Full(const Job& job, const std::stop_token& stop);
  Result<Outcome> Paged(const Job& job, const std::stop_token& stop);
  // The differential relist: all metadata, then single fetches of what differs.
  Result<Outcome> Differential(const Job& job, const std::stop_token& stop);

  // Did the last call fail after the server had begun to answer?
  bool failed_in_body() const { return in_body_; }

  // Reads one object's text, timed and counted. Also for watch events. `type`: what it is, where
  // its text does not say.
  Result<ObjectPtr> Parse(const ListReader::ItemText& item, const TypeMeta& type);
  TypeMeta DefaultType() const { return {options_.resource.ApiVersion(), options_.resource.kind}; }

 private:
  struct Compared {
    std::vector<ObjectKey> differing;
    size_t seen = 0;
    bool too_much = false;
  };

  // A single object. With a version the server answers from memory, without one it asks its
  // database: a third of what a fetch costs it, and the database none.
  struct Wanted {
    const ObjectKey& key;
    std::string_view version = {};  // not older than this; empty: as it is now
    bool exact = false;             // as it was at `version`, also where it is gone since
    bool as_list = false;
  };

  using Read = Result<Outcome> (ListRequester::*)(const Job& job, const std::stop_token& stop);

  // Calls `read`, and once more where it turns out that this server's protobuf cannot be read.
  Result<Outcome> InReadableForm(Read read, const Job& job, const std::stop_token& stop);
  Result<Outcome> ReadFull(const Job& job, const std::stop_token& stop);
  Result<Outcome> ReadPages(const Job& job, const std::stop_token& stop);
  Result<std::unique_ptr<ListReader>> Open(const Request& request, const WireMessage* wire,
                                           const std::stop_token& stop);
  Result<void> ReadItems(const Job& job, ListReader& reader, const std::stop_token& stop);
  // Null: the list is whole.
  Result<ObjectPtr> NextObject(ListReader& reader, const std::stop_token& stop);
  Result<void> TakeObject(const Job& job, ObjectPtr object);
  Result<Compared> Compare(const Job& job, ListReader& reader, const std::stop_token& stop);
  Result<void> CompareOne(const ItemHead& item, Compared& compared);
  // Each as it was at `version` or later.
  Result<End> FetchDiffering(const std::vector<ObjectKey>& keys, const std::string& version,
                             const std::stop_token& stop);
  // One that may be gone since a list of this version named it: then as that list saw it. Null: it
  // is gone, and the server does not know that version any more. From several threads at once.
  Result<ObjectPtr> FetchListed(const ObjectKey& key, const std::string& version,
                                std::atomic<bool>& from_memory, const std::stop_token& stop);
  // Null: it is gone.
  Result<ObjectPtr> FetchOne(Wanted wanted, const std::stop_token& stop);
  Result<ObjectPtr> FetchReadable(const Wanted& wanted, const std::stop_token& stop);
  // `unreadable`: it failed, and may not as JSON.
  Result<ObjectPtr> FetchAs(const WireMessage* wire, const Wanted& wanted, bool& unreadable,
                            const std::stop_token& stop);
  Result<ObjectPtr> ReadJson(std::string_view body, bool as_list);
  // `too_large`: it was refused for its size.
  Result<ObjectPtr> ReadProtobuf(std::string_view body, const WireMessage& wire, bool as_list,
                                 bool& too_large);
  Result<Outcome> Finish(const Job& job, const ListHead& head);
  void NoteShard(const ListHead& head);

  const ReflectorOptions& options_;
  Clock* const clock_;
  HttpTransport& transport_;
  Target& target_;
  Recorder& recorder_;
  const Requests& requests_;
  const ShardSelector& shard_;
  bool in_body_ = false;
  // The server lets us list and not get, which is enough for an informer.
  std::atomic<bool> may_not_get_{false};
  WireChoice& wire_;
  bool protobuf_unreadable_ = false;  // said by the list that was read last, like the next
  bool rewound_ = false;              // it has an object that is older than the stored one
};

// Splits a list answer that is in memory as a whole; visit(item) for each.
Result<ListHead> SplitList(
    std::string_view body, const ReflectorOptions& options,
    const std::function<Result<void>(std::string_view, const ListHead&)>& visit);

}  // namespace larder
