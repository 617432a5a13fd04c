// Objects as a client sees them: whole or metadata only, JSON or protobuf, alone, in a list, or in
// a watch.
//
// Immutable; any number of threads may use one.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/api_status.h"
#include "apiserver/media_type.h"
#include "apiserver/resource_info.h"
#include "apiserver/stored_body.h"

namespace larder::apiserver {

class ObjectEncoder {
 public:
  ObjectEncoder(const ResourceInfo& info, MediaType media);

  const MediaType& media() const { return media_; }

  // An object as the answer to a GET.
  std::string Object(const StoredBody::Rendered& rendered) const;
  // An item of a list: built-in kinds without kind and apiVersion, as the real server sends them.
  void AppendItem(const StoredBody::Rendered& rendered, std::string& out) const;
  // A watch event, with its frame or line end. `type`: "ADDED", ...
  void AppendEvent(std::string_view type, const StoredBody::Rendered& rendered,
                   std::string& out) const;
  void AppendBookmark(std::string_view version, bool initial_events_end, std::string& out) const;
  void AppendError(const ApiStatus& status, std::string& out) const;

 private:
  const MediaType media_;
  const bool custom_;
  const std::string type_prefix_;  // {"kind":"Pod","apiVersion":"v1",
};

}  // namespace larder::apiserver
