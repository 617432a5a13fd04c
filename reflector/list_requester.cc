#include "reflector/list_requester.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "reflector/answer.h"
#include "reflector/object_fetcher.h"
#include "schema/json_span.h"
#include "schema/wire_unknown.h"

namespace larder {
namespace {

// How many keys of differing objects are held at most, whatever the size of the collection.
constexpr size_t kMaxDiffering = 50'000;
// Compared with more than this share differing, a list that has only begun is given up for the full
// one.
constexpr double kHopelessShare = 0.5;

// What Object::Parse demands of names; here only protobuf metadata was read, and the name goes into
// a path.
bool UsableInKey(std::string_view name) {
  return std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

// Time after which the speed of fetching is judged.
constexpr std::chrono::seconds kFirstLook(2);

bool IsVersion(std::string_view version) {
  return CompareResourceVersions(version, version).has_value();
}

// What a server answers that cannot show the past at a version.
bool IsNoLongerKnown(ErrorCode code) {
  return code == ErrorCode::kGone || code == ErrorCode::kInvalidArgument ||
         code == ErrorCode::kInvalid;
}

// " (namespace/name)" of an object that was refused, as far as it can be read; nothing of its
// content.
std::string NameForLog(std::string_view json) {
  const simdjson::padded_string padded(json);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view ns, name;
  if (parser.parse(padded).get(root)) return {};
  if (root.at_pointer("/metadata/name").get_string().get(name)) return {};
  if (root.at_pointer("/metadata/namespace").get_string().get(ns)) ns = {};
  std::string shown;
  for (const std::string_view part : {ns, std::string_view("/"), name}) {
    for (const char c : part.substr(0, 253)) shown += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return " (" + shown + ")";
}

// A proxy or an aggregated server may cut a list into pages that nobody asked for. What is not in
// the first of them is not gone.
Result<void> CheckWhole(const ListHead& head) {
  if (head.continue_token.empty()) return {};
  return MakeError(ErrorCode::kUnsupported, "the server sends this list in pages");
}

constexpr std::string_view kMetadataKind = "PartialObjectMetadata";

// What the server cut down to its metadata, as an object of its own kind: that is what an Event
// about it or a reference to its owner has to name.
Result<ObjectPtr> OfItsKind(const Object& partial, const TypeMeta& type) {
  const std::string_view json = partial.json();
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::object found;
  std::string_view metadata;
  if (parser.iterate(json.data(), json.size(), json.size() + Object::kJsonPadding).get(document) ||
      document["metadata"].get_object().get(found) || found.raw_json().get(metadata)) {
    return MakeError(ErrorCode::kProtocol, "object {} has no metadata", partial.key().ToString());
  }
  return Object::Parse(fmt::format(R"({{"kind":{},"apiVersion":{},"metadata":{}}})",
                                   Json(type.kind).dump(), Json(type.api_version).dump(),
                                   metadata));
}

}  // namespace

Result<ListHead> SplitList(
    std::string_view body, const ReflectorOptions& options,
    const std::function<Result<void>(std::string_view, const ListHead&)>& visit) {
  ListSplitter splitter(options.max_event_bytes, options.max_json_depth);
  splitter.Feed(body);
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const ListSplitter::Step step, splitter.Next());
    if (step != ListSplitter::Step::kItem) break;
    LARDER_RETURN_IF_ERROR(visit(splitter.item(), splitter.head()));
  }
  LARDER_RETURN_IF_ERROR(splitter.Finish());
  return splitter.head();
}

Result<ListRequester::Outcome> ListRequester::Full(const Job& job, const std::stop_token& stop) {
  return InReadableForm(&ListRequester::ReadFull, job, stop);
}

Result<ListRequester::Outcome> ListRequester::Paged(const Job& job, const std::stop_token& stop) {
  return InReadableForm(&ListRequester::ReadPages, job, stop);
}

Result<ListRequester::Outcome> ListRequester::InReadableForm(Read read, const Job& job,
                                                             const std::stop_token& stop) {
  protobuf_unreadable_ = rewound_ = false;
  Result<Outcome> outcome = (this->*read)(job, stop);
  if (!outcome && protobuf_unreadable_) {
    wire_.GiveUp(outcome.error());
    outcome = (this->*read)(job, stop);
  }
  if (rewound_) return Outcome{End::kRewound, {}};
  return outcome;
}

Result<ListRequester::Outcome> ListRequester::ReadFull(const Job& job,
                                                       const std::stop_token& stop) {
  const WireMessage* const wire = wire_.message();
  LARDER_ASSIGN_OR_RETURN(const auto reader,
                          Open(requests_.List(job.version, Requests::FormFor(wire)), wire, stop));
  LARDER_RETURN_IF_ERROR(target_.BeginList(job.why));
  LARDER_RETURN_IF_ERROR(ReadItems(job, *reader, stop));
  LARDER_RETURN_IF_ERROR(CheckWhole(reader->head()));
  return Finish(job, reader->head());
}

Result<ListRequester::Outcome> ListRequester::ReadPages(const Job& job,
                                                        const std::stop_token& stop) {
  const WireMessage* const wire = wire_.message();
  const Requests::Form form = Requests::FormFor(wire);
  ListHead first;
  std::string token;
  bool begun = false;
  do {
    // An expired token is kGone here. The server offers another one with it, for a remainder that
    // does not belong to the pages before: a cache must not use that, so the list is begun again by
    // the caller.
    LARDER_ASSIGN_OR_RETURN(const auto reader,
                            Open(requests_.Page(job.version, token, form), wire, stop));
    if (!std::exchange(begun, true)) LARDER_RETURN_IF_ERROR(target_.BeginList(job.why));
    LARDER_RETURN_IF_ERROR(ReadItems(job, *reader, stop));
    if (token.empty()) first = reader->head();
    if (!token.empty() && token == reader->head().continue_token) {
      return MakeError(ErrorCode::kProtocol, "the server sent the same page token twice");
    }
    token = reader->head().continue_token;
  } while (!token.empty());
  // All pages show the state of the first one.
  return Finish(job, first);
}

Result<ListRequester::Outcome> ListRequester::Differential(const Job& job,
                                                           const std::stop_token& stop) {
  auto reader = Open(requests_.ListMetadata(job.version), nullptr, stop);
  if (!reader && reader.error().code == ErrorCode::kUnsupported) return Outcome{End::kTooMuch, {}};
  if (!reader) return tl::unexpected(std::move(reader).error());
  LARDER_RETURN_IF_ERROR(target_.BeginList(job.why));
  rewound_ = false;
  const Result<Compared> read = Compare(job, **reader, stop);
  if (rewound_) return Outcome{End::kRewound, {}};
  if (!read) return tl::unexpected(read.error());
  const Compared& compared = *read;
  const size_t differing = compared.differing.size();
  if (compared.too_much || (differing > options_.max_single_fetches &&
                            static_cast<double>(differing) >
                                options_.max_fetched_share * static_cast<double>(compared.seen))) {
    return Outcome{End::kTooMuch, {}};
  }
  const ListHead head = (*reader)->head();
  if (!CheckWhole(head)) return Outcome{End::kTooMuch, {}};
  // Equal versions mean nothing on a server that lost some: found out before anything is fetched.
  if (IsVersion(head.resource_version) &&
      CompareResourceVersions(head.resource_version, job.cursor).value_or(0) < 0) {
    return Outcome{End::kRewound, head.resource_version};
  }
  LARDER_ASSIGN_OR_RETURN(const End fetched,
                          FetchDiffering(compared.differing, head.resource_version, stop));
  if (fetched != End::kDone) return Outcome{fetched, {}};
  return Finish(job, head);
}

Result<std::unique_ptr<ListReader>> ListRequester::Open(const Request& request,
                                                        const WireMessage* wire,
                                                        const std::stop_token& stop) {
  in_body_ = false;
  auto reader = ListReader::Open(transport_, request, options_, clock_, recorder_, wire, stop);
  in_body_ = reader.has_value();
  protobuf_unreadable_ =
      !reader && wire != nullptr && reader.error().code == ErrorCode::kUnsupported;
  return reader;
}

Result<void> ListRequester::ReadItems(const Job& job, ListReader& reader,
                                      const std::stop_token& stop) {
  for (;;) {
    Result<ObjectPtr> object = NextObject(reader, stop);
    // Not of what the target refuses.
    protobuf_unreadable_ =
        !object && wire_.message() != nullptr && reader.UnreadableProtobuf(object.error());
    if (!object) return tl::unexpected(std::move(object).error());
    if (!*object) return {};
    LARDER_RETURN_IF_ERROR(TakeObject(job, *std::move(object)));
  }
}

Result<ObjectPtr> ListRequester::NextObject(ListReader& reader, const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const std::optional<ListReader::Entry> entry, reader.Next(stop));
  if (!entry) return ObjectPtr();
  const auto* item = std::get_if<ListReader::ItemText>(&*entry);
  if (item == nullptr) {
    return MakeError(ErrorCode::kProtocol,
                     "the server answered a list with protobuf, JSON was asked for");
  }
  return Parse(*item, reader.head().ItemType(DefaultType()));
}

Result<void> ListRequester::TakeObject(const Job& job, ObjectPtr object) {
  if (!shard_.Matches(object->ns(), object->uid())) return {};
  // What a relist that was cut off had fetched may be of a time that the server has lost since. Or
  // the list is from a cache that is behind: to list once more costs little, to keep a lost object
  // is for ever.
  if (job.why != "rewound" && !job.cursor.empty()) {
    LARDER_ASSIGN_OR_RETURN(rewound_,
                            target_.StoredIsNewer(object->key(), object->resource_version()));
    if (rewound_) return MakeError(ErrorCode::kConflict, "older than what is stored");
  }
  return target_.ListItem(std::move(object));
}

Result<ListRequester::Compared> ListRequester::Compare(const Job& job, ListReader& reader,
                                                       const std::stop_token& stop) {
  Compared compared;
  while (!compared.too_much) {
    LARDER_ASSIGN_OR_RETURN(const std::optional<ListReader::Entry> entry, reader.Next(stop));
    if (!entry) break;
    if (const auto* item = std::get_if<ItemHead>(&*entry)) {
      LARDER_RETURN_IF_ERROR(CompareOne(*item, compared));
      continue;
    }
    const auto& text = std::get<ListReader::ItemText>(*entry);
    if (reader.head().kind != "PartialObjectMetadataList" || options_.metadata_only) {
      // These are the objects themselves: nothing is left to fetch.
      LARDER_ASSIGN_OR_RETURN(ObjectPtr whole, Parse(text, reader.head().ItemType(DefaultType())));
      LARDER_RETURN_IF_ERROR(TakeObject(job, std::move(whole)));
      continue;
    }
    LARDER_ASSIGN_OR_RETURN(const ObjectPtr object, Object::Parse(text.json));
    LARDER_RETURN_IF_ERROR(CompareOne(
        {object->ns(), object->name(), object->uid(), object->resource_version()}, compared));
  }
  return compared;
}

Result<void> ListRequester::CompareOne(const ItemHead& item, Compared& compared) {
  if (!shard_.Matches(item.ns, item.uid)) return {};
  if (!UsableInKey(item.ns) || !UsableInKey(item.name)) {
    return MakeError(ErrorCode::kProtocol,
                     "an item's name or namespace holds '/' or control characters");
  }
  ++compared.seen;
  ObjectKey key{std::string(item.ns), std::string(item.name)};
  LARDER_ASSIGN_OR_RETURN(const bool unchanged,
                          target_.ListItemUnchanged(key, item.uid, item.resource_version));
  if (unchanged) {
    recorder_.Unchanged();
    return {};
  }
  compared.differing.push_back(std::move(key));
  const size_t differing = compared.differing.size();
  compared.too_much =
      differing > kMaxDiffering ||
      (differing > options_.max_single_fetches &&
       static_cast<double>(differing) > kHopelessShare * static_cast<double>(compared.seen));
  return {};
}

Result<ListRequester::End> ListRequester::FetchDiffering(const std::vector<ObjectKey>& keys,
                                                         const std::string& version,
                                                         const std::stop_token& stop) {
  const Clock::Steady start = clock_->Now();
  size_t done = 0;
  bool too_slow = false;
  bool rewound = false;
  // Behind a load balancer another server may answer, whose memory is not as far yet.
  std::atomic<bool> from_memory = IsVersion(version);
  auto fetch = [&](const ObjectKey& key, const std::stop_token& token) {
    return FetchListed(key, version, from_memory, token);
  };
  auto deliver = [&](ObjectPtr object) -> Result<void> {
    recorder_.Fetched();
    ++done;
    const Clock::Steady::duration elapsed = clock_->Now() - start;
    // Extrapolated once there is something to extrapolate from.
    too_slow = elapsed > kFirstLook && elapsed / done * keys.size() > options_.max_fetch_time;
    if (too_slow) return MakeError(ErrorCode::kTimeout, "fetching one by one takes too long");
    // It may have been recreated under its name, with a uid of another shard.
    if (!shard_.Matches(object->ns(), object->uid())) return {};
    // A server that was restored and has since passed our version looks like any other, but for
    // the objects that it lost. What a relist that was cut off had fetched may be newer than the
    // memory that answered; as the object is now, nothing newer can have been seen of it.
    LARDER_ASSIGN_OR_RETURN(const bool older,
                            target_.StoredIsNewer(object->key(), object->resource_version()));
    if (older) {
      LARDER_ASSIGN_OR_RETURN(ObjectPtr now, FetchOne({.key = object->key()}, stop));
      if (now && shard_.Matches(now->ns(), now->uid())) {
        object = std::move(now);
        LARDER_ASSIGN_OR_RETURN(rewound,
                                target_.StoredIsNewer(object->key(), object->resource_version()));
      } else {
        // Gone, or another shard's. What is stored may be of a time that the server has lost: then
        // its end has an older version, and the watch's word of it would not be believed.
        rewound = true;
      }
    }
    if (rewound) return MakeError(ErrorCode::kConflict, "older than what is stored");
    return target_.ListItem(std::move(object));
  };
  const Result<void> outcome = FetchObjects(keys, options_.parallel_fetches, fetch, deliver, stop);
  if (rewound) return End::kRewound;
  if (too_slow) return End::kTooMuch;
  if (!outcome) return tl::unexpected(outcome.error());
  return End::kDone;
}

// An object that is gone by now, or made anew with a uid of another shard, has its end, and what
// came before it, in the watch that follows. Were it left out of the list, its end would be told
// twice, with an add between them.
Result<ObjectPtr> ListRequester::FetchListed(const ObjectKey& key, const std::string& version,
                                             std::atomic<bool>& from_memory,
                                             const std::stop_token& stop) {
  const std::string_view at = from_memory ? std::string_view(version) : std::string_view();
  Result<ObjectPtr> object = FetchOne({.key = key, .version = at}, stop);
  if (!object && !at.empty() && object.error().code == ErrorCode::kVersionTooLarge) {
    from_memory = false;
    object = FetchOne({.key = key}, stop);
  }
  if (!object || !IsVersion(version)) return object;
  if (*object && shard_.Matches((*object)->ns(), (*object)->uid())) return object;
  object = FetchOne({.key = key, .version = version, .exact = true}, stop);
  if (!object && IsNoLongerKnown(object.error().code)) return ObjectPtr();
  return object;
}

Result<ObjectPtr> ListRequester::FetchOne(Wanted wanted, const std::stop_token& stop) {
  wanted.as_list = wanted.exact || may_not_get_ || requests_.HasSelector();
  Result<ObjectPtr> object = FetchReadable(wanted, stop);
  if (object || wanted.as_list || object.error().code != ErrorCode::kForbidden) return object;
  if (!may_not_get_.exchange(true)) {
    spdlog::info("{}: may list and not get: what differs is listed one by one", options_.name);
  }
  wanted.as_list = true;
  return FetchReadable(wanted, stop);
}

Result<ObjectPtr> ListRequester::FetchReadable(const Wanted& wanted, const std::stop_token& stop) {
  bool unreadable = false;
  const WireMessage* const wire = wire_.message();
  Result<ObjectPtr> object = FetchAs(wire, wanted, unreadable, stop);
  if (object || !unreadable) return object;
  wire_.GiveUp(object.error());
  return FetchAs(nullptr, wanted, unreadable, stop);
}

Result<ObjectPtr> ListRequester::FetchAs(const WireMessage* wire, const Wanted& wanted,
                                         bool& unreadable, const std::stop_token& stop) {
  const auto& [key, version, exact, as_list] = wanted;
  const Requests::Form asked = Requests::FormFor(wire);
  Result<Response> response =
      transport_.Do(as_list ? requests_.ListOfOne(key, version, exact, asked)
                            : requests_.ForObject(key, version, asked),
                    stop);
  // A list of nothing is no error; a path that is not there says nothing about the object.
  if (!response && !as_list && SaysNotFound(response.error(), key.name)) return ObjectPtr();
  if (!response) {
    unreadable = wire != nullptr && response.error().code == ErrorCode::kUnsupported;
    return tl::unexpected(std::move(response).error());
  }
  recorder_.Bytes(response->wire_bytes, response->body.size());
  LARDER_ASSIGN_OR_RETURN(const BodyForm form, CheckAnswer(response->status, response->headers));
  const bool protobuf = form == BodyForm::kProtobuf;
  if (protobuf && wire == nullptr) {
    return MakeError(ErrorCode::kProtocol, "the server answered with protobuf, JSON was asked for");
  }
  bool too_large = false;
  Result<ObjectPtr> object = protobuf ? ReadProtobuf(response->body, *wire, as_list, too_large)
                                      : ReadJson(response->body, as_list);
  if (object && *object && (*object)->key() != key) {
    object = MakeError(ErrorCode::kProtocol, "asked for {}, the server sent {}", key.ToString(),
                       (*object)->key().ToString());
  }
  unreadable = !object && protobuf && !too_large && WireChoice::Unreadable(object.error());
  return object;
}

Result<ObjectPtr> ListRequester::ReadJson(std::string_view body, bool as_list) {
  if (!as_list) {
    body = Trimmed(body);
    if (!IsOneJsonContainer(body, options_.max_json_depth)) {
      return MakeError(ErrorCode::kProtocol,
                       "the answer is not one JSON object, or nested too deeply");
    }
    return Parse({body}, DefaultType());
  }
  ObjectPtr object;
  LARDER_RETURN_IF_ERROR(
      SplitList(body, options_, [&](std::string_view json, const ListHead& head) -> Result<void> {
        LARDER_ASSIGN_OR_RETURN(object, Parse({json}, head.ItemType(DefaultType())));
        return {};
      }));
  return object;
}

Result<ObjectPtr> ListRequester::ReadProtobuf(std::string_view body, const WireMessage& wire,
                                              bool as_list, bool& too_large) {
  const TypeMeta type = DefaultType();
  const WireLimits limits = WireChoice::Limits(options_);
  KnownJson known;
  std::string json;
  if (!as_list) {
    LARDER_ASSIGN_OR_RETURN(const WireHead head,
                            WireUnknownToJson(wire, type, body, limits, known, json, &too_large));
    return Parse({json, head}, type);
  }
  ObjectPtr object;
  ProtoListSplitter splitter(options_.max_event_bytes);
  splitter.Feed(body);
  for (;;) {
    const Result<ListSplitter::Step> step = splitter.Next();
    too_large = splitter.TooLarge();
    if (!step) return tl::unexpected(step.error());
    if (*step != ListSplitter::Step::kItem) break;
    LARDER_ASSIGN_OR_RETURN(const WireHead head, WireToJson(wire, type, splitter.item(), limits,
                                                            known, json, &too_large));
    LARDER_ASSIGN_OR_RETURN(object, Parse({json, head}, type));
  }
  LARDER_RETURN_IF_ERROR(splitter.Finish());
  LARDER_RETURN_IF_ERROR(splitter.head().CheckItems(type));
  return object;
}

Result<ObjectPtr> ListRequester::Parse(const ListReader::ItemText& item, const TypeMeta& type) {
  const Clock::Steady before = clock_->Now();
  Result<ObjectPtr> object =
      item.wire ? Object::FromWire(item.json, type, *item.wire) : Object::Parse(item.json, type);
  if (!object) {
    object.error().message += NameForLog(item.json);
    return object;
  }
  if (!IsVersion((*object)->resource_version())) {
    return MakeError(ErrorCode::kProtocol, "object {} has no usable resourceVersion: '{}'",
                     (*object)->key().ToString(), Excerpt((*object)->resource_version()));
  }
  if (options_.metadata_only && (*object)->kind() == kMetadataKind &&
      !options_.resource.kind.empty()) {
    object = OfItsKind(**object, DefaultType());
  }
  recorder_.Object(clock_->Now() - before);
  return object;
}

Result<ListRequester::Outcome> ListRequester::Finish(const Job& job, const ListHead& head) {
  if (!IsVersion(head.resource_version)) {
    return MakeError(ErrorCode::kProtocol, "the list has no usable resourceVersion: '{}'",
                     Excerpt(head.resource_version));
  }
  NoteShard(head);
  if (job.why != "rewound" && !job.cursor.empty() &&
      CompareResourceVersions(head.resource_version, job.cursor).value_or(0) < 0) {
    return Outcome{End::kRewound, head.resource_version};
  }
  if (job.why != "rewound") {
    LARDER_ASSIGN_OR_RETURN(const bool behind, target_.UnseenIsNewer(head.resource_version));
    if (behind) return Outcome{End::kRewound, head.resource_version};
  }
  LARDER_RETURN_IF_ERROR(target_.EndList(head.resource_version));
  in_body_ = false;
  recorder_.ListDone(job.why, head.resource_version);
  return Outcome{End::kDone, head.resource_version};
}

void ListRequester::NoteShard(const ListHead& head) {
  if (!shard_.Empty()) recorder_.ShardedByServer(!head.shard_selector.empty());
}

}  // namespace larder
