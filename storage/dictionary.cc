#include "storage/dictionary.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
// For the trainer with settings: the one without tries many, which takes six times as long.
#define ZDICT_STATIC_LINKING_ONLY
// For a dictionary with tables of our own size.
#define ZSTD_STATIC_LINKING_ONLY
#include <zdict.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "base/varint.h"

namespace larder {
namespace {

constexpr size_t kRecordChecksumBytes = 4;
// What is kept for the next object; one huge object must not pin more.
constexpr size_t kKeptScratchBytes = size_t{256} << 10;

struct Unpacker {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  Unpacker() = default;
  ~Unpacker() { ZSTD_freeDCtx(context); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
};

uint32_t Checksum(std::string_view bytes) {
  return static_cast<uint32_t>(XXH3_64bits(bytes.data(), bytes.size()));
}

// How to compress with a dictionary of so many bytes. zstd's tables for level 3 are half a
// megabyte, looked into at random: of a quarter of their size they stay in the cache. And what an
// object has in common with a dictionary is long, so short matches only cost bytes
// (docs/decisions/001).
ZSTD_compressionParameters ParametersOf(int level, size_t dictionary_bytes) {
  constexpr unsigned kLongTableLog = 14, kShortTableLog = 13, kShortestMatch = 7;
  constexpr size_t kUsualBytes = size_t{8} << 10;
  ZSTD_compressionParameters parameters = ZSTD_getCParams(level, kUsualBytes, dictionary_bytes);
  if (parameters.strategy == ZSTD_dfast) {
    parameters.hashLog = std::min(parameters.hashLog, kLongTableLog);
    parameters.chainLog = std::min(parameters.chainLog, kShortTableLog);
    parameters.minMatch = kShortestMatch;
  }
  return parameters;
}

}  // namespace

struct Compressor::Work {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  std::string scratch;
  Work() = default;
  ~Work() { ZSTD_freeCCtx(context); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
};

namespace {

// Never destroyed: threads may compress while the process ends.
template <typename T>
Spares<T>& SparesOf() {
  static auto* const spares = new Spares<T>;
  return *spares;
}

}  // namespace

Dictionary::~Dictionary() {
  ZSTD_freeCDict(compress_.load());
  ZSTD_freeDDict(decompress_.load());
}

const ZSTD_CDict_s* Dictionary::ForCompression(int level) const {
  std::call_once(compress_once_, [this, level] {
    compress_.store(ZSTD_createCDict_advanced(bytes_.data(), bytes_.size(), ZSTD_dlm_byRef,
                                              ZSTD_dct_auto, ParametersOf(level, bytes_.size()),
                                              ZSTD_defaultCMem));
  });
  return compress_.load(std::memory_order_relaxed);
}

const ZSTD_DDict_s* Dictionary::ForDecompression() const {
  std::call_once(decompress_once_,
                 [this] { decompress_.store(ZSTD_createDDict(bytes_.data(), bytes_.size())); });
  return decompress_.load(std::memory_order_relaxed);
}

size_t Dictionary::MemoryBytes() const {
  return bytes_.capacity() + ZSTD_sizeof_CDict(compress_.load()) +
         ZSTD_sizeof_DDict(decompress_.load());
}

std::string Dictionary::Serialize() const {
  std::string record;
  PutVarint(record, seen_);
  record += bytes_;
  const uint32_t checksum = Checksum(record);
  record.append(reinterpret_cast<const char*>(&checksum), kRecordChecksumBytes);
  return record;
}

Result<DictionaryPtr> Dictionary::Parse(DictionaryId id, std::string_view record) {
  const auto damaged = [id] {
    return MakeError(ErrorCode::kCorruption, "dictionary {} is damaged", id);
  };
  if (record.size() < kRecordChecksumBytes) return damaged();
  uint32_t checksum = 0;
  std::memcpy(&checksum, record.data() + record.size() - kRecordChecksumBytes,
              kRecordChecksumBytes);
  record.remove_suffix(kRecordChecksumBytes);
  if (checksum != Checksum(record)) return damaged();
  uint64_t seen = 0;
  if (!TakeVarint(record, seen) || record.empty()) return damaged();
  return std::make_shared<const Dictionary>(id, seen, std::string(record));
}

Result<DictionaryPtr> TrainDictionary(DictionaryId id, uint64_t seen,
                                      const TrainingSamples& samples, size_t max_bytes) {
  // A dictionary as large as what it was made from would only repeat it.
  std::string bytes(std::min(max_bytes, samples.bytes.size() / 8), '\0');
  // Long pieces suit objects of one kind, which are mostly alike: pods, their metadata, their
  // status and leases get within 2 % of the best setting that a search finds, and smaller than by
  // any shorter piece.
  constexpr size_t kPieceBytes = 2000;
  ZDICT_fastCover_params_t settings{};
  settings.k = static_cast<unsigned>(std::min(kPieceBytes, bytes.size() / 4));
  settings.d = 8;
  settings.accel = 5;
  // Tables of half a megabyte: zstd's own choice is 2^20 entries, no better for megabytes of
  // samples, and a third slower, most of it for memory that must be fetched first.
  settings.f = 17;
  const size_t size = ZDICT_trainFromBuffer_fastCover(
      bytes.data(), bytes.size(), samples.bytes.data(), samples.sizes.data(),
      static_cast<unsigned>(samples.sizes.size()), settings);
  if (ZDICT_isError(size)) {
    return MakeError(ErrorCode::kInvalidArgument, "cannot learn a dictionary from {} samples: {}",
                     samples.sizes.size(), ZDICT_getErrorName(size));
  }
  bytes.resize(size);
  return std::make_shared<const Dictionary>(id, seen, std::move(bytes));
}

Compressor::Compressor() : work_(SparesOf<Work>().Take()) {}
Compressor::~Compressor() = default;

Result<std::string_view> Compressor::Compress(std::string_view raw, const Dictionary* dictionary,
                                              int level) {
  ZSTD_CCtx* const context = work_->context;
  std::string& scratch = work_->scratch;
  const size_t bound = ZSTD_compressBound(raw.size());
  if (scratch.size() < bound ||
      (scratch.size() > kKeptScratchBytes && bound <= kKeptScratchBytes)) {
    scratch = std::string(std::max(bound, size_t{32} << 10), '\0');
  }
  ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
  // Our own header holds size and dictionary id, so zstd's need not.
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0);
  if (dictionary) {
    ZSTD_CCtx_refCDict(context, dictionary->ForCompression(level));
  } else {
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  }
  const size_t size =
      ZSTD_compress2(context, scratch.data(), scratch.size(), raw.data(), raw.size());
  if (ZSTD_isError(size)) {
    return MakeError(ErrorCode::kInternal, "zstd: {}", ZSTD_getErrorName(size));
  }
  return std::string_view(scratch.data(), size);
}

Result<void> Decompress(std::string_view stored, size_t raw_size, const Dictionary* dictionary,
                        std::string& out) {
  const auto unpacker = SparesOf<Unpacker>().Take();
  ZSTD_DCtx* const context = unpacker->context;
  out.resize(raw_size);
  const size_t size =
      dictionary
          ? ZSTD_decompress_usingDDict(context, out.data(), out.size(), stored.data(),
                                       stored.size(), dictionary->ForDecompression())
          : ZSTD_decompressDCtx(context, out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(size)) {
    return MakeError(ErrorCode::kCorruption, "zstd: {}", ZSTD_getErrorName(size));
  }
  if (size != raw_size) return MakeError(ErrorCode::kCorruption, "zstd: wrong length");
  return {};
}

}  // namespace larder
