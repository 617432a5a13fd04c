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
};

std::string LengthPath(const std::string& store_path) { return store_path + "/manifest-length"; }

// A line with a checksum: one that is damaged or was cut off says nothing.
std::string Encode(const Length& length) {
  const std::string text = fmt::format("{} {}", length.manifest, length.bytes);
  return fmt::format("{} {:016x}\n", text, XXH3_64bits(text.data(), text.size()));
}

std::optional<Length> Decode(const std::string& text) {
  Length length;
  std::istringstream in(text);
  in >> length.manifest >> length.bytes;
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
  if (!noted || !now || noted->manifest != now->manifest || now->bytes >= noted->bytes) return {};
  return MakeError(ErrorCode::kCorruption,
                   "store {}: {} has {} bytes and had {}: its end is lost; repair the store "
                   "(larder verify --repair), or remove it to have everything listed anew",
                   store_path, now->manifest, now->bytes, noted->bytes);
}

void ManifestGuard::Note(rocksdb::DB& db) {
  MutexLock lock(mutex_);
  const std::optional<Length> now = SyncedLength(db);
  if (!now) return;
  std::string text = Encode(*now);
  if (text == noted_) return;
  if (rocksdb::WriteStringToFile(env_, text, LengthPath(store_path_), /*should_sync=*/false).ok()) {
    noted_ = std::move(text);
  }
}

}  // namespace larder
