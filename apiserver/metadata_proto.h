// PartialObjectMetadata in Kubernetes' protobuf encoding.
//
// An answer is the magic "k8s\0" and a runtime.Unknown (typeMeta = 1, raw = 2) around the object.
// In a watch every frame is a length of four bytes (big endian) and a WatchEvent (type = 1, object
// = 2, whose raw = 1 is such an answer).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace larder::apiserver {

// ObjectMeta of a metadata object in JSON.
std::string EncodeObjectMeta(std::string_view metadata_json);

// PartialObjectMetadata (metadata = 1) of an ObjectMeta.
std::string EncodePartialObject(std::string_view object_meta);

struct ListMetaFields {
  std::string resource_version;
  std::string continue_token;
  int64_t remaining = -1;  // -1: absent
};
// The start of a PartialObjectMetadataList: its metadata = 1. Items follow, each as EncodeListItem.
std::string EncodeListMeta(const ListMetaFields& fields);
std::string EncodeListItem(std::string_view partial_object);

// Everything in front of an answer's `raw_size` bytes, and everything behind them.
std::string UnknownHead(std::string_view kind, std::string_view api_version, size_t raw_size);
std::string UnknownTail();

// A frame of a watch around a whole answer.
std::string EncodeWatchFrame(std::string_view type, std::string_view answer);

// A bookmark's ObjectMeta.
std::string EncodeBookmarkMeta(std::string_view resource_version, bool initial_events_end);

// A Status as a whole answer, for the ERROR event.
std::string EncodeStatus(int code, std::string_view reason, std::string_view message);

}  // namespace larder::apiserver
