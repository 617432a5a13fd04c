#include "storage/splice.h"

#include <array>
#include <chrono>

#include "base/spare_blocks.h"
#include "base/varint.h"
#include "schema/envelope_generated.h"

namespace larder {
namespace {

// Codes on disk: only ever add at the end.
enum Field : uint8_t {
  kName = 1,
  kGenerateName,
  kNamespace,
  kUid,
  kResourceVersion,
  kGeneration,
  kCreationTimestamp,
  kLabels,
  kAnnotations,
  kOwners,        // in the order of Go's typed objects
  kOwnersSorted,  // keys sorted, as custom resources have them
  kFinalizers,
  kDeletionTimestamp,
  kFieldEnd,
};

// Takes what is appended to it for what a text should go on with: nothing is copied to compare it.
class Expected {
 public:
  explicit Expected(std::string_view text) : rest_(text) {}

  Expected& operator+=(char c) {
    same_ = same_ && !rest_.empty() && rest_.front() == c;
    if (same_) rest_.remove_prefix(1);
    last_ = c;
    return *this;
  }
  Expected& operator+=(std::string_view text) {
    same_ = same_ && rest_.starts_with(text);
    if (same_) rest_.remove_prefix(text.size());
    if (!text.empty()) last_ = text.back();
    return *this;
  }
  void append(const char* text, size_t size) { *this += std::string_view(text, size); }
  char back() const { return last_; }

  bool same() const { return same_; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool same_ = true;
  char last_ = '\0';
};

// Takes what is appended to it up to a size. An envelope that was forged can name one long text
// thousands of times.
class Bounded {
 public:
  Bounded(std::string& text, size_t max_bytes) : text_(text), left_(max_bytes) {}

  Bounded& operator+=(char c) {
    if (Takes(1)) text_ += c;
    return *this;
  }
  Bounded& operator+=(std::string_view text) {
    append(text.data(), text.size());
    return *this;
  }
  void append(const char* text, size_t size) {
    if (Takes(size)) text_.append(text, size);
  }
  char back() const { return text_.empty() ? '\0' : text_.back(); }

  bool exactly_full() const { return fits_ && left_ == 0; }

 private:
  bool Takes(size_t bytes) {
    if (bytes > left_) {
      fits_ = false;
      left_ = 0;  // nor does what comes behind it
      return false;
    }
    left_ -= bytes;
    return true;
  }

  std::string& text_;
  size_t left_;
  bool fits_ = true;
};

template <typename Out>
void RenderString(Out& out, const flatbuffers::String* text) {
  out += '"';
  if (text) out.append(text->data(), text->size());
  out += '"';
}

template <typename Out>
void RenderMember(Out& out, std::string_view key, const flatbuffers::String* text) {
  if (out.back() != '{') out += ',';
  out += '"';
  out += key;
  out += "\":";
  RenderString(out, text);
}

template <typename Out>
void RenderTrue(Out& out, std::string_view key, bool flag) {
  if (!flag) return;
  if (out.back() != '{') out += ',';
  out += '"';
  out += key;
  out += "\":true";
}

template <typename Out>
void RenderPairs(Out& out, const flatbuffers::Vector<flatbuffers::Offset<fbs::KeyValue>>* pairs) {
  out += '{';
  if (pairs) {
    for (const fbs::KeyValue* pair : *pairs) {
      if (out.back() != '{') out += ',';
      RenderString(out, pair->key());
      out += ':';
      RenderString(out, pair->value());
    }
  }
  out += '}';
}

template <typename Out>
void RenderOwners(Out& out, const fbs::Envelope& envelope, bool sorted) {
  out += '[';
  if (envelope.owners()) {
    for (const fbs::OwnerReference* owner : *envelope.owners()) {
      if (out.back() != '[') out += ',';
      out += '{';
      RenderMember(out, "apiVersion", owner->api_version());
      if (sorted) {
        RenderTrue(out, "blockOwnerDeletion", owner->block_owner_deletion());
        RenderTrue(out, "controller", owner->controller());
      }
      RenderMember(out, "kind", owner->kind());
      RenderMember(out, "name", owner->name());
      RenderMember(out, "uid", owner->uid());
      if (!sorted) {
        RenderTrue(out, "controller", owner->controller());
        RenderTrue(out, "blockOwnerDeletion", owner->block_owner_deletion());
      }
      out += '}';
    }
  }
  out += ']';
}

template <typename Out>
void RenderFinalizers(Out& out, const fbs::Envelope& envelope) {
  out += '[';
  if (envelope.finalizers()) {
    for (const flatbuffers::String* finalizer : *envelope.finalizers()) {
      if (out.back() != '[') out += ',';
      RenderString(out, finalizer);
    }
  }
  out += ']';
}

template <typename Out>
void RenderTwoDigits(Out& out, unsigned number) {
  out += static_cast<char>('0' + number / 10 % 10);
  out += static_cast<char>('0' + number % 10);
}

template <typename Out>
void RenderTimestamp(Out& out, int64_t seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds)};
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss clock(time - days);
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  out += '"';
  RenderTwoDigits(out, year / 100);
  RenderTwoDigits(out, year % 100);
  out += '-';
  RenderTwoDigits(out, static_cast<unsigned>(date.month()));
  out += '-';
  RenderTwoDigits(out, static_cast<unsigned>(date.day()));
  out += 'T';
  RenderTwoDigits(out, static_cast<unsigned>(clock.hours().count()));
  out += ':';
  RenderTwoDigits(out, static_cast<unsigned>(clock.minutes().count()));
  out += ':';
  RenderTwoDigits(out, static_cast<unsigned>(clock.seconds().count()));
  out += "Z\"";
}

// Appends the value of one field as it is cut. False for a code that is none.
template <typename Out>
bool Render(Out& out, const fbs::Envelope& envelope, uint8_t field) {
  switch (field) {
    case kName:
      RenderString(out, envelope.name());
      return true;
    case kGenerateName:
      RenderString(out, envelope.generate_name());
      return true;
    case kNamespace:
      RenderString(out, envelope.namespace_());
      return true;
    case kUid:
      RenderString(out, envelope.uid());
      return true;
    case kResourceVersion:
      RenderString(out, envelope.resource_version());
      return true;
    case kGeneration:
      out += std::to_string(envelope.generation());
      return true;
    case kCreationTimestamp:
      RenderTimestamp(out, envelope.creation_timestamp());
      return true;
    case kDeletionTimestamp:
      RenderTimestamp(out, envelope.deletion_timestamp());
      return true;
    case kLabels:
      RenderPairs(out, envelope.labels());
      return true;
    case kAnnotations:
      RenderPairs(out, envelope.annotations());
      return true;
    case kOwners:
      RenderOwners(out, envelope, false);
      return true;
    case kOwnersSorted:
      RenderOwners(out, envelope, true);
      return true;
    case kFinalizers:
      RenderFinalizers(out, envelope);
      return true;
    default:
      return false;
  }
}

uint8_t FieldOf(std::string_view key) {
  static constexpr std::pair<std::string_view, Field> kFields[] = {
      {"name", kName},
      {"generateName", kGenerateName},
      {"namespace", kNamespace},
      {"uid", kUid},
      {"resourceVersion", kResourceVersion},
      {"generation", kGeneration},
      {"creationTimestamp", kCreationTimestamp},
      {"deletionTimestamp", kDeletionTimestamp},
      {"labels", kLabels},
      {"annotations", kAnnotations},
      {"ownerReferences", kOwners},
      {"finalizers", kFinalizers},
  };
  for (const auto& [name, field] : kFields) {
    if (name == key) return field;
  }
  return 0;
}

// Walks compact JSON text just far enough to find the members of an object. Anything it does not
// expect ends the walk, which only means that less is cut.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  void MoveTo(size_t at) { at_ = at; }
  bool Take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // `"key":` without escapes.
  bool TakeKey(std::string_view& key) {
    if (!Take('"')) return false;
    const size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) return false;
    key = text_.substr(at_, end - at_);
    if (key.find('\\') != std::string_view::npos) return false;
    at_ = end + 1;
    return Take(':');
  }
  bool SkipValue() {
    size_t depth = 0;
    bool in_string = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (in_string) {
        if (c == '\\') {
          ++at_;
        } else if (c == '"') {
          in_string = false;
        }
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return true;
        --depth;
      } else if (c == ',' && depth == 0) {
        return true;
      }
    }
    return false;
  }
  // Moves to the first member of the top-level "metadata"; only kind and apiVersion may stand
  // before it.
  bool EnterMetadata() {
    if (!Take('{')) return false;
    std::string_view key;
    while (TakeKey(key)) {
      if (key == "metadata") return Take('{');
      if (key != "kind" && key != "apiVersion") return false;
      if (!SkipValue() || !Take(',')) return false;
    }
    return false;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

// The fields that the envelope has something of: once all of them are cut, the rest of the metadata
// (managedFields, usually larger than everything before it) need not be walked.
uint32_t FieldsOf(const fbs::Envelope& envelope) {
  uint32_t fields = 1U << kName;
  const auto add = [&](bool present, Field field) { fields |= present ? 1U << field : 0U; };
  add(envelope.generate_name() != nullptr, kGenerateName);
  add(envelope.namespace_() != nullptr, kNamespace);
  add(envelope.uid() != nullptr, kUid);
  add(envelope.resource_version() != nullptr, kResourceVersion);
  add(envelope.generation() != 0, kGeneration);
  add(envelope.creation_timestamp() != 0, kCreationTimestamp);
  add(envelope.deletion_timestamp() != 0, kDeletionTimestamp);
  add(envelope.labels() != nullptr, kLabels);
  add(envelope.annotations() != nullptr, kAnnotations);
  add(envelope.owners() != nullptr, kOwners);
  add(envelope.finalizers() != nullptr, kFinalizers);
  return fields;
}

struct Cut {
  uint8_t field = 0;
  size_t begin = 0;
  size_t end = 0;
};
using Cuts = std::array<Cut, kFieldEnd>;

// How the value at `at` can be cut as `field`, and where it ends: 0 where it cannot.
uint8_t CutAs(std::string_view json, size_t at, uint8_t field, const fbs::Envelope& envelope,
              size_t& end) {
  for (const uint8_t form : {field, static_cast<uint8_t>(field == kOwners ? kOwnersSorted : 0)}) {
    if (form == 0) continue;
    Expected value(json.substr(at));
    Render(value, envelope, form);
    end = json.size() - value.rest().size();
    if (value.same()) return form;
  }
  return 0;
}

// Finds what can be cut, in the order of the text; returns how many.
size_t FindCuts(const Object& object, Cuts& cuts) {
  const std::string_view json = object.json();
  uint32_t wanted = FieldsOf(object.envelope());
  uint32_t seen = 0;
  size_t count = 0;
  Walker walker(json);
  if (!walker.EnterMetadata()) return 0;
  std::string_view key;
  while (wanted != 0 && walker.TakeKey(key)) {
    const uint8_t field = FieldOf(key);
    const uint32_t bit = field == 0 ? 0 : 1U << field;
    const size_t begin = walker.at();
    const bool repeated = (seen & bit) != 0;
    size_t end = 0;
    const uint8_t form =
        field == 0 || repeated ? 0 : CutAs(json, begin, field, object.envelope(), end);
    seen |= bit;
    wanted &= ~bit;
    if (form != 0) {
      cuts[count++] = {form, begin, end};
      walker.MoveTo(end);
    } else if (!walker.SkipValue()) {
      break;
    }
    if (!walker.Take(',')) break;
  }
  return count;
}

}  // namespace

std::optional<std::pair<std::string_view, std::string_view>> AroundVersion(const Object& object) {
  Cuts cuts;
  const size_t count = FindCuts(object, cuts);
  for (size_t i = 0; i < count; ++i) {
    if (cuts[i].field != kResourceVersion) continue;
    return std::pair(object.json().substr(0, cuts[i].begin), object.json().substr(cuts[i].end));
  }
  return std::nullopt;
}

void CutMetadata(const Object& object, std::string& out) {
  const std::string_view json = object.json();
  Cuts cuts;
  const size_t count = FindCuts(object, cuts);
  out.reserve(out.size() + json.size() + 5 * count + 8);
  PutVarint(out, count);
  size_t copied = 0;
  for (size_t i = 0; i < count; ++i) {
    out += static_cast<char>(cuts[i].field);
    PutVarint(out, cuts[i].begin - copied);
    copied = cuts[i].end;
  }
  copied = 0;
  for (size_t i = 0; i < count; ++i) {
    out.append(json.substr(copied, cuts[i].begin - copied));
    copied = cuts[i].end;
  }
  out.append(json.substr(copied));
}

Result<std::string> RestoreMetadata(std::string_view residual, std::string_view envelope_bytes,
                                    size_t json_bytes) {
  const auto damaged = [] {
    return MakeError(ErrorCode::kCorruption, "the list of cut metadata fields is damaged");
  };
  const fbs::Envelope& envelope = *fbs::GetEnvelope(envelope_bytes.data());
  uint64_t count = 0;
  if (!TakeVarint(residual, count) || count >= kFieldEnd) return damaged();
  struct Gap {
    uint8_t field;
    uint64_t bytes;
  };
  std::array<Gap, kFieldEnd> gaps;
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view code;
    if (!TakeBytes(residual, 1, code) || !TakeVarint(residual, gaps[i].bytes)) return damaged();
    gaps[i].field = static_cast<uint8_t>(code[0]);
  }
  std::string json = TakeBlock(Object::BytesOf(json_bytes, envelope_bytes.size()));
  Bounded out(json, json_bytes);
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view gap;
    if (!TakeBytes(residual, gaps[i].bytes, gap)) return damaged();
    out += gap;
    if (!Render(out, envelope, gaps[i].field)) return damaged();
  }
  out += residual;
  if (!out.exactly_full()) return damaged();
  return json;
}

}  // namespace larder
