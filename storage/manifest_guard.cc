#include "storage/manifest_guard.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace larder {
namespace {

struct Length {
  std::string manifest;  // its file's name
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // of so many bytes
};

std::string LengthPath(const std::string& store_path) { return store_path + "/manifest-length"; }

// A line with a checksum: one that is damaged or was cut off says nothing.
std::string Encode(const Length& length) {
  const std::string text =
      fmt::format("{} {} {:016x}", length.manifest, length.bytes, length.checksum);
  return fmt::format("{} {:016x}\n", text, XXH3_64bits(text.data(), text.size()));
}

std::optional<Length> Decode(const std::string& text) {
  Length length;
  std::istringstream in(text);
  in >> length.manifest >> length.bytes >> std::hex >> length.checksum;
  if (!in || Encode(length) != text) return std::nullopt;
  return length;
}

// Of the manifest that CURRENT names.
std::optional<Length> CurrentLength(rocksdb::Env* env, const std::string& store_path) {
  Length length;
  if (!rocksdb::ReadFileToString(env, store_path + "/CURRENT", &length.manifest).ok() ||
      length.manifest.empty() || length.manifest.back() != '\n') {
    return std::nullopt;
  }
  length.manifest.pop_back();
  if (!env->GetFileSize(store_path + "/" + length.manifest, &length.bytes).ok()) {
    return std::nullopt;
  }
  return length;
}

// Of the manifest's first `bytes`; nullopt: there are not so many, or they cannot be read.
std::optional<uint64_t> ChecksumOf(rocksdb::Env* env, const std::string& path, uint64_t bytes) {
  std::string content;
  if (!rocksdb::ReadFileToString(env, path, &content).ok() || content.size() < bytes) {
    return std::nullopt;
  }
  return XXH3_64bits(content.data(), bytes);
}

// RocksDB counts what it has appended once that is synced.
std::optional<Length> SyncedLength(rocksdb::DB& db) {
  constexpr std::string_view kManifest = "/MANIFEST-";
  Length length;
  std::vector<std::string> files;
  if (!db.GetLiveFiles(files, &length.bytes, /*flush_memtable=*/false).ok()) return std::nullopt;
  for (const std::string& file : files) {
    if (file.starts_with(kManifest)) length.manifest = file.substr(1);
  }
  if (length.manifest.empty()) return std::nullopt;
  return length;
}

}  // namespace

ManifestGuard::ManifestGuard(rocksdb::Env* env, std::string store_path)
    : env_(env), store_path_(std::move(store_path)) {}

Result<void> ManifestGuard::Check(rocksdb::Env* env, const std::string& store_path) {
  std::string text;
  if (!rocksdb::ReadFileToString(env, LengthPath(store_path), &text).ok()) return {};
  const std::optional<Length> noted = Decode(text);
  const std::optional<Length> now = CurrentLength(env, store_path);
  if (!noted || !now || noted->manifest != now->manifest) return {};
  constexpr std::string_view kAdvice =
      "repair the store (larder verify --repair), or remove it to have everything listed anew";
  if (now->bytes < noted->bytes) {
    return MakeError(ErrorCode::kCorruption,
                     "store {}: {} has {} bytes and had {}: its end is lost; {}", store_path,
                     now->manifest, now->bytes, noted->bytes, kAdvice);
  }
  const auto checksum = ChecksumOf(env, store_path + "/" + now->manifest, noted->bytes);
  // What cannot be read is RocksDB's to say.
  if (!checksum || *checksum == noted->checksum) return {};
  return MakeError(ErrorCode::kCorruption,
                   "store {}: {} is damaged: its first {} bytes are not what was written; {}",
                   store_path, now->manifest, noted->bytes, kAdvice);
}

void ManifestGuard::Note(rocksdb::DB& db) {
  MutexLock lock(mutex_);
  std::optional<Length> now = SyncedLength(db);
  if (!now) return;
  const auto checksum = ChecksumOf(env_, store_path_ + "/" + now->manifest, now->bytes);
  if (!checksum) return;
  now->checksum = *checksum;
  std::string text = Encode(*now);
  if (text == noted_) return;
  if (rocksdb::WriteStringToFile(env_, text, LengthPath(store_path_), /*should_sync=*/false).ok()) {
    noted_ = std::move(text);
  }
}

}  // namespace larder
