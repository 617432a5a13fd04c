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

// Where a FlatBuffers string of a buffer stands in it; null where there is none.
char* PlaceOf(std::string& envelope, const flatbuffers::String* field) {
  if (field == nullptr) return nullptr;
  return envelope.data() + (reinterpret_cast<const char*>(field->Data()) - envelope.data());
}

// Overwrites a FlatBuffers string of the same length in place.
bool Overwrite(std::string& envelope, const flatbuffers::String* field, std::string_view text) {
  const size_t size = field ? field->size() : 0;
  if (size != text.size()) return false;
  if (size > 0) std::memcpy(PlaceOf(envelope, field), text.data(), size);
  return true;
}

bool SetIdentity(std::string& envelope, const ObjectHead& head) {
  const fbs::Envelope* root = fbs::GetEnvelope(envelope.data());
  return Overwrite(envelope, root->uid(), head.uid) &&
         Overwrite(envelope, root->resource_version(), head.resource_version);
}

// Blanks what stands in the head of a row.
void ClearIdentity(std::string& envelope) {
  const fbs::Envelope* root = fbs::GetEnvelope(envelope.data());
  for (const flatbuffers::String* field : {root->uid(), root->resource_version()}) {
    if (field != nullptr) std::memset(PlaceOf(envelope, field), '0', field->size());
  }
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
  if (!SetIdentity(envelope, {std::string(b.uid()), std::string(b.resource_version())}) ||
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
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(parts.raw.data()),
                                 parts.envelope_bytes);
  if (!fbs::VerifyEnvelopeBuffer(verifier)) return Damaged(row_key, "the envelope is not valid");
  thread_local std::string envelope;
  if (envelope.capacity() > kKeptBufferBytes) std::string().swap(envelope);
  envelope = parts.envelope();
  if (!SetIdentity(envelope, parts.head)) return Damaged(row_key, "head and envelope disagree");
  auto json = RestoreMetadata(parts.body(), envelope, parts.json_bytes);
  if (!json) return Damaged(row_key, json.error().message);
  return Object::FromParts(envelope, *std::move(json));
}

}  // namespace larder
