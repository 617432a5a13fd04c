#include "storage/value_codec.h"

#include <flatbuffers/flatbuffers.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/varint.h"
#include "schema/envelope_generated.h"
#include "storage/splice.h"

namespace larder {
namespace {

constexpr char kValueMagic = 'L';
constexpr char kVersion = 1;
constexpr size_t kValueChecksumBytes = 4;
constexpr size_t kUuidBytes = 16;
constexpr size_t kMaxRawBytes = size_t{64} << 20;

enum Flag : uint8_t {
  kCompressed = 1 << 0,
  kEncrypted = 1 << 1,
  kUuid = 1 << 2,           // the uid is 16 bytes instead of text
  kNumericVersion = 1 << 3  // the resourceVersion is a varint instead of text
};

tl::unexpected<Error> Damaged(std::string_view row_key, std::string_view what) {
  return MakeError(ErrorCode::kCorruption, "row {}: {}", row_key, what);
}

uint32_t Checksum(std::string_view row_key, std::string_view bytes) {
  const uint64_t seed = XXH3_64bits(row_key.data(), row_key.size());
  return static_cast<uint32_t>(XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed));
}

// "c458dea9-d195-4b0f-a2f7-0fba5a30035d" in lower case to 16 bytes; false for anything else.
bool PackUuid(std::string_view text, char* out) {
  if (text.size() != 36) return false;
  size_t byte = 0;
  for (size_t i = 0; i < text.size();) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (text[i++] != '-') return false;
      continue;
    }
    int value = 0;
    for (size_t end = i + 2; i < end; ++i) {
      const char c = text[i];
      if (c >= '0' && c <= '9') {
        value = value * 16 + (c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value * 16 + (c - 'a' + 10);
      } else {
        return false;
      }
    }
    out[byte++] = static_cast<char>(value);
  }
  return true;
}

std::string UnpackUuid(std::string_view bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(36);
  for (size_t i = 0; i < kUuidBytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += kHex[static_cast<unsigned char>(bytes[i]) >> 4];
    out += kHex[static_cast<unsigned char>(bytes[i]) & 15];
  }
  return out;
}

// A decimal that a varint reproduces exactly.
bool PackVersion(std::string_view text, uint64_t& number) {
  if (text.empty() || text.size() > 18 || (text[0] == '0' && text.size() > 1)) return false;
  number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

// Where uid and resourceVersion stand in an envelope. Taken before anything is written there: the
// FlatBuffers Verifier allows a text to be something else's offsets, too.
struct IdentityPlaces {
  char* uid = nullptr;
  char* resource_version = nullptr;
  size_t uid_bytes = 0, resource_version_bytes = 0;

  friend bool operator==(const IdentityPlaces&, const IdentityPlaces&) = default;
};

IdentityPlaces PlacesIn(std::string& envelope) {
  const fbs::Envelope* root = fbs::GetEnvelope(envelope.data());
  IdentityPlaces places;
  const auto find = [&](const flatbuffers::String* field, char*& text, size_t& bytes) {
    if (field == nullptr) return;
    text = envelope.data() + (reinterpret_cast<const char*>(field->Data()) - envelope.data());
    bytes = field->size();
  };
  find(root->uid(), places.uid, places.uid_bytes);
  find(root->resource_version(), places.resource_version, places.resource_version_bytes);
  return places;
}

bool SetIdentity(const IdentityPlaces& places, std::string_view uid,
                 std::string_view resource_version) {
  if (places.uid_bytes != uid.size() || places.resource_version_bytes != resource_version.size()) {
    return false;
  }
  if (!uid.empty()) std::memcpy(places.uid, uid.data(), uid.size());
  if (!resource_version.empty()) {
    std::memcpy(places.resource_version, resource_version.data(), resource_version.size());
  }
  return true;
}

// Blanks what stands in the head of a row.
void ClearIdentity(std::string& envelope) {
  const IdentityPlaces places = PlacesIn(envelope);
  std::fill_n(places.uid, places.uid_bytes, '0');
  std::fill_n(places.resource_version, places.resource_version_bytes, '0');
}

bool IsBlank(const IdentityPlaces& places) {
  const auto zero = [](char c) { return c == '0'; };
  return std::all_of(places.uid, places.uid + places.uid_bytes, zero) &&
         std::all_of(places.resource_version,
                     places.resource_version + places.resource_version_bytes, zero);
}

struct Layout {
  ValueHead head;
  uint64_t json_bytes = 0, envelope_bytes = 0, body_bytes = 0;
  std::string_view payload;  // compressed, sealed, or both
};

Result<Layout> ReadLayout(std::string_view row_key, std::string_view value) {
  if (value.size() < 3 + kValueChecksumBytes || value[0] != kValueMagic)
    return Damaged(row_key, "is not an object's row");
  if (value[1] != kVersion) return Damaged(row_key, "has an unknown version of the row format");
  uint32_t checksum = 0;
  std::memcpy(&checksum, value.data() + value.size() - kValueChecksumBytes, kValueChecksumBytes);
  std::string_view rest = value.substr(0, value.size() - kValueChecksumBytes);
  if (checksum != Checksum(row_key, rest)) return Damaged(row_key, "checksum mismatch");
  const auto flags = static_cast<uint8_t>(value[2]);
  rest.remove_prefix(3);

  Layout layout;
  layout.head.compressed = (flags & kCompressed) != 0;
  layout.head.encrypted = (flags & kEncrypted) != 0;
  uint64_t number = 0;
  std::string_view bytes;
  if (!TakeVarint(rest, number)) return Damaged(row_key, "is cut off");
  layout.head.dictionary = static_cast<DictionaryId>(number);
  if ((flags & kUuid) != 0) {
    if (!TakeBytes(rest, kUuidBytes, bytes)) return Damaged(row_key, "is cut off");
    layout.head.head.uid = UnpackUuid(bytes);
  } else {
    if (!TakeVarint(rest, number) || !TakeBytes(rest, number, bytes))
      return Damaged(row_key, "is cut off");
    layout.head.head.uid = bytes;
  }
  if (!TakeVarint(rest, number)) return Damaged(row_key, "is cut off");
  if ((flags & kNumericVersion) != 0) {
    layout.head.head.resource_version = std::to_string(number);
  } else {
    if (!TakeBytes(rest, number, bytes)) return Damaged(row_key, "is cut off");
    layout.head.head.resource_version = bytes;
  }
  if (!TakeVarint(rest, layout.json_bytes) || !TakeVarint(rest, layout.envelope_bytes) ||
      !TakeVarint(rest, layout.body_bytes) || layout.envelope_bytes > kMaxRawBytes ||
      layout.body_bytes > kMaxRawBytes || layout.json_bytes > kMaxRawBytes) {
    return Damaged(row_key, "has wrong lengths");
  }
  layout.head.json_bytes = layout.json_bytes;
  layout.payload = rest;
  return layout;
}

void PutHead(std::string& out, const ObjectHead& head, uint8_t& flags) {
  char uuid[kUuidBytes];
  if (PackUuid(head.uid, uuid)) {
    flags |= kUuid;
    out.append(uuid, kUuidBytes);
  } else {
    PutVarint(out, head.uid.size());
    out += head.uid;
  }
  uint64_t version = 0;
  if (PackVersion(head.resource_version, version)) {
    flags |= kNumericVersion;
    PutVarint(out, version);
  } else {
    PutVarint(out, head.resource_version.size());
    out += head.resource_version;
  }
}

std::string WriteLayout(std::string_view row_key, const Layout& layout) {
  uint8_t flags = 0;
  if (layout.head.compressed) flags |= kCompressed;
  if (layout.head.encrypted) flags |= kEncrypted;
  std::string out;
  out.reserve(layout.payload.size() + 96);
  out += kValueMagic;
  out += kVersion;
  out += '\0';  // flags, known below
  PutVarint(out, layout.head.dictionary);
  PutHead(out, layout.head.head, flags);
  PutVarint(out, layout.json_bytes);
  PutVarint(out, layout.envelope_bytes);
  PutVarint(out, layout.body_bytes);
  out += layout.payload;
  out[2] = static_cast<char>(flags);
  const uint32_t checksum = Checksum(row_key, out);
  out.append(reinterpret_cast<const char*>(&checksum), kValueChecksumBytes);
  return out;
}

}  // namespace

void TakeApart(const Object& object, ObjectParts& parts) {
  parts.head.uid = object.uid();
  parts.head.resource_version = object.resource_version();
  parts.raw = object.envelope_bytes();
  parts.envelope_bytes = parts.raw.size();
  ClearIdentity(parts.raw);
  CutMetadata(object, parts.raw);
  parts.json_bytes = object.json().size();
}

Result<EncodedValue> EncodeValue(std::string_view row_key, const ObjectParts& parts,
                                 const EncodeOptions& options) {
  if (std::max(parts.raw.size(), parts.json_bytes) > kMaxRawBytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "object {} has {} bytes; at most {} can be stored", row_key, parts.json_bytes,
                     kMaxRawBytes);
  }
  const Dictionary* dictionary = options.compress ? options.dictionary.get() : nullptr;
  std::string_view payload = parts.raw;
  std::optional<Compressor> compressor;  // holds the payload
  if (options.compress) {
    LARDER_ASSIGN_OR_RETURN(payload,
                            compressor.emplace().Compress(parts.raw, dictionary, options.level));
  }
  Layout layout;
  layout.head.head = parts.head;
  layout.head.dictionary = dictionary ? dictionary->id() : 0;
  layout.head.compressed = options.compress;
  layout.json_bytes = parts.json_bytes;
  layout.envelope_bytes = parts.envelope_bytes;
  layout.body_bytes = parts.raw.size() - parts.envelope_bytes;
  EncodedValue encoded;
  encoded.payload_bytes = payload.size();
  std::string sealed;
  if (options.cipher) {
    layout.head.encrypted = true;
    LARDER_ASSIGN_OR_RETURN(sealed, options.cipher->Seal(payload, row_key));
    payload = sealed;
  }
  layout.payload = payload;
  encoded.value = WriteLayout(row_key, layout);
  return encoded;
}

bool DifferOnlyInVersion(const Object& a, const Object& b) {
  if (a.json().size() != b.json().size() || a.uid() != b.uid()) return false;
  std::string envelope(a.envelope_bytes());
  if (!SetIdentity(PlacesIn(envelope), b.uid(), b.resource_version()) ||
      envelope != b.envelope_bytes()) {
    return false;
  }
  // The rest of what is compressed is the document less its cuts, and says where those are.
  const auto around_a = AroundVersion(a);
  return around_a && around_a == AroundVersion(b);
}

Result<std::string> ReplaceHead(std::string_view row_key, std::string_view value,
                                const ObjectHead& head) {
  LARDER_ASSIGN_OR_RETURN(Layout layout, ReadLayout(row_key, value));
  layout.head.head = head;
  return WriteLayout(row_key, layout);
}

DictionaryId DictionaryOf(std::string_view value) {
  uint64_t id = 0;
  if (value.size() < 3) return 0;
  value.remove_prefix(3);
  return TakeVarint(value, id) ? static_cast<DictionaryId>(id) : 0;
}

Result<ValueHead> DecodeHead(std::string_view row_key, std::string_view value,
                             const Cipher* cipher) {
  LARDER_ASSIGN_OR_RETURN(Layout layout, ReadLayout(row_key, value));
  if (layout.head.encrypted && cipher) layout.head.current_key = cipher->IsCurrent(layout.payload);
  return std::move(layout.head);
}

namespace {

// The payload in the clear; `opened` holds it where it was sealed.
Result<void> OpenPayload(std::string_view row_key, Layout& layout, const Cipher* cipher,
                         std::string& opened) {
  if (!layout.head.encrypted) return {};
  if (!cipher) {
    return MakeError(ErrorCode::kForbidden, "row {} is encrypted; give the key it was written with",
                     row_key);
  }
  auto plain = cipher->Open(layout.payload, row_key);
  if (!plain) return MakeError(plain.error().code, "row {}: {}", row_key, plain.error().message);
  opened = *std::move(plain);
  layout.payload = opened;
  return {};
}

flatbuffers::Verifier VerifierOf(std::string_view envelope) {
  flatbuffers::Verifier::Options options;
  // A table takes four bytes, and what points to it four more.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(envelope.size() / 8 + 1);
  return flatbuffers::Verifier(reinterpret_cast<const uint8_t*>(envelope.data()), envelope.size(),
                               options);
}

// As much of the Verifier as PlacesIn needs.
bool HasReadableIdentity(std::string_view envelope) {
  flatbuffers::Verifier verifier = VerifierOf(envelope);
  const flatbuffers::uoffset_t at = verifier.VerifyOffset(size_t{0});
  if (at == 0) return false;
  const auto* table = reinterpret_cast<const flatbuffers::Table*>(envelope.data() + at);
  const auto readable = [&](flatbuffers::voffset_t field) {
    return table->VerifyOffset(verifier, field) &&
           verifier.VerifyString(table->GetPointer<const flatbuffers::String*>(field));
  };
  return table->VerifyTableStart(verifier) && readable(fbs::Envelope::VT_UID) &&
         readable(fbs::Envelope::VT_RESOURCE_VERSION);
}

// Does each owner have texts of its own? Object::Owners copies them.
bool OwnersFit(std::string_view envelope) {
  const auto* const owners = fbs::GetEnvelope(envelope.data())->owners();
  if (owners == nullptr) return true;
  size_t bytes = 0;
  for (const fbs::OwnerReference* owner : *owners) {
    for (const flatbuffers::String* text :
         {owner->api_version(), owner->kind(), owner->name(), owner->uid()}) {
      bytes += text ? text->size() : 0;
    }
    if (bytes > envelope.size()) return false;
  }
  return true;
}

// Puts the head's uid and resourceVersion into the envelope of a row, which may be forged, and
// verifies what came of it. Verifying it before would say nothing: see IdentityPlaces.
Result<void> CompleteEnvelope(std::string_view row_key, const ObjectHead& head,
                              std::string& envelope) {
  const auto invalid = [&] { return Damaged(row_key, "the envelope is not valid"); };
  if (!HasReadableIdentity(envelope)) return invalid();
  const IdentityPlaces places = PlacesIn(envelope);
  if (!IsBlank(places)) return invalid();
  if (!SetIdentity(places, head.uid, head.resource_version)) {
    return Damaged(row_key, "head and envelope disagree");
  }
  flatbuffers::Verifier verifier = VerifierOf(envelope);
  if (!fbs::VerifyEnvelopeBuffer(verifier)) return invalid();
  // The uid is the one that was written, and in the same place: so what is read can be written.
  if (PlacesIn(envelope) != places || std::string_view(places.uid, places.uid_bytes) != head.uid ||
      !OwnersFit(envelope)) {
    return invalid();
  }
  return {};
}

}  // namespace

Result<void> DecodeParts(std::string_view row_key, std::string_view value,
                         const DecodeOptions& options, ObjectParts& parts) {
  LARDER_ASSIGN_OR_RETURN(Layout layout, ReadLayout(row_key, value));
  std::string opened;
  LARDER_RETURN_IF_ERROR(OpenPayload(row_key, layout, options.cipher, opened));
  const size_t raw_bytes = layout.envelope_bytes + layout.body_bytes;
  if (layout.head.compressed) {
    DictionaryPtr dictionary;
    if (layout.head.dictionary != 0) {
      dictionary =
          options.dictionaries ? options.dictionaries->Find(layout.head.dictionary) : nullptr;
      if (!dictionary) return Damaged(row_key, "names a dictionary that the store does not have");
    }
    const auto unpacked = Decompress(layout.payload, raw_bytes, dictionary.get(), parts.raw);
    if (!unpacked) return Damaged(row_key, unpacked.error().message);
  } else {
    if (layout.payload.size() != raw_bytes) return Damaged(row_key, "has wrong lengths");
    parts.raw = layout.payload;
  }
  parts.envelope_bytes = layout.envelope_bytes;
  parts.head = std::move(layout.head.head);
  parts.json_bytes = layout.json_bytes;
  return {};
}

Result<ObjectPtr> DecodeValue(std::string_view row_key, std::string_view value,
                              const DecodeOptions& options) {
  // Only passed through; keep the buffer for the next object.
  thread_local ObjectParts parts;
  if (parts.raw.capacity() > kKeptBufferBytes) std::string().swap(parts.raw);
  LARDER_RETURN_IF_ERROR(DecodeParts(row_key, value, options, parts));
  thread_local std::string envelope;
  if (envelope.capacity() > kKeptBufferBytes) std::string().swap(envelope);
  envelope = parts.envelope();
  LARDER_RETURN_IF_ERROR(CompleteEnvelope(row_key, parts.head, envelope));
  auto json = RestoreMetadata(parts.body(), envelope, parts.json_bytes);
  if (!json) return Damaged(row_key, json.error().message);
  return Object::FromParts(envelope, *std::move(json));
}

}  // namespace larder
