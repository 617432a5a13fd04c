#include "tests/reflector/wire_text.h"

#include <fmt/format.h>

namespace larder {
namespace {

std::string Metadata(const TestPod& pod) {
  return fmt::format(R"({{"name":"{}","namespace":"{}","uid":"{}","resourceVersion":"{}"}})",
                     pod.name, pod.ns, pod.Uid(), pod.version);
}

std::string List(std::string_view kind, std::string_view api_version, std::string_view version,
                 std::string_view continue_token, const std::vector<std::string>& items) {
  std::string meta = fmt::format(R"("resourceVersion":"{}")", version);
  if (!continue_token.empty()) meta += fmt::format(R"(,"continue":"{}")", continue_token);
  return fmt::format(R"({{"kind":"{}","apiVersion":"{}","metadata":{{{}}},"items":[{}]}})", kind,
                     api_version, meta, fmt::join(items, ","));
}

std::string Varint(uint64_t value) {
  std::string out;
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  return out + static_cast<char>(value);
}

std::string Field(uint32_t number, std::string_view bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}

std::string PartialJson(const TestPod& pod) {
  return fmt::format(
      R"({{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{}}})",
      Metadata(pod));
}

}  // namespace

std::string PodJson(const TestPod& pod) {
  return fmt::format(R"({{"metadata":{}{}}})", Metadata(pod), pod.extra);
}

std::string PodListJson(std::string_view version, const std::vector<TestPod>& pods,
                        std::string_view continue_token) {
  std::vector<std::string> items;
  for (const TestPod& pod : pods) items.push_back(PodJson(pod));
  return List("PodList", "v1", version, continue_token, items);
}

std::string MetadataListJson(std::string_view version, const std::vector<TestPod>& pods) {
  std::vector<std::string> items;
  for (const TestPod& pod : pods) items.push_back(PartialJson(pod));
  return List("PartialObjectMetadataList", "meta.k8s.io/v1", version, {}, items);
}

std::string MetadataEventLine(std::string_view type, const TestPod& pod) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, PartialJson(pod));
}

std::string EventLine(std::string_view type, const TestPod& pod) {
  return fmt::format(
      R"({{"type":"{}","object":{{"kind":"Pod","apiVersion":"v1","metadata":{}{}}}}})", type,
      Metadata(pod), pod.extra);
}

std::string BookmarkLine(std::string_view version, bool initial_events_end) {
  return fmt::format(
      R"({{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{}","creationTimestamp":null{}}},"spec":{{"containers":null}}}}}})",
      version, initial_events_end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "");
}

std::string ErrorLine(int code, std::string_view reason) {
  return fmt::format(
      R"({{"type":"ERROR","object":{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"too old resource version","reason":"{}","code":{}}}}})",
      reason, code);
}

std::string NamespaceJson(std::string_view uid) {
  return fmt::format(
      R"({{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"kube-system","uid":"{}","resourceVersion":"3"}}}})",
      uid);
}

namespace {

std::string MetadataMessage(const TestPod& pod) {
  return Field(1, pod.name) + Field(2, "") + Field(3, pod.ns) + Field(5, pod.Uid()) +
         Field(6, pod.version);
}

std::string ListMeta(std::string_view version, std::string_view continue_token) {
  return Field(1, Field(1, "") + Field(2, version) + Field(3, continue_token));
}

}  // namespace

std::string UnknownProtobuf(std::string_view api_version, std::string_view kind,
                            std::string_view message) {
  const std::string type = Field(1, api_version) + Field(2, kind);
  return std::string("k8s\0", 4) + Field(1, type) + Field(2, message) + Field(3, "") + Field(4, "");
}

std::string PodProtobuf(const TestPod& pod, std::string_view more) {
  return UnknownProtobuf("v1", "Pod", Field(1, MetadataMessage(pod)) + std::string(more));
}

std::string WithLength(std::string_view bytes) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(bytes.size() >> shift);
  return out + std::string(bytes);
}

std::string Frame(std::string_view type, std::string_view object) {
  return WithLength(Field(1, type) + Field(2, Field(1, object)));
}

std::string EventFrame(std::string_view type, const TestPod& pod, std::string_view more) {
  return Frame(type, PodProtobuf(pod, more));
}

std::string BookmarkFrame(std::string_view version, bool initial_events_end) {
  const std::string end = Field(1, "k8s.io/initial-events-end") + Field(2, "true");
  const std::string meta = Field(1, "") + Field(6, version);
  return Frame(
      "BOOKMARK",
      UnknownProtobuf("v1", "Pod", Field(1, initial_events_end ? meta + Field(12, end) : meta)));
}

std::string ErrorFrame(int code, std::string_view reason, std::string_view details) {
  return Frame(
      "ERROR",
      UnknownProtobuf("v1", "Status",
                      Field(1, "") + Field(2, "Failure") + Field(3, "too old resource version") +
                          Field(4, reason) + (details.empty() ? "" : Field(5, details)) +
                          ProtobufField(6, static_cast<uint64_t>(code))));
}

std::string ProtobufField(uint32_t number, uint64_t value) {
  return Varint(number << 3) + Varint(value);
}

std::string ProtobufField(uint32_t number, std::string_view bytes) { return Field(number, bytes); }

std::string MetadataListProtobuf(std::string_view version, const std::vector<TestPod>& pods,
                                 std::string_view continue_token) {
  std::string list = ListMeta(version, continue_token);
  for (const TestPod& pod : pods) {
    list += Field(2, Field(1, MetadataMessage(pod) + Varint(7 << 3) + Varint(300) +
                                  Field(11, Field(1, "app") + Field(2, "web"))));
  }
  return UnknownProtobuf("meta.k8s.io/v1", "PartialObjectMetadataList", list);
}

std::string PodListProtobuf(std::string_view version, const std::vector<TestPod>& pods,
                            std::string_view more, std::string_view continue_token) {
  std::string list = ListMeta(version, continue_token);
  for (const TestPod& pod : pods) {
    list += Field(2, Field(1, MetadataMessage(pod)) + std::string(more));
  }
  return UnknownProtobuf("v1", "PodList", list);
}

}  // namespace larder
