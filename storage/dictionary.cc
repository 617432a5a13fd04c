#include "storage/dictionary.h"

#include <zdict.h>
#include <zstd.h>

#include "storage/varint.h"

namespace larder {
namespace {

// Level 3 was both smallest and fastest with a dictionary on real pods; see
// docs/decisions/001-body-encoding.md.
constexpr int kLevel = 3;
constexpr size_t kEnvelopeDictionaryBytes = size_t{16} << 10;
constexpr size_t kBodyDictionaryBytes = size_t{112} << 10;

struct Contexts {
  ZSTD_CCtx* compress = ZSTD_createCCtx();
  ZSTD_DCtx* decompress = ZSTD_createDCtx();
  ~Contexts() {
    ZSTD_freeCCtx(compress);
    ZSTD_freeDCtx(decompress);
  }
};
Contexts& PerThread() {
  thread_local Contexts contexts;
  return contexts;
}

void Load(Dictionary::Part& part) {
  if (part.bytes.empty()) return;
  part.compress = ZSTD_createCDict(part.bytes.data(), part.bytes.size(), kLevel);
  part.decompress = ZSTD_createDDict(part.bytes.data(), part.bytes.size());
}

void Unload(Dictionary::Part& part) {
  ZSTD_freeCDict(part.compress);
  ZSTD_freeDDict(part.decompress);
}

Result<std::string> Train(const std::vector<std::string>& samples, size_t dictionary_bytes) {
  std::string joined;
  std::vector<size_t> sizes;
  for (const std::string& sample : samples) {
    joined += sample;
    sizes.push_back(sample.size());
  }
  std::string dictionary(dictionary_bytes, '\0');
  const size_t size = ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), joined.data(),
                                            sizes.data(), static_cast<unsigned>(sizes.size()));
  if (ZDICT_isError(size)) {
    return MakeError(ErrorCode::kInvalidArgument, "cannot learn a dictionary from {} samples: {}",
                     samples.size(), ZDICT_getErrorName(size));
  }
  dictionary.resize(size);
  return dictionary;
}

}  // namespace

Dictionary::Dictionary(DictionaryId id, std::string envelope, std::string body)
    : id_(id), envelope_{std::move(envelope)}, body_{std::move(body)} {
  Load(envelope_);
  Load(body_);
}

Dictionary::~Dictionary() {
  Unload(envelope_);
  Unload(body_);
}

std::string Dictionary::Serialize() const {
  std::string record;
  PutVarint(record, envelope_.bytes.size());
  record += envelope_.bytes;
  PutVarint(record, body_.bytes.size());
  record += body_.bytes;
  return record;
}

Result<DictionaryPtr> Dictionary::Parse(DictionaryId id, std::string_view record) {
  uint64_t size = 0;
  std::string_view envelope, body;
  if (!TakeVarint(record, size) || !TakeBytes(record, size, envelope) ||
      !TakeVarint(record, size) || !TakeBytes(record, size, body) || !record.empty()) {
    return MakeError(ErrorCode::kCorruption, "dictionary {} is damaged", id);
  }
  return std::make_shared<const Dictionary>(id, std::string(envelope), std::string(body));
}

Result<DictionaryPtr> TrainDictionary(DictionaryId id, const DictionarySamples& samples) {
  LARDER_ASSIGN_OR_RETURN(std::string envelope, Train(samples.envelopes, kEnvelopeDictionaryBytes));
  LARDER_ASSIGN_OR_RETURN(std::string body, Train(samples.bodies, kBodyDictionaryBytes));
  return std::make_shared<const Dictionary>(id, std::move(envelope), std::move(body));
}

Result<std::string> Compress(std::string_view raw, const Dictionary::Part* part) {
  ZSTD_CCtx* context = PerThread().compress;
  std::string out(ZSTD_compressBound(raw.size()), '\0');
  ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
  // Our own header holds size and dictionary id, so zstd's need not.
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0);
  if (part && part->compress) {
    ZSTD_CCtx_refCDict(context, part->compress);
  } else {
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kLevel);
  }
  const size_t size = ZSTD_compress2(context, out.data(), out.size(), raw.data(), raw.size());
  if (ZSTD_isError(size)) {
    return MakeError(ErrorCode::kInternal, "zstd: {}", ZSTD_getErrorName(size));
  }
  out.resize(size);
  return out;
}

Result<std::string> Decompress(std::string_view stored, size_t raw_size,
                               const Dictionary::Part* part, size_t extra_capacity) {
  ZSTD_DCtx* context = PerThread().decompress;
  std::string out;
  out.reserve(raw_size + extra_capacity);
  out.resize(raw_size);
  const size_t size =
      part && part->decompress
          ? ZSTD_decompress_usingDDict(context, out.data(), out.size(), stored.data(),
                                       stored.size(), part->decompress)
          : ZSTD_decompressDCtx(context, out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(size)) {
    return MakeError(ErrorCode::kCorruption, "zstd: {}", ZSTD_getErrorName(size));
  }
  if (size != raw_size) return MakeError(ErrorCode::kCorruption, "zstd: wrong length");
  return out;
}

}  // namespace larder
