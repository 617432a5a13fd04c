// The shape of Kubernetes' built-in kinds in protobuf and in JSON: what wire_to_json.h goes by.
//
// The built-in schema is kubernetes.wire, which kube/wire prints from the Go types of one release.
// A server of another release may know other fields; the reader finds out (kUnsupported).
//
//   const WireMessage* pod = WireSchema::BuiltIn().Find({"v1", "Pod"});   // null: not built in
//
// Immutable, for any number of threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "schema/object.h"

namespace larder {

struct WireMessage;

struct WireField {
  enum class Type : uint8_t {
    kString,
    kBool,
    kInt,
    kBytes,
    kMessage,
    // Messages whose JSON is not an object of their fields.
    kTime,
    kMicroTime,
    kQuantity,
    kIntOrString,
    kRaw,
  };
  enum class Shape : uint8_t { kOne, kPointer, kList, kMap };

  uint32_t number = 0;
  std::string key;  // as it stands in the JSON: "name": with quotes and colon; empty: `inlined`
  Type type = Type::kString;
  Shape shape = Shape::kOne;
  bool omit_empty = false;               // an empty one is not in the JSON
  bool omit_zero = false;                // a time of nothing is not in the JSON
  const WireMessage* message = nullptr;  // of Type::kMessage

  // The fields of its message stand in the outer one's JSON.
  bool inlined() const { return key.empty(); }
  // What Go's omitempty and omitzero leave out when it is not there. A struct is never empty.
  bool LeftOutWhenAbsent() const {
    const bool plain =
        type == Type::kString || type == Type::kBytes || type == Type::kBool || type == Type::kInt;
    return omit_zero || (omit_empty && (shape != Shape::kOne || plain));
  }
};

struct WireMessage {
  static constexpr uint8_t kNoField = 0xff;
  static constexpr size_t kMostFields = 64;

  std::string name;                // "core/v1.Pod"
  std::vector<WireField> fields;   // in the order of the JSON
  std::vector<uint8_t> by_number;  // kNoField where there is none
  uint64_t always = 0;             // a bit for each field that is in the JSON of an empty message
  // Of a message that a WireProjection made.
  bool projected = false;
  uint64_t left_out = 0;  // a bit for each field that is not in the JSON

  // Index of the field, or kNoField.
  uint8_t IndexOf(uint32_t number) const {
    return number < by_number.size() ? by_number[number] : kNoField;
  }
};

class WireSchema {
 public:
  // Fails with kInvalidArgument, naming the line.
  static Result<WireSchema> Parse(std::string_view text);
  static const WireSchema& BuiltIn();

  const WireMessage* Find(const TypeMeta& type) const;
  std::vector<TypeMeta> Kinds() const;

 private:
  class Parser;

  std::map<std::string, std::unique_ptr<WireMessage>, std::less<>> messages_;
  std::map<std::pair<std::string, std::string>, const WireMessage*> kinds_;  // by version, kind
};

}  // namespace larder
