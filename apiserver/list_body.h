// The body of a list, made piece by piece: 100,000 pods are a gigabyte that nobody should hold at
// once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apiserver/list_options.h"
#include "apiserver/metadata_proto.h"
#include "apiserver/object_encoder.h"
#include "apiserver/state.h"

namespace larder::apiserver {

class ListBody {
 public:
  struct Header {
    ListMetaFields meta;
    std::string shard;  // the selector that was applied, echoed
  };

  ListBody(const ResourceInfo& info, MediaType media, Header header, std::vector<StoredPtr> items);

  // Appends until `out` has `bytes` or the list is complete. False: complete.
  bool Fill(std::string& out, size_t bytes);
  // Makes the body end in the middle of the middle item, as a server that dies does.
  void EndInTheMiddle() { cut_ = true; }
  size_t Items() const { return items_.size(); }

 private:
  std::string Head() const;
  std::string ProtobufHead() const;

  const ObjectEncoder encoder_;
  const Header header_;
  const std::string list_kind_;
  const std::string api_version_;
  const std::vector<StoredPtr> items_;
  size_t next_ = 0;
  bool started_ = false;
  bool ended_ = false;
  bool cut_ = false;
};

}  // namespace larder::apiserver
