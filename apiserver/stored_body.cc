#include "apiserver/stored_body.h"

#include <zdict.h>
#include <zstd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace larder::apiserver {
namespace {

constexpr int kLevel = 1;
// Below this a dictionary costs more than it saves, and most kinds have only a few small objects.
constexpr size_t kMinCompressedText = 1024;
constexpr size_t kSampleCount = 64;
constexpr size_t kDictionaryBytes = 64 * 1024;
constexpr std::string_view kStart = R"({"metadata":)";

struct CompressFree {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct DecompressFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

ZSTD_CCtx* CompressContext() {
  thread_local std::unique_ptr<ZSTD_CCtx, CompressFree> context(ZSTD_createCCtx());
  return context.get();
}

ZSTD_DCtx* DecompressContext() {
  thread_local std::unique_ptr<ZSTD_DCtx, DecompressFree> context(ZSTD_createDCtx());
  return context.get();
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

class ZstdDictionary {
 public:
  explicit ZstdDictionary(const std::string& bytes)
      : compress(ZSTD_createCDict(bytes.data(), bytes.size(), kLevel)),
        decompress(ZSTD_createDDict(bytes.data(), bytes.size())) {}
  ~ZstdDictionary() {
    ZSTD_freeCDict(compress);
    ZSTD_freeDDict(decompress);
  }
  ZstdDictionary(const ZstdDictionary&) = delete;
  ZstdDictionary& operator=(const ZstdDictionary&) = delete;

  ZSTD_CDict* const compress;
  ZSTD_DDict* const decompress;
};

PreparedBody PrepareBody(const Json& object) {
  PreparedBody out;
  std::string& text = out.text;
  text = kStart;
  text += '{';
  const Json metadata = object.value("metadata", Json::object());
  bool first = true;
  bool versioned = false;
  const auto add_version = [&] {
    text += R"("resourceVersion":")";
    out.version_at = text.size();
    text += '"';
    versioned = true;
  };
  for (const auto& [key, value] : metadata.items()) {
    if (!std::exchange(first, false)) text += ',';
    if (key == "resourceVersion") {
      add_version();
      continue;
    }
    text += Dump(key) + ':' + Dump(value);
  }
  if (!versioned) {
    if (!first) text += ',';
    add_version();
  }
  text += '}';
  out.metadata_end = text.size();
  for (const auto& [key, value] : object.items()) {
    if (key == "kind" || key == "apiVersion" || key == "metadata") continue;
    text += ',' + Dump(key) + ':' + Dump(value);
  }
  text += '}';
  return out;
}

std::string_view StoredBody::Rendered::Metadata() const {
  return std::string_view(text).substr(kStart.size(), metadata_end - kStart.size());
}

StoredBody::Rendered StoredBody::Render(std::string_view version) const {
  Rendered out;
  out.metadata_end = metadata_end_ + version.size();
  out.text.resize(text_size_ + version.size());
  char* const begin = out.text.data();
  if (!dictionary_) {
    std::copy_n(data_.data(), text_size_, begin + version.size());
  } else {
    const size_t got =
        ZSTD_decompress_usingDDict(DecompressContext(), begin + version.size(), text_size_,
                                   data_.data(), data_.size(), dictionary_->decompress);
    LARDER_CHECK(got == text_size_);
  }
  // The text sits behind a gap as wide as the version: moving the short head forward fills it.
  std::copy_n(begin + version.size(), version_at_, begin);
  std::copy(version.begin(), version.end(), begin + version_at_);
  return out;
}

BodyCodec::BodyCodec() = default;
BodyCodec::~BodyCodec() = default;

std::shared_ptr<const ZstdDictionary> BodyCodec::DictionaryFor(std::string_view text) {
  MutexLock lock(mutex_);
  if (dictionary_) return dictionary_;
  samples_ += text;
  sample_sizes_.push_back(text.size());
  if (sample_sizes_.size() < kSampleCount) return nullptr;
  // Whole objects as the dictionary's content: cheaper than training, and close to it in effect
  // where objects resemble each other as much as pods do.
  const size_t content = std::min(samples_.size(), kDictionaryBytes - 1024);
  std::string bytes(kDictionaryBytes, '\0');
  ZDICT_params_t params{};
  params.compressionLevel = kLevel;
  const size_t size = ZDICT_finalizeDictionary(bytes.data(), bytes.size(), samples_.data(), content,
                                               samples_.data(), sample_sizes_.data(),
                                               static_cast<unsigned>(sample_sizes_.size()), params);
  if (ZDICT_isError(size)) {
    bytes.assign(samples_, 0, content);
  } else {
    bytes.resize(size);
  }
  dictionary_ = std::make_shared<ZstdDictionary>(bytes);
  samples_ = {};
  sample_sizes_ = {};
  return dictionary_;
}

StoredBody BodyCodec::Encode(const PreparedBody& body) {
  StoredBody out;
  out.text_size_ = static_cast<uint32_t>(body.text.size());
  out.version_at_ = static_cast<uint32_t>(body.version_at);
  out.metadata_end_ = static_cast<uint32_t>(body.metadata_end);
  if (body.text.size() >= kMinCompressedText) out.dictionary_ = DictionaryFor(body.text);
  if (!out.dictionary_) {
    out.data_ = body.text;
    return out;
  }
  thread_local std::string buffer;
  buffer.resize(ZSTD_compressBound(body.text.size()));
  const size_t size =
      ZSTD_compress_usingCDict(CompressContext(), buffer.data(), buffer.size(), body.text.data(),
                               body.text.size(), out.dictionary_->compress);
  LARDER_CHECK(!ZSTD_isError(size));
  out.data_.assign(buffer, 0, size);
  return out;
}

}  // namespace larder::apiserver
