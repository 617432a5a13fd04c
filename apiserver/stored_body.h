// Object bodies, kept compact, so that a million pods fit into memory.
//
// A body is the object's JSON without kind and apiVersion (they depend on the request) and without
// the digits of its resourceVersion (they are known only inside the commit; compression happens
// outside it). Objects of one resource look alike: the first ones become a zstd dictionary for the
// rest.
//
//   BodyCodec codec;
//   StoredBody body = codec.Encode(PrepareBody(json));
//   body.Render("1234").text;    // {"metadata":{...,"resourceVersion":"1234"},"spec":...}
//
// StoredBody is immutable; BodyCodec is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "schema/object.h"

namespace larder::apiserver {

// A body before compression. `text` starts with {"metadata":{ and has "resourceVersion":"" in it.
struct PreparedBody {
  std::string text;
  size_t version_at = 0;    // where the digits of the version go
  size_t metadata_end = 0;  // one past the closing brace of metadata
};

// Takes kind and apiVersion out, puts metadata in front and empties its resourceVersion.
PreparedBody PrepareBody(const Json& object);

class ZstdDictionary;

class StoredBody {
 public:
  struct Rendered {
    std::string text;
    size_t metadata_end = 0;

    // The metadata object: {"name":...}.
    std::string_view Metadata() const;
  };

  Rendered Render(std::string_view version) const;
  // Where in Render("") the digits of a version belong.
  size_t VersionAt() const { return version_at_; }
  size_t MemoryBytes() const { return data_.capacity() + sizeof(*this); }

 private:
  friend class BodyCodec;

  std::string data_;  // raw where dictionary_ is null
  std::shared_ptr<const ZstdDictionary> dictionary_;
  uint32_t text_size_ = 0;
  uint32_t version_at_ = 0;
  uint32_t metadata_end_ = 0;
};

class BodyCodec {
 public:
  BodyCodec();
  ~BodyCodec();

  StoredBody Encode(const PreparedBody& body);

 private:
  std::shared_ptr<const ZstdDictionary> DictionaryFor(std::string_view text);

  Mutex mutex_;
  std::shared_ptr<const ZstdDictionary> dictionary_ LARDER_GUARDED_BY(mutex_);
  std::string samples_ LARDER_GUARDED_BY(mutex_);  // back to back, until there are enough
  std::vector<size_t> sample_sizes_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::apiserver
