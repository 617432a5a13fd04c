#include "apiserver/metadata_proto.h"

#include <simdjson.h>

#include <ctime>

namespace larder::apiserver {
namespace {

namespace dom = simdjson::dom;

class ProtoWriter {
 public:
  void Bytes(uint32_t field, std::string_view value) {
    Varint(field << 3 | 2);
    Varint(value.size());
    out_ += value;
  }
  void Int(uint32_t field, int64_t value) {
    Varint(field << 3);
    Varint(static_cast<uint64_t>(value));
  }
  void Varint(uint64_t value) {
    while (value >= 0x80) {
      out_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    out_ += static_cast<char>(value);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

std::string_view StringAt(const dom::object& object, std::string_view key) {
  std::string_view out;
  if (object[key].get(out) != simdjson::SUCCESS) return {};
  return out;
}

// Time: seconds = 1. The server writes whole seconds only.
std::string EncodeTime(std::string_view text) {
  std::tm parts{};
  ProtoWriter out;
  if (strptime(std::string(text).c_str(), "%Y-%m-%dT%H:%M:%S", &parts)) {
    out.Int(1, timegm(&parts));
    out.Int(2, 0);
  }
  return out.Take();
}

void EncodeMap(ProtoWriter& out, uint32_t field, const dom::object& object, std::string_view key) {
  dom::object map;
  if (object[key].get(map) != simdjson::SUCCESS) return;
  for (const auto [name, value] : map) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) continue;
    ProtoWriter entry;
    entry.Bytes(1, name);
    entry.Bytes(2, text);
    out.Bytes(field, entry.Take());
  }
}

void EncodeOwners(ProtoWriter& out, const dom::object& object) {
  dom::array owners;
  if (object["ownerReferences"].get(owners) != simdjson::SUCCESS) return;
  for (const dom::element element : owners) {
    dom::object owner;
    if (element.get(owner) != simdjson::SUCCESS) continue;
    ProtoWriter entry;
    entry.Bytes(1, StringAt(owner, "kind"));
    entry.Bytes(3, StringAt(owner, "name"));
    entry.Bytes(4, StringAt(owner, "uid"));
    entry.Bytes(5, StringAt(owner, "apiVersion"));
    bool flag = false;
    if (owner["controller"].get(flag) == simdjson::SUCCESS) entry.Int(6, flag ? 1 : 0);
    if (owner["blockOwnerDeletion"].get(flag) == simdjson::SUCCESS) entry.Int(7, flag ? 1 : 0);
    out.Bytes(13, entry.Take());
  }
}

void EncodeManagedFields(ProtoWriter& out, const dom::object& object) {
  dom::array entries;
  if (object["managedFields"].get(entries) != simdjson::SUCCESS) return;
  for (const dom::element element : entries) {
    dom::object managed;
    if (element.get(managed) != simdjson::SUCCESS) continue;
    ProtoWriter entry;
    entry.Bytes(1, StringAt(managed, "manager"));
    entry.Bytes(2, StringAt(managed, "operation"));
    entry.Bytes(3, StringAt(managed, "apiVersion"));
    entry.Bytes(4, EncodeTime(StringAt(managed, "time")));
    entry.Bytes(6, StringAt(managed, "fieldsType"));
    dom::element fields;
    if (managed["fieldsV1"].get(fields) == simdjson::SUCCESS) {
      ProtoWriter raw;
      raw.Bytes(1, simdjson::minify(fields));
      entry.Bytes(7, raw.Take());
    }
    entry.Bytes(8, StringAt(managed, "subresource"));
    out.Bytes(17, entry.Take());
  }
}

}  // namespace

std::string EncodeObjectMeta(std::string_view metadata_json) {
  thread_local dom::parser parser;
  dom::object object;
  ProtoWriter out;
  if (parser.parse(metadata_json.data(), metadata_json.size()).get(object) != simdjson::SUCCESS) {
    return {};
  }
  out.Bytes(1, StringAt(object, "name"));
  out.Bytes(2, StringAt(object, "generateName"));
  out.Bytes(3, StringAt(object, "namespace"));
  out.Bytes(4, "");
  out.Bytes(5, StringAt(object, "uid"));
  out.Bytes(6, StringAt(object, "resourceVersion"));
  int64_t number = 0;
  if (object["generation"].get(number) != simdjson::SUCCESS) number = 0;
  out.Int(7, number);
  out.Bytes(8, EncodeTime(StringAt(object, "creationTimestamp")));
  if (const std::string_view deletion = StringAt(object, "deletionTimestamp"); !deletion.empty()) {
    out.Bytes(9, EncodeTime(deletion));
  }
  if (object["deletionGracePeriodSeconds"].get(number) == simdjson::SUCCESS) out.Int(10, number);
  EncodeMap(out, 11, object, "labels");
  EncodeMap(out, 12, object, "annotations");
  EncodeOwners(out, object);
  dom::array finalizers;
  if (object["finalizers"].get(finalizers) == simdjson::SUCCESS) {
    for (const dom::element element : finalizers) {
      std::string_view text;
      if (element.get(text) == simdjson::SUCCESS) out.Bytes(14, text);
    }
  }
  EncodeManagedFields(out, object);
  return out.Take();
}

std::string EncodePartialObject(std::string_view object_meta) {
  ProtoWriter out;
  out.Bytes(1, object_meta);
  return out.Take();
}

std::string EncodeListMeta(const ListMetaFields& fields) {
  ProtoWriter meta;
  meta.Bytes(1, "");
  meta.Bytes(2, fields.resource_version);
  meta.Bytes(3, fields.continue_token);
  if (fields.remaining >= 0) meta.Int(4, fields.remaining);
  ProtoWriter out;
  out.Bytes(1, meta.Take());
  return out.Take();
}

std::string EncodeListItem(std::string_view partial_object) {
  ProtoWriter out;
  out.Bytes(2, partial_object);
  return out.Take();
}

std::string UnknownHead(std::string_view kind, std::string_view api_version, size_t raw_size) {
  ProtoWriter type;
  type.Bytes(1, api_version);
  type.Bytes(2, kind);
  ProtoWriter unknown;
  unknown.Bytes(1, type.Take());
  unknown.Varint(2 << 3 | 2);
  unknown.Varint(raw_size);
  return std::string("k8s\0", 4) + unknown.Take();
}

std::string UnknownTail() {
  ProtoWriter out;
  out.Bytes(3, "");
  out.Bytes(4, "");
  return out.Take();
}

std::string EncodeWatchFrame(std::string_view type, std::string_view answer) {
  ProtoWriter raw;
  raw.Bytes(1, answer);
  ProtoWriter event;
  event.Bytes(1, type);
  event.Bytes(2, raw.Take());
  const std::string bytes = event.Take();
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(bytes.size() >> shift);
  return out + bytes;
}

std::string EncodeBookmarkMeta(std::string_view resource_version, bool initial_events_end) {
  ProtoWriter out;
  for (const uint32_t field : {1U, 2U, 3U, 4U, 5U}) out.Bytes(field, "");
  out.Bytes(6, resource_version);
  out.Int(7, 0);
  out.Bytes(8, "");
  if (initial_events_end) {
    ProtoWriter entry;
    entry.Bytes(1, "k8s.io/initial-events-end");
    entry.Bytes(2, "true");
    out.Bytes(12, entry.Take());
  }
  return out.Take();
}

std::string EncodeStatus(int code, std::string_view reason, std::string_view message) {
  ProtoWriter status;
  status.Bytes(1, "");
  status.Bytes(2, "Failure");
  status.Bytes(3, message);
  status.Bytes(4, reason);
  status.Int(6, code);
  const std::string raw = status.Take();
  return UnknownHead("Status", "v1", raw.size()) + raw + UnknownTail();
}

}  // namespace larder::apiserver
