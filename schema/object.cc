#include "schema/object.h"

#include <flatbuffers/flatbuffers.h>
#include <simdjson.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/spare_blocks.h"
#include "base/text.h"
#include "schema/envelope_writer.h"
#include "schema/json_parser.h"
#include "schema/kept_buffer.h"
#include "schema/parse_json.h"
#include "schema/wire_envelope.h"

namespace larder {
namespace {

namespace sj = simdjson::ondemand;
using flatbuffers::Offset;

std::string_view View(const flatbuffers::String* text) {
  return text ? std::string_view(text->data(), text->size()) : std::string_view();
}

tl::unexpected<Error> Refuse(std::string_view field, std::string_view what) {
  return EnvelopeWriter::Refuse(field, what);
}

// "2026-11-15T23:59:04Z", with or without a fraction, to seconds since 1970; 0 where it is not one.
int64_t ParseTimestamp(std::string_view text) {
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':') {
    return 0;
  }
  auto number = [&](size_t at, size_t length) {
    int value = 0;
    for (size_t i = at; i < at + length; ++i) {
      if (text[i] < '0' || text[i] > '9') return -1;
      value = value * 10 + (text[i] - '0');
    }
    return value;
  };
  const int year = number(0, 4), month = number(5, 2), day = number(8, 2);
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (year < 0 || month < 1 || day < 1 || hour < 0 || minute < 0 || second < 0) return 0;
  const std::chrono::sys_days date = std::chrono::year(year) /
                                     std::chrono::month(static_cast<unsigned>(month)) /
                                     std::chrono::day(static_cast<unsigned>(day));
  return std::chrono::duration_cast<std::chrono::seconds>(date.time_since_epoch()).count() +
         hour * 3600 + minute * 60 + second;
}

// Reads one document's type and metadata into an envelope.
class EnvelopeReader {
 public:
  // After Read: whether the document brought its own.
  bool has_kind() const { return has_kind_; }
  bool has_api_version() const { return has_api_version_; }
  // After Read: see Object::Body.
  size_t body_at() const { return body_at_; }

  Result<std::string> Read(std::string_view json, size_t allocated, const TypeMeta& fallback) {
    ParserLease parser(json.size());
    sj::document document;
    if (parser->iterate(json.data(), json.size(), allocated).get(document)) {
      return Refuse("document", "is not JSON");
    }
    sj::object object;
    if (document.get_object().get(object)) return Refuse("document", "is not a JSON object");
    LARDER_RETURN_IF_ERROR(ReadTop(object, json.data()));
    const char* rest = nullptr;
    if (!document.current_location().get(rest)) {
      return Refuse("document", "has something behind its end");
    }
    if (!has_kind_) envelope_.kind = envelope_.Text(fallback.kind);
    if (!has_api_version_) envelope_.api_version = envelope_.Text(fallback.api_version);
    return envelope_.Finish();
  }

 private:
  Result<void> ReadTop(sj::object& object, const char* begin) {
    bool only_type = true;         // has stood here so far
    bool behind_metadata = false;  // this member is the first one
    for (auto result : object) {
      sj::field field;
      std::string_view key;
      if (std::move(result).get(field)) return Refuse("document", "is not valid JSON");
      const char* const name = field.key().raw();
      if (std::exchange(behind_metadata, false)) body_at_ = static_cast<size_t>(name - begin) - 1;
      if (field.unescaped_key().get(key)) return Refuse("document", "is not valid JSON");
      if (key == "metadata") {
        sj::object metadata;
        if (field.value().get_object().get(metadata)) return Refuse("metadata", "is not an object");
        LARDER_RETURN_IF_ERROR(ReadMetadata(metadata));
        behind_metadata = std::exchange(only_type, false);
      } else if (key == "kind" || key == "apiVersion") {
        std::string_view text;
        if (field.value().get_string().get(text)) return Refuse(key, "is not text");
        (key == "kind" ? envelope_.kind : envelope_.api_version) = envelope_.Text(text);
        (key == "kind" ? has_kind_ : has_api_version_) = true;
      } else {
        only_type = false;
      }
    }
    return {};
  }

  Result<void> ReadMetadata(sj::object& metadata) {
    for (auto field : metadata) {
      std::string_view key;
      sj::value value;
      if (field.unescaped_key().get(key) || field.value().get(value)) {
        return Refuse("metadata", "is not valid JSON");
      }
      bool null = false;
      if (value.is_null().get(null)) return Refuse("metadata", "is not valid JSON");
      if (null) continue;
      LARDER_RETURN_IF_ERROR(ReadMetadataField(key, value));
    }
    return {};
  }

  Result<void> ReadMetadataField(std::string_view key, sj::value& value) {
    if (key == "labels") return ReadPairs("metadata.labels", value, envelope_.labels);
    if (key == "annotations") {
      return ReadPairs("metadata.annotations", value, envelope_.annotations);
    }
    if (key == "ownerReferences") return ReadOwners(value);
    if (key == "finalizers") return ReadFinalizers(value);
    if (key == "generation") {
      if (value.get_int64().get(envelope_.generation)) {
        return Refuse("metadata.generation", "is not an integer");
      }
      return {};
    }
    std::string_view text;
    const bool wanted = key == "name" || key == "namespace" || key == "uid" ||
                        key == "resourceVersion" || key == "generateName" ||
                        key == "creationTimestamp" || key == "deletionTimestamp";
    if (!wanted) return {};
    if (value.get_string().get(text)) return Refuse(fmt::format("metadata.{}", key), "is not text");
    if (key == "name") return envelope_.SetName(text);
    if (key == "namespace") return envelope_.SetNamespace(text);
    if (key == "uid") envelope_.uid = envelope_.Text(text);
    if (key == "resourceVersion") envelope_.resource_version = envelope_.Text(text);
    if (key == "generateName") envelope_.generate_name = envelope_.Text(text);
    if (key == "creationTimestamp") envelope_.created = ParseTimestamp(text);
    if (key == "deletionTimestamp") envelope_.deleted = ParseTimestamp(text);
    return {};
  }

  Result<void> ReadPairs(std::string_view field, sj::value& value, EnvelopeWriter::Pairs& out) {
    sj::object pairs;
    if (value.get_object().get(pairs)) return Refuse(field, "is not an object");
    for (auto pair : pairs) {
      std::string_view key, text;
      if (pair.unescaped_key().get(key)) return Refuse(field, "is not valid JSON");
      if (pair.value().get_string().get(text)) return Refuse(field, "has a value that is not text");
      envelope_.Add(out, key, text);
    }
    return {};
  }

  Result<void> ReadOwners(sj::value& value) {
    sj::array owners;
    if (value.get_array().get(owners)) return Refuse("metadata.ownerReferences", "is not a list");
    for (auto element : owners) {
      sj::object owner;
      if (element.get_object().get(owner))
        return Refuse("metadata.ownerReferences", "has a wrong item");
      EnvelopeWriter::TextOffset api_version, kind, name, uid;
      bool controller = false, block = false;
      for (auto field : owner) {
        std::string_view key, text;
        if (field.unescaped_key().get(key))
          return Refuse("metadata.ownerReferences", "is not valid");
        if (key == "controller" || key == "blockOwnerDeletion") {
          if (field.value().get_bool().get(key == "controller" ? controller : block)) {
            return Refuse("metadata.ownerReferences", "has a flag that is not a boolean");
          }
          continue;
        }
        auto* const slot = key == "apiVersion" ? &api_version
                           : key == "kind"     ? &kind
                           : key == "name"     ? &name
                           : key == "uid"      ? &uid
                                               : nullptr;
        if (!slot) continue;
        if (field.value().get_string().get(text)) {
          return Refuse("metadata.ownerReferences", "has a field that is not text");
        }
        *slot = envelope_.Text(text);
      }
      envelope_.AddOwner(api_version, kind, name, uid, controller, block);
    }
    return {};
  }

  Result<void> ReadFinalizers(sj::value& value) {
    sj::array finalizers;
    if (value.get_array().get(finalizers)) return Refuse("metadata.finalizers", "is not a list");
    for (auto element : finalizers) {
      std::string_view text;
      if (element.get_string().get(text))
        return Refuse("metadata.finalizers", "has an item that is not text");
      envelope_.AddFinalizer(text);
    }
    return {};
  }

  EnvelopeWriter envelope_;
  bool has_kind_ = false, has_api_version_ = false;
  size_t body_at_ = 0;
};

// A list's items come without a type: what to put in front, as a GET of the same object would have
// it.
std::string MissingType(const EnvelopeReader& envelope, const TypeMeta& fallback) {
  std::string type;
  if (!envelope.has_kind() && !fallback.kind.empty()) {
    type += "\"kind\":" + Json(fallback.kind).dump() + ",";
  }
  if (!envelope.has_api_version() && !fallback.api_version.empty()) {
    type += "\"apiVersion\":" + Json(fallback.api_version).dump() + ",";
  }
  return type;
}

std::optional<std::string_view> Find(const flatbuffers::Vector<Offset<fbs::KeyValue>>* pairs,
                                     std::string_view key) {
  if (!pairs) return std::nullopt;
  for (const fbs::KeyValue* pair : *pairs) {
    if (View(pair->key()) == key) return View(pair->value());
  }
  return std::nullopt;
}

std::vector<StringPair> All(const flatbuffers::Vector<Offset<fbs::KeyValue>>* pairs) {
  std::vector<StringPair> out;
  if (!pairs) return out;
  out.reserve(pairs->size());
  for (const fbs::KeyValue* pair : *pairs) out.emplace_back(View(pair->key()), View(pair->value()));
  return out;
}

}  // namespace

Result<ObjectKey> ObjectKey::Parse(std::string_view text) {
  const size_t slash = text.find('/');
  ObjectKey key;
  if (slash == std::string_view::npos) {
    key.name = text;
  } else {
    key.ns = text.substr(0, slash);
    key.name = text.substr(slash + 1);
  }
  if (key.name.empty() || key.name.find('/') != std::string::npos) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "\"{}\" is not an object's key: expected namespace/name or name", text);
  }
  return key;
}

Result<ObjectPtr> Object::Parse(std::string_view json, const TypeMeta& fallback) {
  // A server ends its answers with a new line, and the items of its lists with nothing.
  json = Trimmed(json);
  thread_local std::string padded;
  padded.reserve(json.size() + kJsonPadding);
  padded = json;
  padded.append(kJsonPadding, '\0');
  EnvelopeReader reader;
  const Result<std::string> envelope =
      reader.Read({padded.data(), json.size()}, padded.size(), fallback);
  DropLarge(padded);
  if (!envelope) return tl::unexpected(envelope.error());
  const std::string type = MissingType(reader, fallback);
  std::string text = TakeBlock(BytesOf(json.size() + type.size(), envelope->size()));
  text = json;
  if (!type.empty()) text.insert(text.find('{') + 1, type);
  const size_t body_at = reader.body_at() == 0 ? 0 : reader.body_at() + type.size();
  return FromParts(*envelope, std::move(text), body_at);
}

Result<ObjectPtr> Object::FromWire(std::string_view json, const TypeMeta& type,
                                   const WireHead& head) {
  thread_local std::string envelope;
  LARDER_ASSIGN_OR_RETURN(const bool read, EnvelopeFromWire(type, head.metadata, envelope));
  if (!read) return Parse(json);
  std::string text = TakeBlock(BytesOf(json.size(), envelope.size()));
  text = json;
  ObjectPtr object = Make(envelope, std::move(text), head);
  DropLarge(envelope);
  return object;
}

Result<ObjectPtr> Object::FromJson(const Json& json) {
  return Parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

ObjectPtr Object::FromParts(std::string_view envelope, std::string json, size_t body_at) {
  return Make(envelope, std::move(json), {.metadata = {}, .body_at = body_at});
}

ObjectPtr Object::Make(std::string_view envelope, std::string json, const WireHead& head) {
  const size_t json_size = json.size();
  json.reserve(BytesOf(json_size, envelope.size()));
  json.resize(EnvelopeAt(json_size));
  json.append(envelope);
  return std::make_shared<const Object>(Private{}, std::move(json), json_size, head.body_at,
                                        head.projected);
}

Object::Object(Private, std::string bytes, size_t json_size, size_t body_at, bool projected)
    : bytes_(std::move(bytes)),
      json_size_(json_size),
      body_at_(body_at),
      projected_(projected),
      root_(fbs::GetEnvelope(envelope_bytes().data())) {}

Object::~Object() { GiveBlock(std::move(bytes_)); }

std::string_view Object::api_version() const { return View(root_->api_version()); }
std::string_view Object::kind() const { return View(root_->kind()); }
std::string_view Object::ns() const { return View(root_->namespace_()); }
std::string_view Object::name() const { return View(root_->name()); }
std::string_view Object::generate_name() const { return View(root_->generate_name()); }
std::string_view Object::uid() const { return View(root_->uid()); }
std::string_view Object::resource_version() const { return View(root_->resource_version()); }
int64_t Object::generation() const { return root_->generation(); }
int64_t Object::creation_timestamp() const { return root_->creation_timestamp(); }
int64_t Object::deletion_timestamp() const { return root_->deletion_timestamp(); }

std::optional<std::string_view> Object::Label(std::string_view key) const {
  return Find(root_->labels(), key);
}
std::optional<std::string_view> Object::Annotation(std::string_view key) const {
  return Find(root_->annotations(), key);
}
std::vector<StringPair> Object::Labels() const { return All(root_->labels()); }
std::vector<StringPair> Object::Annotations() const { return All(root_->annotations()); }

std::vector<OwnerReference> Object::Owners() const {
  std::vector<OwnerReference> out;
  if (!root_->owners()) return out;
  for (const fbs::OwnerReference* owner : *root_->owners()) {
    out.push_back({std::string(View(owner->api_version())), std::string(View(owner->kind())),
                   std::string(View(owner->name())), std::string(View(owner->uid())),
                   owner->controller()});
  }
  return out;
}

std::vector<std::string_view> Object::Finalizers() const {
  std::vector<std::string_view> out;
  if (!root_->finalizers()) return out;
  for (const flatbuffers::String* finalizer : *root_->finalizers()) out.push_back(View(finalizer));
  return out;
}

Json Object::ToMutable() const { return ParseJson(json()).value_or(Json::object()); }

std::optional<int> CompareResourceVersions(std::string_view a, std::string_view b) {
  auto valid = [](std::string_view v) {
    return !v.empty() && v[0] != '0' &&
           std::all_of(v.begin(), v.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!valid(a) || !valid(b)) return std::nullopt;
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  const int order = a.compare(b);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

}  // namespace larder
