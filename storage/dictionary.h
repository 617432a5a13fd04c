// zstd dictionaries, one pair per resource: objects of a kind are alike, so a dictionary makes each
// one, alone, as small as if it stood beside the others (measured on real pods: 18x instead
// of 3.7x).
//
// A dictionary never changes; retraining makes a new one with a new id, and old ones stay as long
// as a value needs them. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

struct ZSTD_CDict_s;
struct ZSTD_DDict_s;

namespace larder {

// 0 means none.
using DictionaryId = uint32_t;

// What zstd has learned of one section of a row: the envelopes or the bodies.
class DictionaryPart {
 public:
  explicit DictionaryPart(std::string bytes) : bytes_(std::move(bytes)) {}
  ~DictionaryPart();
  DictionaryPart(const DictionaryPart&) = delete;
  DictionaryPart& operator=(const DictionaryPart&) = delete;

  const std::string& bytes() const { return bytes_; }
  // Made at first use: an old dictionary never compresses again, and the tables for that are the
  // larger part (0.5 MB). Null where there are no bytes.
  const ZSTD_CDict_s* ForCompression() const;
  const ZSTD_DDict_s* ForDecompression() const;
  size_t MemoryBytes() const;

 private:
  std::string bytes_;
  mutable std::mutex mutex_;
  mutable std::once_flag compress_once_, decompress_once_;
  mutable ZSTD_CDict_s* compress_ = nullptr;    // guarded by compress_once_ and mutex_
  mutable ZSTD_DDict_s* decompress_ = nullptr;  // guarded by decompress_once_ and mutex_
};

class Dictionary {
 public:
  // `envelope` and `body` are what TrainDictionary made; may be empty. `seen` is how many objects
  // the resource had had by then.
  Dictionary(DictionaryId id, uint64_t seen, std::string envelope, std::string body)
      : id_(id), seen_(seen), envelope_(std::move(envelope)), body_(std::move(body)) {}

  DictionaryId id() const { return id_; }
  uint64_t seen() const { return seen_; }
  size_t StoredBytes() const { return envelope_.bytes().size() + body_.bytes().size(); }
  size_t MemoryBytes() const { return envelope_.MemoryBytes() + body_.MemoryBytes(); }

  // As one record for the store, and back.
  std::string Serialize() const;
  static Result<std::shared_ptr<const Dictionary>> Parse(DictionaryId id, std::string_view record);

  const DictionaryPart& envelope() const { return envelope_; }
  const DictionaryPart& body() const { return body_; }

 private:
  DictionaryId id_;
  uint64_t seen_;
  DictionaryPart envelope_;
  DictionaryPart body_;
};

using DictionaryPtr = std::shared_ptr<const Dictionary>;

// Builds a dictionary from samples; kInvalidArgument when there are too few to learn from. Takes
// a fraction of a second.
struct DictionarySamples {
  std::vector<std::string> envelopes;
  std::vector<std::string> bodies;
};
Result<DictionaryPtr> TrainDictionary(DictionaryId id, uint64_t seen,
                                      const DictionarySamples& samples);

// One section. A null part means without a dictionary. The view is into a buffer of this thread and
// holds until its next call of Compress.
Result<std::string_view> Compress(std::string_view raw, const DictionaryPart* part);
// `out` becomes the raw bytes; its capacity is kept.
Result<void> Decompress(std::string_view stored, size_t raw_size, const DictionaryPart* part,
                        std::string& out);

}  // namespace larder
