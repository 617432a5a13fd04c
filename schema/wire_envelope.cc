#include "schema/wire_envelope.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "schema/envelope_writer.h"
#include "schema/wire_format.h"

namespace larder {
namespace {

// Field numbers of ObjectMeta and OwnerReference, from Kubernetes' generated.proto.
enum Meta : uint32_t {
  kName = 1,
  kGenerateName = 2,
  kNamespace = 3,
  kUid = 5,
  kResourceVersion = 6,
  kGeneration = 7,
  kCreationTimestamp = 8,
  kDeletionTimestamp = 9,
  kLabels = 11,
  kAnnotations = 12,
  kOwnerReferences = 13,
  kFinalizers = 14,
};
enum Owner : uint32_t {
  kOwnerKind = 1,
  kOwnerName = 3,
  kOwnerUid = 4,
  kOwnerApiVersion = 5,
  kOwnerController = 6,
  kOwnerBlocks = 7,
};

using Pair = std::pair<std::string_view, std::string_view>;

// The metadata's fields, found first and written then: a message may have them in any order. For
// one object after the other.
class Reader {
 public:
  void Read(std::string_view metadata) {
    texts_.fill({});
    generation_ = created_ = deleted_ = 0;
    labels_.clear();
    annotations_.clear();
    owners_.clear();
    finalizers_.clear();
    same_as_json_ = true;
    WireFields fields(metadata);
    while (fields.Next()) Collect(fields);
    Sort(labels_);
    Sort(annotations_);
  }

  // As they stand in the JSON, from which empty ones are missing.
  Result<void> Write(EnvelopeWriter& envelope) const {
    const auto text = [&](Meta field) {
      return texts_[field].empty() ? EnvelopeWriter::TextOffset() : envelope.Text(texts_[field]);
    };
    if (!texts_[kName].empty()) LARDER_RETURN_IF_ERROR(envelope.SetName(texts_[kName]));
    envelope.generate_name = text(kGenerateName);
    if (!texts_[kNamespace].empty()) {
      LARDER_RETURN_IF_ERROR(envelope.SetNamespace(texts_[kNamespace]));
    }
    envelope.uid = text(kUid);
    envelope.resource_version = text(kResourceVersion);
    envelope.generation = generation_;
    envelope.created = created_;
    envelope.deleted = deleted_;
    for (const auto& [key, value] : labels_) envelope.Add(envelope.labels, key, value);
    for (const auto& [key, value] : annotations_) envelope.Add(envelope.annotations, key, value);
    for (const OwnerTexts& owner : owners_) {
      const auto api_version = envelope.Text(owner.texts[kOwnerApiVersion]);
      const auto kind = envelope.Text(owner.texts[kOwnerKind]);
      const auto name = envelope.Text(owner.texts[kOwnerName]);
      const auto uid = envelope.Text(owner.texts[kOwnerUid]);
      envelope.AddOwner(api_version, kind, name, uid, owner.controller, owner.blocks);
    }
    for (const std::string_view finalizer : finalizers_) envelope.AddFinalizer(finalizer);
    return {};
  }

  // Is every text in the JSON as it is here?
  bool same_as_json() const { return same_as_json_; }

 private:
  struct OwnerTexts {
    std::array<std::string_view, kOwnerApiVersion + 1> texts;
    bool controller = false;
    bool blocks = false;
  };

  // A server sends them sorted, and sorting takes memory even then.
  static void Sort(std::vector<Pair>& pairs) {
    const auto by_key = [](const Pair& a, const Pair& b) { return a.first < b.first; };
    if (std::is_sorted(pairs.begin(), pairs.end(), by_key)) return;
    std::stable_sort(pairs.begin(), pairs.end(), by_key);
  }

  void Collect(const WireFields& field) {
    switch (field.number()) {
      case kName:
      case kGenerateName:
      case kNamespace:
      case kUid:
      case kResourceVersion:
        texts_[field.number()] = Checked(field.bytes());
        break;
      case kGeneration:
        generation_ = static_cast<int64_t>(field.value());
        break;
      case kCreationTimestamp:
        created_ = Seconds(field.bytes());
        break;
      case kDeletionTimestamp:
        deleted_ = Seconds(field.bytes());
        break;
      case kLabels:
        labels_.push_back(Entry(field.bytes()));
        break;
      case kAnnotations:
        annotations_.push_back(Entry(field.bytes()));
        break;
      case kOwnerReferences:
        owners_.push_back(OwnerOf(field.bytes()));
        break;
      case kFinalizers:
        finalizers_.push_back(Checked(field.bytes()));
        break;
      default:
        break;
    }
  }

  Pair Entry(std::string_view message) {
    std::array<std::string_view, 3> texts;
    WireFields fields(message);
    while (fields.Next()) {
      if (fields.number() < texts.size()) texts[fields.number()] = Checked(fields.bytes());
    }
    return {texts[1], texts[2]};
  }

  OwnerTexts OwnerOf(std::string_view message) {
    OwnerTexts owner;
    WireFields fields(message);
    while (fields.Next()) {
      const uint32_t number = fields.number();
      if (number < owner.texts.size()) owner.texts[number] = Checked(fields.bytes());
      if (number == kOwnerController) owner.controller = fields.value() != 0;
      if (number == kOwnerBlocks) owner.blocks = fields.value() != 0;
    }
    return owner;
  }

  static int64_t Seconds(std::string_view time) {
    WireFields fields(time);
    int64_t seconds = 0;
    while (fields.Next()) {
      if (fields.number() == 1) seconds = static_cast<int64_t>(fields.value());
    }
    return seconds;
  }

  // What is not UTF-8 becomes something else in JSON.
  std::string_view Checked(std::string_view text) {
    if (!IsAscii(text) && !simdjson::validate_utf8(text)) same_as_json_ = false;
    return text;
  }

  static bool IsAscii(std::string_view text) {
    // All bytes together, eight at a time.
    uint64_t bits = 0;
    size_t at = 0;
    for (; at + sizeof(bits) <= text.size(); at += sizeof(bits)) {
      uint64_t word;
      std::memcpy(&word, text.data() + at, sizeof(word));
      bits |= word;
    }
    for (; at < text.size(); ++at) bits |= static_cast<uint8_t>(text[at]);
    return (bits & 0x8080808080808080) == 0;
  }

  std::array<std::string_view, kResourceVersion + 1> texts_;
  int64_t generation_ = 0, created_ = 0, deleted_ = 0;
  std::vector<Pair> labels_, annotations_;
  std::vector<OwnerTexts> owners_;
  std::vector<std::string_view> finalizers_;
  bool same_as_json_ = true;
};

}  // namespace

Result<bool> EnvelopeFromWire(const TypeMeta& type, std::string_view metadata, std::string& out) {
  constexpr size_t kUsualBytes = size_t{64} << 10;
  thread_local Reader kept;
  Reader huge;  // one such object must not pin its memory
  Reader& reader = metadata.size() > kUsualBytes ? huge : kept;
  reader.Read(metadata);
  if (!reader.same_as_json()) return false;
  EnvelopeWriter envelope;
  envelope.kind = envelope.Text(type.kind);
  envelope.api_version = envelope.Text(type.api_version);
  LARDER_RETURN_IF_ERROR(reader.Write(envelope));
  LARDER_RETURN_IF_ERROR(envelope.Finish(out));
  return true;
}

}  // namespace larder
