// Reads one LIST answer as it arrives, entry by entry, in whichever form the server chose: JSON,
// protobuf objects (whose JSON is made here) or protobuf metadata.
//
// Memory is bounded by one piece of the body and one item. A list that stalls (no item and less
// than 16 KiB in list_stall_timeout) is kTimeout; the time that the caller takes between calls does
// not count. One that says much and shows no item (white space without end, a packed one costs the
// server nothing) is kProtocol.
//
//   auto reader = ListReader::Open(transport, request, options, clock, recorder, nullptr, stop);
//   for (;;) {
//     LARDER_ASSIGN_OR_RETURN(std::optional<ListReader::Entry> entry, (*reader)->Next(stop));
//     if (!entry) break;   // the list is whole: (*reader)->head()
//   }
//
// Not thread-safe. An entry is valid until the next call.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "client/transport.h"
#include "reflector/list_splitter.h"
#include "reflector/proto_list_splitter.h"
#include "reflector/recorder.h"
#include "reflector/reflector_options.h"
#include "reflector/wire_choice.h"
#include "schema/wire_to_json.h"

namespace larder {

class ListReader {
 public:
  struct ItemText {
    std::string_view json;
    std::optional<WireHead> wire{};  // of what came as protobuf; else this is the server's own text
  };
  // An item's JSON, or what protobuf metadata told of it.
  using Entry = std::variant<ItemText, ItemHead>;

  // `wire`: what protobuf items are; null: metadata of any kind.
  static Result<std::unique_ptr<ListReader>> Open(HttpTransport& transport, const Request& request,
                                                  const ReflectorOptions& options, Clock* clock,
                                                  Recorder& recorder, const WireMessage* wire,
                                                  const std::stop_token& stop);

  // The next entry; nullopt once the list is whole.
  Result<std::optional<Entry>> Next(const std::stop_token& stop);
  const ListHead& head() const { return protobuf_ ? proto_.head() : json_.head(); }
  // May what Next() could not read be read in another form?
  bool UnreadableProtobuf(const Error& error) const {
    return protobuf_ && !proto_.TooLarge() && !too_large_ && WireChoice::Unreadable(error);
  }

 private:
  ListReader(std::unique_ptr<BodyStream> stream, bool protobuf, const ReflectorOptions& options,
             Clock* clock, Recorder& recorder, const WireMessage* wire);
  Result<std::string_view> ReadPiece(const std::stop_token& stop);
  Result<Entry> TakeProtobuf();

  const std::unique_ptr<BodyStream> stream_;
  const bool protobuf_;
  Clock* const clock_;
  const ReflectorOptions& options_;
  Recorder& recorder_;
  const WireMessage* const wire_;
  const TypeMeta wanted_;
  bool type_checked_ = false;
  KnownJson known_{KnownJson::kForList};
  std::string converted_;
  bool too_large_ = false;  // was an item refused for the size that it has as JSON?
  ListSplitter json_;
  ProtoListSplitter proto_;
  uint64_t wire_bytes_ = 0;
  // Since the last progress: time waited for the network, and bytes.
  Clock::Steady::duration waited_{};
  size_t trickled_ = 0;
  size_t since_item_ = 0;  // bytes
};

}  // namespace larder
