// The value of an object's row: a head that is readable at once, the envelope and the body,
// compressed, and a checksum that covers the row's key too. docs/format.md describes the bytes.
//
// Pure functions, safe on any thread. Reading never trusts: length, magic, version, checksum,
// FlatBuffers Verifier; what does not hold is kCorruption.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/object.h"
#include "storage/cipher.h"
#include "storage/dictionary.h"
#include "storage/store.h"

namespace larder {

// Finds the dictionary that a value names; null when there is none with this id.
class DictionarySource {
 public:
  virtual ~DictionarySource() = default;
  virtual DictionaryPtr Find(DictionaryId id) const = 0;
};

// An object taken apart: what is compressed into a row.
struct ObjectParts {
  ObjectHead head;
  // The envelope, uid and resourceVersion blanked because they are in the head; then the body, the
  // residual of CutMetadata.
  std::string raw;
  size_t envelope_bytes = 0;
  size_t json_bytes = 0;  // of the whole document
  std::string_view envelope() const { return std::string_view(raw).substr(0, envelope_bytes); }
  std::string_view body() const { return std::string_view(raw).substr(envelope_bytes); }
};
// What a thread keeps for the next object; one huge object must not pin more.
inline constexpr size_t kKeptBufferBytes = size_t{256} << 10;
// `parts` is overwritten; a caller that keeps it from object to object saves the allocations.
void TakeApart(const Object& object, ObjectParts& parts);

struct EncodeOptions {
  bool compress = true;
  DictionaryPtr dictionary;        // null: without one
  const Cipher* cipher = nullptr;  // null: in the clear
  int level = kValueLevel;         // of zstd
};

struct EncodedValue {
  std::string value;
  size_t payload_bytes = 0;  // of the value, what `raw` became
};
Result<EncodedValue> EncodeValue(std::string_view row_key, const ObjectParts& parts,
                                 const EncodeOptions& options);

// Are the two one object in two versions, equal in all but the resourceVersion? Then so is what is
// compressed of them, byte for byte.
bool DifferOnlyInVersion(const Object& a, const Object& b);
// The value of an object that differs from the one in `value` only in its head: what is compressed
// stays as it is.
Result<std::string> ReplaceHead(std::string_view row_key, std::string_view value,
                                const ObjectHead& head);

struct DecodeOptions {
  const DictionarySource* dictionaries = nullptr;
  const Cipher* cipher = nullptr;
};

Result<ObjectPtr> DecodeValue(std::string_view row_key, std::string_view value,
                              const DecodeOptions& options);
// `parts` is overwritten; unverified but for the row's checksum.
Result<void> DecodeParts(std::string_view row_key, std::string_view value,
                         const DecodeOptions& options, ObjectParts& parts);

// Which dictionary a value names; 0 for none, and for what is no value.
DictionaryId DictionaryOf(std::string_view value);

// Without decompressing anything.
struct ValueHead {
  ObjectHead head;
  DictionaryId dictionary = 0;
  bool compressed = false;
  bool encrypted = false;
  bool current_key = true;  // encrypted with the newest key
  size_t json_bytes = 0;    // of the document
};
Result<ValueHead> DecodeHead(std::string_view row_key, std::string_view value,
                             const Cipher* cipher);

}  // namespace larder
