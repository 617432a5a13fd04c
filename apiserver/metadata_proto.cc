#include "apiserver/metadata_proto.h"

#include <simdjson.h>

#include <ctime>

namespace larder::apiserver {
namespace {

namespace ondemand = simdjson::ondemand;

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

std::string_view Text(ondemand::value value) {
  std::string_view out;
  return value.get_string().get(out) == simdjson::SUCCESS ? out : std::string_view();
}

// Calls use(key, value) for each field; stops at the first error.
template <typename Use>
void EachField(ondemand::value value, const Use& use) {
  ondemand::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) return;
  for (auto field : object) {
    std::string_view key;
    ondemand::value child;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return;
    if (field.value().get(child) != simdjson::SUCCESS) return;
    use(key, child);
  }
}

template <typename Use>
void EachElement(ondemand::value value, const Use& use) {
  ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) return;
  for (auto element : array) {
    ondemand::value child;
    if (element.get(child) != simdjson::SUCCESS) return;
    use(child);
  }
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

void EncodeMap(ProtoWriter& out, uint32_t field, ondemand::value map) {
  EachField(map, [&](std::string_view name, ondemand::value value) {
    ProtoWriter entry;
    entry.Bytes(1, name);
    entry.Bytes(2, Text(value));
    out.Bytes(field, entry.Take());
  });
}

std::string EncodeOwner(ondemand::value owner) {
  std::string_view kind, name, uid, api_version;
  ProtoWriter flags;
  EachField(owner, [&](std::string_view key, ondemand::value value) {
    bool flag = false;
    if (key == "kind") kind = Text(value);
    if (key == "name") name = Text(value);
    if (key == "uid") uid = Text(value);
    if (key == "apiVersion") api_version = Text(value);
    if (key != "controller" && key != "blockOwnerDeletion") return;
    if (value.get_bool().get(flag) != simdjson::SUCCESS) return;
    flags.Int(key == "controller" ? 6 : 7, flag ? 1 : 0);
  });
  ProtoWriter out;
  out.Bytes(1, kind);
  out.Bytes(3, name);
  out.Bytes(4, uid);
  out.Bytes(5, api_version);
  return out.Take() + flags.Take();
}

std::string EncodeManager(ondemand::value entry) {
  std::string_view manager, operation, api_version, time, type, subresource, fields;
  EachField(entry, [&](std::string_view key, ondemand::value value) {
    if (key == "manager") manager = Text(value);
    if (key == "operation") operation = Text(value);
    if (key == "apiVersion") api_version = Text(value);
    if (key == "time") time = Text(value);
    if (key == "fieldsType") type = Text(value);
    if (key == "subresource") subresource = Text(value);
    if (key != "fieldsV1") return;
    ondemand::object object;
    // As it stands: what is stored has no spaces to take out.
    if (value.get_object().get(object) == simdjson::SUCCESS &&
        object.raw_json().get(fields) != simdjson::SUCCESS) {
      fields = {};
    }
  });
  ProtoWriter out;
  out.Bytes(1, manager);
  out.Bytes(2, operation);
  out.Bytes(3, api_version);
  out.Bytes(4, EncodeTime(time));
  out.Bytes(6, type);
  ProtoWriter raw;
  raw.Bytes(1, fields);
  out.Bytes(7, raw.Take());
  out.Bytes(8, subresource);
  return out.Take();
}

}  // namespace

std::string EncodeObjectMeta(std::string_view metadata_json) {
  thread_local ondemand::parser parser;
  thread_local std::string padded;
  padded.assign(metadata_json);
  padded.append(simdjson::SIMDJSON_PADDING, '\0');
  ondemand::document document;
  ondemand::value root;
  const auto size = metadata_json.size();
  if (parser.iterate(padded.data(), size, padded.size()).get(document) != simdjson::SUCCESS ||
      document.get_value().get(root) != simdjson::SUCCESS) {
    return {};
  }
  // Fields 1 to 8 are written whether they are there or not, as Go does it; the others follow in
  // the order of the JSON, which is that of their numbers.
  std::string_view name, generate_name, ns, uid, version, created;
  int64_t generation = 0;
  ProtoWriter rest;
  EachField(root, [&](std::string_view key, ondemand::value value) {
    if (key == "name") name = Text(value);
    if (key == "generateName") generate_name = Text(value);
    if (key == "namespace") ns = Text(value);
    if (key == "uid") uid = Text(value);
    if (key == "resourceVersion") version = Text(value);
    if (key == "creationTimestamp") created = Text(value);
    if (key == "generation" && value.get_int64().get(generation) != simdjson::SUCCESS) {
      generation = 0;
    }
    if (key == "deletionTimestamp") rest.Bytes(9, EncodeTime(Text(value)));
    if (key == "deletionGracePeriodSeconds") {
      int64_t seconds = 0;
      if (value.get_int64().get(seconds) == simdjson::SUCCESS) rest.Int(10, seconds);
    }
    if (key == "labels") EncodeMap(rest, 11, value);
    if (key == "annotations") EncodeMap(rest, 12, value);
    if (key == "ownerReferences") {
      EachElement(value, [&](ondemand::value owner) { rest.Bytes(13, EncodeOwner(owner)); });
    }
    if (key == "finalizers") {
      EachElement(value, [&](ondemand::value finalizer) { rest.Bytes(14, Text(finalizer)); });
    }
    if (key == "managedFields") {
      EachElement(value, [&](ondemand::value entry) { rest.Bytes(17, EncodeManager(entry)); });
    }
  });
  ProtoWriter out;
  out.Bytes(1, name);
  out.Bytes(2, generate_name);
  out.Bytes(3, ns);
  out.Bytes(4, "");
  out.Bytes(5, uid);
  out.Bytes(6, version);
  out.Int(7, generation);
  out.Bytes(8, EncodeTime(created));
  return out.Take() + rest.Take();
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
