// A Kubernetes object of any kind, as the server sent it.
//
// Immutable: an ObjectPtr may be held and read by any number of threads for as long as they like,
// and nobody can change what others see. Lossless: json() is what the server sent, byte for byte,
// but for a kind and apiVersion put in front where a list's item came without them. The metadata
// that informers need all the time is held decoded (a FlatBuffer); everything else is read from the
// JSON on demand by path (schema/field_path.h). A copy to change is made by ToMutable(), and only
// by it.
//
//   Result<ObjectPtr> pod = Object::Parse(R"({"metadata":{"name":"a","namespace":"x"}})", {"v1",
//   "Pod"});
//   (*pod)->key();                      // x/a
//   (*pod)->Label("app");               // std::optional<std::string_view>
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace larder {

namespace fbs {
struct Envelope;
}

class Object;
using ObjectPtr = std::shared_ptr<const Object>;

// The JSON document type for what is built or changed: keeps the order of keys.
using Json = nlohmann::ordered_json;

// Which object within a collection. Cluster-scoped objects have an empty namespace.
struct ObjectKey {
  std::string ns;
  std::string name;

  // client-go's form: "namespace/name", or "name" for cluster-scoped objects.
  std::string ToString() const {
    if (ns.empty()) return name;
    std::string text;
    text.reserve(ns.size() + 1 + name.size());
    return text.append(ns).append(1, '/').append(name);
  }
  // The reverse. Fails on more than one slash and on an empty name.
  static Result<ObjectKey> Parse(std::string_view text);

  friend bool operator==(const ObjectKey&, const ObjectKey&) = default;
  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

struct TypeMeta {
  std::string api_version;  // "v1", "apps/v1"
  std::string kind;         // "Pod"
};

// Where an object that came as protobuf has its metadata: a view into its message, and the place in
// its JSON (see Object::Body; 0: there is nothing).
struct WireHead {
  std::string_view metadata;
  size_t body_at = 0;
  bool projected = false;  // see Object::projected
};

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
};

using StringPair = std::pair<std::string_view, std::string_view>;

class Object {
 public:
  // Reads the metadata and keeps the JSON, without what space is around it: the same object is the
  // same text, whether it came in a list, in a watch or alone. Fails with kProtocol, naming the
  // field, on anything that is not a JSON object with a usable metadata.name; names and namespaces
  // with '/', NUL or other control characters are refused, because they are part of our keys. Not
  // refused: unknown fields, unknown kinds, missing uid or resourceVersion.
  static Result<ObjectPtr> Parse(std::string_view json, const TypeMeta& fallback = {});
  static Result<ObjectPtr> FromJson(const Json& json);
  // The same for a document that WireToJson made: its envelope is read from the message.
  static Result<ObjectPtr> FromWire(std::string_view json, const TypeMeta& type,
                                    const WireHead& head);

  // Puts together what the store took apart. `envelope` must be a verified Envelope buffer and
  // `json` the document it was read from. `body_at`: see Body; 0: not known.
  static ObjectPtr FromParts(std::string_view envelope, std::string json, size_t body_at = 0);
  // The room that `json` needs so that FromParts does not move it (base/spare_blocks.h).
  static size_t BytesOf(size_t json_bytes, size_t envelope_bytes) {
    return EnvelopeAt(json_bytes) + envelope_bytes;
  }

  std::string_view api_version() const;
  std::string_view kind() const;
  std::string_view ns() const;
  std::string_view name() const;
  std::string_view generate_name() const;
  std::string_view uid() const;
  std::string_view resource_version() const;
  int64_t generation() const;
  int64_t creation_timestamp() const;  // seconds since 1970; 0: absent
  int64_t deletion_timestamp() const;
  ObjectKey key() const { return {std::string(ns()), std::string(name())}; }

  std::optional<std::string_view> Label(std::string_view key) const;
  std::optional<std::string_view> Annotation(std::string_view key) const;
  std::vector<StringPair> Labels() const;
  std::vector<StringPair> Annotations() const;
  std::vector<OwnerReference> Owners() const;
  std::vector<std::string_view> Finalizers() const;

  // The whole document. At least kJsonPadding readable bytes follow it (for simdjson).
  std::string_view json() const { return {bytes_.data(), json_size_}; }
  // The members behind the metadata, where only the type stands before it and the place is known:
  // `"spec":{...}}`. Otherwise empty.
  std::string_view Body() const { return body_at_ == 0 ? "" : json().substr(body_at_); }
  // The FlatBuffer, for the store.
  std::string_view envelope_bytes() const {
    return std::string_view(bytes_).substr(EnvelopeAt(json_size_));
  }
  const fbs::Envelope& envelope() const { return *root_; }
  // It was made without what its collection's transform cuts out (schema/wire_projection.h), so
  // that there is nothing left to cut.
  bool projected() const { return projected_; }

  // A copy to change. Integers beyond 64 bits become doubles here, as in Go; json() keeps them. An
  // empty object, which no write takes because it has no name, where the document is not what
  // ParseJson (schema/parse_json.h) reads: Parse looks at its metadata only.
  Json ToMutable() const;

  // What this object costs in memory.
  size_t ByteSize() const { return sizeof(Object) + bytes_.capacity(); }

  static constexpr size_t kJsonPadding = 64;

  // Use Parse or FromParts.
  struct Private {};
  Object(Private, std::string bytes, size_t json_size, size_t body_at, bool projected);
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

 private:
  static ObjectPtr Make(std::string_view envelope, std::string json, const WireHead& head);
  // FlatBuffers wants its numbers aligned.
  static constexpr size_t EnvelopeAt(size_t json_bytes) {
    return (json_bytes + kJsonPadding + 7) / 8 * 8;
  }

  // The document, at least kJsonPadding zero bytes, the envelope. In one piece: objects are made on
  // one thread and given up on another, and what that costs the allocator is by the piece.
  std::string bytes_;
  size_t json_size_;
  size_t body_at_;
  bool projected_;
  const fbs::Envelope* root_;
};

// Compares resourceVersions as Kubernetes defines: decimal integers of any length, never parsed
// into 64 bits. Returns <0, 0, >0; nullopt where either is not a version (empty, "0", leading zero,
// not digits).
std::optional<int> CompareResourceVersions(std::string_view a, std::string_view b);

}  // namespace larder
