// Writes an envelope (envelope.fbs): what informers touch all the time of an object.
//
// Whoever reads an object, from JSON (object.cc) or from protobuf (wire_envelope.cc), puts in what
// it meets, in the order of the JSON: the same object gives the same bytes, whichever way it came.
//
//   EnvelopeWriter envelope;
//   LARDER_RETURN_IF_ERROR(envelope.SetName("web-0"));
//   envelope.uid = envelope.Text("c458dea9-d195-4b0f-a2f7-0fba5a30035d");
//   Result<std::string> bytes = envelope.Finish();   // or why the object is refused
//
// Not thread-safe, and one at a time in a thread: they share the thread's buffer.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "schema/envelope_generated.h"

namespace larder {

class EnvelopeWriter {
 public:
  using TextOffset = flatbuffers::Offset<flatbuffers::String>;
  using Pairs = std::vector<flatbuffers::Offset<fbs::KeyValue>>;

 private:
  // What the thread keeps from one object to the next. Before all that refers to it.
  struct Kept {
    flatbuffers::FlatBufferBuilder builder{2048};
    Pairs labels, annotations;
    std::vector<flatbuffers::Offset<fbs::OwnerReference>> owners;
    std::vector<TextOffset> finalizers;
  };
  static Kept& OfThread() {
    thread_local Kept kept;
    return kept;
  }
  Kept& kept_ = OfThread();

 public:
  EnvelopeWriter() { builder_.Clear(); }
  ~EnvelopeWriter() {
    // One huge object must not pin its memory.
    if (builder_.GetSize() > kKeptBytes) {
      kept_ = Kept();
      return;
    }
    labels.clear();
    annotations.clear();
    owners_.clear();
    finalizers_.clear();
  }
  EnvelopeWriter(const EnvelopeWriter&) = delete;
  EnvelopeWriter& operator=(const EnvelopeWriter&) = delete;

  static tl::unexpected<Error> Refuse(std::string_view field, std::string_view what) {
    return MakeError(ErrorCode::kProtocol, "object refused: {} {}", field, what);
  }

  TextOffset Text(std::string_view text) { return builder_.CreateString(text.data(), text.size()); }

  Result<void> SetName(std::string_view text) {
    if (text.empty()) return Refuse("metadata.name", "is empty");
    return SetKeyPart("metadata.name", text, name_);
  }
  Result<void> SetNamespace(std::string_view text) {
    return SetKeyPart("metadata.namespace", text, namespace_);
  }
  void Add(Pairs& pairs, std::string_view key, std::string_view value) {
    const TextOffset first = Text(key);
    pairs.push_back(fbs::CreateKeyValue(builder_, first, Text(value)));
  }
  void AddOwner(TextOffset owner_version, TextOffset owner_kind, TextOffset name,
                TextOffset owner_uid, bool controller, bool block) {
    owners_.push_back(fbs::CreateOwnerReference(builder_, owner_version, owner_kind, name,
                                                owner_uid, controller, block));
  }
  void AddFinalizer(std::string_view text) { finalizers_.push_back(Text(text)); }

  // Fails where there was no name.
  Result<std::string> Finish() {
    std::string out;
    LARDER_RETURN_IF_ERROR(Finish(out));
    return out;
  }
  Result<void> Finish(std::string& out) {
    if (!name_.o) return Refuse("metadata.name", "is missing");
    const auto label_list = labels.empty() ? 0 : builder_.CreateVector(labels);
    const auto annotation_list = annotations.empty() ? 0 : builder_.CreateVector(annotations);
    const auto owner_list = owners_.empty() ? 0 : builder_.CreateVector(owners_);
    const auto finalizer_list = finalizers_.empty() ? 0 : builder_.CreateVector(finalizers_);
    fbs::FinishEnvelopeBuffer(
        builder_, fbs::CreateEnvelope(builder_, api_version, kind, namespace_, name_, generate_name,
                                      uid, resource_version, generation, created, deleted,
                                      label_list, annotation_list, owner_list, finalizer_list));
    out.assign(reinterpret_cast<const char*>(builder_.GetBufferPointer()), builder_.GetSize());
    return {};
  }

  TextOffset kind, api_version, generate_name, uid, resource_version;
  int64_t generation = 0, created = 0, deleted = 0;
  Pairs& labels = kept_.labels;
  Pairs& annotations = kept_.annotations;

 private:
  // Names are part of our keys, whose separators are '/' and control characters.
  Result<void> SetKeyPart(std::string_view field, std::string_view text, TextOffset& part) {
    const bool usable = std::none_of(text.begin(), text.end(), [](char c) {
      return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    if (!usable) return Refuse(field, "has a slash or a control character");
    part = Text(text);
    return {};
  }

  static constexpr size_t kKeptBytes = size_t{64} << 10;

  flatbuffers::FlatBufferBuilder& builder_ = kept_.builder;
  std::vector<flatbuffers::Offset<fbs::OwnerReference>>& owners_ = kept_.owners;
  std::vector<TextOffset>& finalizers_ = kept_.finalizers;
  TextOffset namespace_, name_;
};

}  // namespace larder
