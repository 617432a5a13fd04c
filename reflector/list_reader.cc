#include "reflector/list_reader.h"

#include <utility>

#include "reflector/answer.h"
#include "schema/wire_to_json.h"

namespace larder {
namespace {

// So much counts as progress even when no item is complete: large items on slow lines are not a
// stall.
constexpr size_t kProgressBytes = size_t{16} << 10;

}  // namespace

Result<std::unique_ptr<ListReader>> ListReader::Open(HttpTransport& transport,
                                                     const Request& request,
                                                     const ReflectorOptions& options, Clock* clock,
                                                     Recorder& recorder, const WireMessage* wire,
                                                     const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(std::unique_ptr<BodyStream> stream, transport.Open(request, stop));
  LARDER_ASSIGN_OR_RETURN(const BodyForm form, CheckAnswer(stream->status(), stream->headers()));
  return std::unique_ptr<ListReader>(new ListReader(std::move(stream), form == BodyForm::kProtobuf,
                                                    options, clock, recorder, wire));
}

ListReader::ListReader(std::unique_ptr<BodyStream> stream, bool protobuf,
                       const ReflectorOptions& options, Clock* clock, Recorder& recorder,
                       const WireMessage* wire)
    : stream_(std::move(stream)),
      protobuf_(protobuf),
      clock_(clock),
      options_(options),
      recorder_(recorder),
      wire_(wire),
      wanted_{options.resource.ApiVersion(), options.resource.kind},
      json_(options.max_event_bytes, options.max_json_depth),
      proto_(options.max_event_bytes) {}

Result<std::string_view> ListReader::ReadPiece(const std::stop_token& stop) {
  const Clock::Steady before = clock_->Now();
  const Clock::Steady::duration patience = options_.list_stall_timeout;
  Result<std::string_view> piece = stream_->Read(stop, before + (patience - waited_));
  waited_ += clock_->Now() - before;
  if (!piece) return piece;
  trickled_ += piece->size();
  if (trickled_ >= kProgressBytes) {
    waited_ = {};
    trickled_ = 0;
  } else if (!piece->empty() && waited_ >= patience) {
    return MakeError(ErrorCode::kTimeout, "the list has stalled: {} bytes in {} s", trickled_,
                     std::chrono::duration_cast<std::chrono::seconds>(waited_).count());
  }
  const uint64_t wire = stream_->wire_bytes();
  recorder_.Bytes(wire - std::exchange(wire_bytes_, wire), piece->size());
  return piece;
}

Result<std::optional<ListReader::Entry>> ListReader::Next(const std::stop_token& stop) {
  for (;;) {
    LARDER_ASSIGN_OR_RETURN(const ListSplitter::Step step,
                            protobuf_ ? proto_.Next() : json_.Next());
    if (step == ListSplitter::Step::kItem) {
      waited_ = {};
      since_item_ = 0;
      if (protobuf_) return TakeProtobuf();
      return Entry(ItemText{json_.item()});
    }
    LARDER_ASSIGN_OR_RETURN(const std::string_view piece, ReadPiece(stop));
    if (piece.empty()) {
      LARDER_RETURN_IF_ERROR(protobuf_ ? proto_.Finish() : json_.Finish());
      return std::nullopt;
    }
    if (since_item_ / 2 > options_.max_event_bytes) {
      return MakeError(ErrorCode::kProtocol, "the list has no item in {} bytes", since_item_);
    }
    since_item_ += piece.size();
    if (protobuf_) {
      proto_.Feed(piece);
    } else {
      json_.Feed(piece);
    }
  }
}

Result<ListReader::Entry> ListReader::TakeProtobuf() {
  if (wire_ == nullptr) {
    LARDER_ASSIGN_OR_RETURN(const ItemHead head, ParseItemHead(proto_.item()));
    return Entry(head);
  }
  // Once: a list's type stands in front of its items.
  if (!std::exchange(type_checked_, true)) {
    LARDER_RETURN_IF_ERROR(proto_.head().CheckItems(wanted_));
  }
  LARDER_ASSIGN_OR_RETURN(const WireHead head,
                          WireToJson(*wire_, wanted_, proto_.item(), WireChoice::Limits(options_),
                                     known_, converted_, &too_large_));
  return Entry(ItemText{converted_, head});
}

}  // namespace larder
