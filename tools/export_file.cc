#include "tools/export_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

namespace larder::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{256} << 10;
// A line is an object; the server's limit is a few megabytes.
constexpr size_t kLongestLine = size_t{64} << 20;
constexpr unsigned char kZstdMagic[4] = {0x28, 0xb5, 0x2f, 0xfd};

tl::unexpected<Error> FileError(const std::string& path, const char* what) {
  const ErrorCode code = errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo;
  return MakeError(code, "{} {}: {}", what, path, std::strerror(errno));
}

struct Close {
  void operator()(std::FILE* file) const {
    if (file != stdin && file != stdout) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

struct ExportWriter::Rep {
  std::string path;
  std::string part;  // while it is being written
  File file;
  std::unique_ptr<ZSTD_CStream, decltype(&ZSTD_freeCStream)> zstd{nullptr, &ZSTD_freeCStream};
  std::string buffer;
  std::vector<char> packed;
  bool finished = false;
  bool closed = false;
};

ExportWriter::ExportWriter(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

ExportWriter::~ExportWriter() {
  if (!rep_->finished && !rep_->part.empty()) ::unlink(rep_->part.c_str());
}

Result<std::unique_ptr<ExportWriter>> ExportWriter::Open(const std::string& path, bool compress) {
  auto rep = std::make_unique<Rep>();
  rep->path = path;
  std::error_code ignored;
  if (path == "-") {
    rep->file.reset(stdout);
  } else if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    rep->file.reset(std::fopen(path.c_str(), "we"));  // a device or a pipe, which stays what it is
    if (!rep->file) return FileError(path, "cannot write");
  } else {
    // What a link leads to is replaced, not the link.
    if (fs::exists(path, ignored)) rep->path = fs::canonical(path, ignored).string();
    // Under a name that nobody can have taken, of mode 0600: there may be Secrets in it, and who
    // made a file or a link in its place would have them.
    rep->part = rep->path + ".XXXXXX";
    const int file = ::mkostemp(rep->part.data(), O_CLOEXEC);
    if (file < 0) return FileError(rep->path, "cannot write");
    rep->file.reset(::fdopen(file, "w"));
    if (!rep->file) {
      const auto error = FileError(rep->path, "cannot write");
      ::close(file);
      ::unlink(rep->part.c_str());
      return error;
    }
  }
  if (compress) {
    rep->zstd.reset(ZSTD_createCStream());
    ZSTD_CCtx_setParameter(rep->zstd.get(), ZSTD_c_compressionLevel, 3);
    ZSTD_CCtx_setParameter(rep->zstd.get(), ZSTD_c_checksumFlag, 1);
    rep->packed.resize(ZSTD_CStreamOutSize());
  }
  return std::unique_ptr<ExportWriter>(new ExportWriter(std::move(rep)));
}

Result<void> ExportWriter::Pack(bool end) {
  const auto write = [&](const char* data, size_t size) {
    if (rep_->closed || std::fwrite(data, 1, size, rep_->file.get()) == size) return true;
    rep_->closed = errno == EPIPE;
    return rep_->closed;
  };
  if (!rep_->zstd) {
    if (!write(rep_->buffer.data(), rep_->buffer.size())) {
      return FileError(rep_->path, "cannot write");
    }
    rep_->buffer.clear();
    return {};
  }
  ZSTD_inBuffer in{rep_->buffer.data(), rep_->buffer.size(), 0};
  for (;;) {
    ZSTD_outBuffer out{rep_->packed.data(), rep_->packed.size(), 0};
    const size_t left =
        ZSTD_compressStream2(rep_->zstd.get(), &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left)) {
      return MakeError(ErrorCode::kInternal, "zstd: {}", ZSTD_getErrorName(left));
    }
    if (!write(rep_->packed.data(), out.pos)) return FileError(rep_->path, "cannot write");
    if (end ? left == 0 : in.pos == in.size) break;
  }
  rep_->buffer.clear();
  return {};
}

bool ExportWriter::closed() const { return rep_->closed; }

Result<void> ExportWriter::Line(std::string_view text) {
  rep_->buffer += text;
  rep_->buffer += '\n';
  return rep_->buffer.size() < kPiece ? Result<void>() : Pack(false);
}

Result<void> ExportWriter::Finish() {
  LARDER_RETURN_IF_ERROR(Pack(true));
  if (!rep_->closed && std::fflush(rep_->file.get()) != 0 && errno != EPIPE)
    return FileError(rep_->path, "cannot write");
  if (rep_->part.empty()) {
    rep_->finished = true;
    return {};
  }
  if (::fsync(::fileno(rep_->file.get())) != 0 ||
      std::rename(rep_->part.c_str(), rep_->path.c_str()) != 0) {
    return FileError(rep_->path, "cannot write");
  }
  rep_->finished = true;
  return {};
}

struct ExportReader::Rep {
  std::string path;
  File file;
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> zstd{nullptr, &ZSTD_freeDStream};
  std::vector<char> raw = std::vector<char>(kPiece);
  size_t raw_at = 0, raw_size = 0;
  bool first = true;
  bool in_frame = false;  // in the middle of what zstd wrote
  std::string text;
  size_t text_at = 0;
};

ExportReader::ExportReader(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
ExportReader::~ExportReader() = default;

Result<std::unique_ptr<ExportReader>> ExportReader::Open(const std::string& path) {
  auto rep = std::make_unique<Rep>();
  rep->path = path;
  rep->file.reset(path == "-" ? stdin : std::fopen(path.c_str(), "re"));
  if (!rep->file) return FileError(path, "cannot read");
  return std::unique_ptr<ExportReader>(new ExportReader(std::move(rep)));
}

// More text. False: there is no more.
Result<bool> ExportReader::Fill() {
  Rep& rep = *rep_;
  if (rep.raw_at == rep.raw_size) {
    rep.raw_size = std::fread(rep.raw.data(), 1, rep.raw.size(), rep.file.get());
    rep.raw_at = 0;
    if (rep.raw_size == 0) {
      if (std::ferror(rep.file.get())) return FileError(rep.path, "cannot read");
      if (rep.in_frame) {
        return MakeError(ErrorCode::kInvalidArgument, "{} is cut off", rep.path);
      }
      return false;
    }
    if (rep.first && rep.raw_size >= 4 && std::memcmp(rep.raw.data(), kZstdMagic, 4) == 0) {
      rep.zstd.reset(ZSTD_createDStream());
    }
    rep.first = false;
  }
  rep.text.erase(0, rep.text_at);
  rep.text_at = 0;
  if (!rep.zstd) {
    rep.text.append(rep.raw.data(), rep.raw_size);
    rep.raw_at = rep.raw_size;
    return true;
  }
  ZSTD_inBuffer in{rep.raw.data(), rep.raw_size, rep.raw_at};
  const size_t before = rep.text.size();
  rep.text.resize(before + kPiece);
  ZSTD_outBuffer out{rep.text.data() + before, kPiece, 0};
  const size_t left = ZSTD_decompressStream(rep.zstd.get(), &out, &in);
  rep.text.resize(before + out.pos);
  rep.raw_at = in.pos;
  rep.in_frame = left != 0;
  if (ZSTD_isError(left)) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is damaged: {}", rep.path,
                     ZSTD_getErrorName(left));
  }
  return true;
}

Result<std::optional<std::string>> ExportReader::Line() {
  Rep& rep = *rep_;
  size_t from = rep.text_at;
  for (;;) {
    const size_t end = rep.text.find('\n', from);
    if (end != std::string::npos) {
      std::string line = rep.text.substr(rep.text_at, end - rep.text_at);
      rep.text_at = end + 1;
      return std::optional<std::string>(std::move(line));
    }
    const size_t pending = rep.text.size() - rep.text_at;
    if (pending > kLongestLine) {
      return MakeError(ErrorCode::kInvalidArgument, "{} has a line of more than {} bytes", rep.path,
                       kLongestLine);
    }
    LARDER_ASSIGN_OR_RETURN(const bool more, Fill());
    from = rep.text_at + pending;
    if (more) continue;
    if (pending == 0) return std::optional<std::string>();
    std::string line = rep.text.substr(rep.text_at);
    rep.text_at = rep.text.size();
    return std::optional<std::string>(std::move(line));
  }
}

Json CollectionToJson(const CollectionInfo& info) {
  const CollectionSpec& spec = info.spec;
  return {{"clusterUid", spec.cluster_uid},
          {"group", spec.resource.group},
          {"version", spec.resource.version},
          {"resource", spec.resource.resource},
          {"kind", spec.resource.kind},
          {"namespaced", spec.resource.namespaced},
          {"namespace", spec.ns},
          {"labelSelector", spec.label_selector},
          {"fieldSelector", spec.field_selector},
          {"projection", spec.projection},
          {"transform", spec.transform},
          {"shard", spec.shard},
          {"encrypted", info.encrypted},
          {"resourceVersion", info.cursor.resource_version},
          {"complete", info.cursor.state == SyncState::kSynced}};
}

Result<CollectionInfo> CollectionFromJson(const Json& json) {
  const auto text = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  CollectionInfo info;
  info.spec.cluster_uid = text("clusterUid");
  info.spec.resource = {text("group"), text("version"), text("resource"), text("kind"), true};
  const auto flag = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_boolean() && found->get<bool>();
  };
  info.spec.resource.namespaced = flag("namespaced");
  info.spec.ns = text("namespace");
  info.spec.label_selector = text("labelSelector");
  info.spec.field_selector = text("fieldSelector");
  info.spec.projection = text("projection");
  info.spec.transform = text("transform");
  info.spec.shard = text("shard");
  info.encrypted = flag("encrypted");
  info.cursor.resource_version = text("resourceVersion");
  info.cursor.state = flag("complete") ? SyncState::kSynced : SyncState::kEmpty;
  if (info.spec.resource.resource.empty() || info.spec.resource.version.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a collection's line names no resource and version");
  }
  return info;
}

}  // namespace larder::tools
