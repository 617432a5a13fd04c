// zstd dictionaries, one pair per resource: objects of a kind are alike, so a dictionary makes each
// one, alone, as small as if it stood beside the others (measured on real pods: 18x instead
// of 3.7x).
//
// A dictionary never changes; retraining makes a new one with a new id, and old ones stay as long
// as a value needs them. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

struct ZSTD_CDict_s;
struct ZSTD_DDict_s;

namespace larder {

// 0 means none.
using DictionaryId = uint32_t;

class Dictionary {
 public:
  // `envelope` and `body` are what Train made; may be empty.
  Dictionary(DictionaryId id, std::string envelope, std::string body);
  ~Dictionary();
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

  DictionaryId id() const { return id_; }
  size_t ByteSize() const { return envelope_.bytes.size() + body_.bytes.size(); }

  // As one record for the store, and back.
  std::string Serialize() const;
  static Result<std::shared_ptr<const Dictionary>> Parse(DictionaryId id, std::string_view record);

  struct Part {
    std::string bytes;
    ZSTD_CDict_s* compress = nullptr;
    ZSTD_DDict_s* decompress = nullptr;
  };
  const Part& envelope() const { return envelope_; }
  const Part& body() const { return body_; }

 private:
  DictionaryId id_;
  Part envelope_;
  Part body_;
};

using DictionaryPtr = std::shared_ptr<const Dictionary>;

// Builds a dictionary from samples; kInvalidArgument when there are too few to learn from. Takes
// about a second.
struct DictionarySamples {
  std::vector<std::string> envelopes;
  std::vector<std::string> bodies;
};
Result<DictionaryPtr> TrainDictionary(DictionaryId id, const DictionarySamples& samples);

// Compress/Decompress one section. A null part means without a dictionary.
Result<std::string> Compress(std::string_view raw, const Dictionary::Part* part);
Result<std::string> Decompress(std::string_view stored, size_t raw_size,
                               const Dictionary::Part* part, size_t extra_capacity = 0);

}  // namespace larder
