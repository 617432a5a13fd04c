// What a Kubernetes API server writes, for tests: objects, lists, events, protobuf metadata.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

struct TestPod {
  std::string name;
  std::string version;
  std::string ns = "x";
  std::string uid = "";    // empty: "uid-" + name
  std::string extra = "";  // more fields, as ,"spec":{…}

  std::string Uid() const { return uid.empty() ? "uid-" + name : uid; }
};

std::string PodJson(const TestPod& pod);
std::string PodListJson(std::string_view version, const std::vector<TestPod>& pods,
                        std::string_view continue_token = {});
// {"type":"ADDED","object":{…}}
std::string EventLine(std::string_view type, const TestPod& pod);
std::string BookmarkLine(std::string_view version, bool initial_events_end = false);
std::string ErrorLine(int code, std::string_view reason);
std::string NamespaceJson(std::string_view uid);
// `application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList`.
std::string MetadataListProtobuf(std::string_view version, const std::vector<TestPod>& pods);
// Whole pods, without `extra`; `more` is appended to each one's message.
std::string PodListProtobuf(std::string_view version, const std::vector<TestPod>& pods,
                            std::string_view more = {}, std::string_view continue_token = {});
// One field of a message: its number and its bytes.
std::string ProtobufField(uint32_t number, std::string_view bytes);
// The metadata list as JSON.
std::string MetadataListJson(std::string_view version, const std::vector<TestPod>& pods);

}  // namespace larder
