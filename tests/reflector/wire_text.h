// What a Kubernetes API server writes, for tests: objects, lists, events, as JSON and as protobuf.
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
std::string MetadataListProtobuf(std::string_view version, const std::vector<TestPod>& pods,
                                 std::string_view continue_token = {});
// Whole pods, without `extra`; `more` is appended to each one's message.
std::string PodListProtobuf(std::string_view version, const std::vector<TestPod>& pods,
                            std::string_view more = {}, std::string_view continue_token = {});
// One pod, without `extra`, as the answer to a GET; `more` is appended to its message.
std::string PodProtobuf(const TestPod& pod, std::string_view more = {});
// What runtime.Unknown and the magic in front of it make of a message.
std::string UnknownProtobuf(std::string_view api_version, std::string_view kind,
                            std::string_view message);
// A watch event with its length: of any object, of a pod, a bookmark, an error whose details are a
// message.
std::string Frame(std::string_view type, std::string_view object);
std::string WithLength(std::string_view bytes);
std::string EventFrame(std::string_view type, const TestPod& pod, std::string_view more = {});
std::string BookmarkFrame(std::string_view version, bool initial_events_end = false);
std::string ErrorFrame(int code, std::string_view reason, std::string_view details = {});
// One field of a message: its number and its bytes, or its value.
std::string ProtobufField(uint32_t number, uint64_t value);
std::string ProtobufField(uint32_t number, std::string_view bytes);
// The metadata list as JSON.
std::string MetadataListJson(std::string_view version, const std::vector<TestPod>& pods);
std::string MetadataEventLine(std::string_view type, const TestPod& pod);

}  // namespace larder
