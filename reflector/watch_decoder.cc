#include "reflector/watch_decoder.h"

#include "reflector/frame_splitter.h"
#include "reflector/line_splitter.h"
#include "reflector/wire_choice.h"

namespace larder {
namespace {

class JsonDecoder final : public WatchDecoder {
 public:
  explicit JsonDecoder(const ReflectorOptions& options)
      : lines_(options.max_event_bytes), parser_(options.max_json_depth) {}

  void Feed(std::string_view piece) override { lines_.Feed(piece); }
  Result<std::optional<WatchEvent>> Next() override {
    LARDER_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, lines_.Next());
    if (!line) return std::nullopt;
    return parser_.Parse(*line);
  }
  bool InEvent() const override { return lines_.InLine(); }
  bool TooLarge() const override { return false; }  // there is no other form to ask for

 private:
  LineSplitter lines_;
  WatchLineParser parser_;
};

class ProtobufDecoder final : public WatchDecoder {
 public:
  ProtobufDecoder(const ReflectorOptions& options, const WireMessage& wire)
      : frames_(options.max_event_bytes),
        parser_(wire, {options.resource.ApiVersion(), options.resource.kind},
                WireChoice::Limits(options)) {}

  void Feed(std::string_view piece) override { frames_.Feed(piece); }
  Result<std::optional<WatchEvent>> Next() override {
    LARDER_ASSIGN_OR_RETURN(const std::optional<std::string_view> frame, frames_.Next());
    if (!frame) return std::nullopt;
    return parser_.Parse(*frame);
  }
  bool InEvent() const override { return frames_.InFrame(); }
  bool TooLarge() const override { return frames_.TooLarge() || parser_.TooLarge(); }

 private:
  FrameSplitter frames_;
  WatchFrameParser parser_;
};

}  // namespace

std::unique_ptr<WatchDecoder> MakeJsonDecoder(const ReflectorOptions& options) {
  return std::make_unique<JsonDecoder>(options);
}

std::unique_ptr<WatchDecoder> MakeProtobufDecoder(const ReflectorOptions& options,
                                                  const WireMessage& wire) {
  return std::make_unique<ProtobufDecoder>(options, wire);
}

}  // namespace larder
