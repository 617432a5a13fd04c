// zstd dictionaries, one per resource: objects of a kind are alike, so a dictionary makes each
// one, alone, as small as if it stood beside the others (measured on real pods: 18x instead
// of 3.7x).
//
// A dictionary never changes; retraining makes a new one with a new id, and old ones stay as long
// as a value needs them. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "storage/spares.h"

struct ZSTD_CDict_s;
struct ZSTD_DDict_s;

namespace larder {

// 0 means none.
using DictionaryId = uint32_t;

// Level 3 was both smallest and fastest with a dictionary on real pods, and 64 KB learn as much as
// 112; see docs/decisions/001-body-encoding.md.
inline constexpr int kValueLevel = 3;
inline constexpr size_t kDictionaryBytes = size_t{64} << 10;

class Dictionary {
 public:
  // `bytes` is what TrainDictionary made. `seen` is how many objects the resource had had by then.
  Dictionary(DictionaryId id, uint64_t seen, std::string bytes)
      : id_(id), seen_(seen), bytes_(std::move(bytes)) {}
  ~Dictionary();
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

  DictionaryId id() const { return id_; }
  uint64_t seen() const { return seen_; }
  size_t StoredBytes() const { return bytes_.size(); }
  size_t MemoryBytes() const;

  // As one record for the store, and back.
  std::string Serialize() const;
  static Result<std::shared_ptr<const Dictionary>> Parse(DictionaryId id, std::string_view record);

  // Made at first use: an old dictionary never compresses again, and the tables for that are the
  // larger part (0.1 MB). `level` counts at the first use; a store has one for all.
  const ZSTD_CDict_s* ForCompression(int level) const;
  const ZSTD_DDict_s* ForDecompression() const;

 private:
  DictionaryId id_;
  uint64_t seen_;
  std::string bytes_;
  mutable std::once_flag compress_once_, decompress_once_;
  mutable std::atomic<ZSTD_CDict_s*> compress_{nullptr};
  mutable std::atomic<ZSTD_DDict_s*> decompress_{nullptr};
};

using DictionaryPtr = std::shared_ptr<const Dictionary>;

// What to learn from, in one piece: as thousands of strings it would leave the heap full of holes.
struct TrainingSamples {
  std::string bytes;
  std::vector<size_t> sizes;
  void Add(std::string_view sample) {
    bytes += sample;
    sizes.push_back(sample.size());
  }
};

// Builds a dictionary from samples; kInvalidArgument when there are too few to learn from. Takes
// a fraction of a second.
Result<DictionaryPtr> TrainDictionary(DictionaryId id, uint64_t seen,
                                      const TrainingSamples& samples,
                                      size_t max_bytes = kDictionaryBytes);

// Compresses one value after the other, without making its tables anew.
class Compressor {
 public:
  Compressor();
  ~Compressor();

  // A null dictionary means without one. The view holds until the next call.
  Result<std::string_view> Compress(std::string_view raw, const Dictionary* dictionary,
                                    int level = kValueLevel);

 private:
  struct Work;
  Spares<Work>::Lease work_;
};

// `out` becomes the raw bytes; its capacity is kept.
Result<void> Decompress(std::string_view stored, size_t raw_size, const Dictionary* dictionary,
                        std::string& out);

}  // namespace larder
