#include "storage/trace.h"

#include <fcntl.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/varint.h"
#include "storage/transaction_rep.h"

namespace larder {
namespace {

constexpr std::string_view kTraceMagic = "LARDTRC1";
constexpr size_t kTraceBlockBytes = size_t{256} << 10;
// Nothing that we write is larger; more is damage.
constexpr size_t kMaxBlockBytes = size_t{1} << 30;
// Values are compressed already; what is left (keys, queue items) is worth little time: -7 makes a
// trace a sixth smaller for half as much work again.
constexpr int kLevel = -50;

// In front of each block: what it is, its size unpacked and packed, and a checksum of the packed
// bytes seeded with the block's number, so that blocks cannot change places.
enum class BlockType : uint8_t { kSteps = 'S', kEnd = 'E' };
struct BlockHead {
  uint8_t type = 0;
  uint32_t raw = 0;
  uint32_t stored = 0;
  uint64_t checksum = 0;
};
constexpr size_t kHeadBytes = 1 + 4 + 4 + 8;

std::array<char, kHeadBytes> Pack(const BlockHead& head) {
  std::array<char, kHeadBytes> out{};
  out[0] = static_cast<char>(head.type);
  std::memcpy(out.data() + 1, &head.raw, 4);
  std::memcpy(out.data() + 5, &head.stored, 4);
  std::memcpy(out.data() + 9, &head.checksum, 8);
  return out;
}

BlockHead Unpack(const char* bytes) {
  BlockHead head;
  head.type = static_cast<uint8_t>(bytes[0]);
  std::memcpy(&head.raw, bytes + 1, 4);
  std::memcpy(&head.stored, bytes + 5, 4);
  std::memcpy(&head.checksum, bytes + 9, 8);
  return head;
}

Error FileError(const std::string& path, const char* what) {
  return Error{errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
               fmt::format("{} the trace {}: {}", what, path, std::strerror(errno)),
               {},
               {}};
}

std::string Encode(const TraceSummary& summary) {
  Json collections = Json::array();
  for (const auto& [id, stream] : summary.collections) {
    collections.push_back(
        {{"id", id}, {"fingerprint", stream.fingerprint}, {"resource", stream.resource}});
  }
  return Json{{"started", summary.started_ms},
              {"ended", summary.ended_ms},
              {"commits", summary.commits},
              {"gets", summary.gets},
              {"scans", summary.scans},
              {"dropped", summary.dropped},
              {"commitBytes", summary.commit_bytes},
              {"full", summary.full},
              {"memoryLimit", summary.memory_limit},
              {"collections", std::move(collections)}}
      .dump();
}

Result<TraceSummary> Decode(std::string_view text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  TraceSummary out;
  try {
    out.started_ms = json.at("started").get<int64_t>();
    out.ended_ms = json.at("ended").get<int64_t>();
    out.commits = json.at("commits").get<uint64_t>();
    out.gets = json.at("gets").get<uint64_t>();
    out.scans = json.at("scans").get<uint64_t>();
    out.dropped = json.at("dropped").get<uint64_t>();
    out.commit_bytes = json.at("commitBytes").get<uint64_t>();
    out.full = json.at("full").get<bool>();
    out.memory_limit = json.at("memoryLimit").get<size_t>();
    for (const Json& entry : json.at("collections")) {
      out.collections[entry.at("id").get<CollectionId>()] = {
          entry.at("fingerprint").get<std::string>(), entry.at("resource").get<std::string>()};
    }
  } catch (const Json::exception&) {
    return MakeError(ErrorCode::kCorruption, "the summary of the trace {} cannot be read", path);
  }
  return out;
}

// Families have the same numbers in every store: 0 is RocksDB's own, then ours in order.
constexpr uint32_t kFirstFamily = 1;

class RowHandler final : public rocksdb::WriteBatch::Handler {
 public:
  explicit RowHandler(const std::function<void(const TraceRow&)>& visit) : visit_(visit) {}

  rocksdb::Status PutCF(uint32_t family, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    return Visit(TraceRow::Change::kPut, family, key, value);
  }
  rocksdb::Status DeleteCF(uint32_t family, const rocksdb::Slice& key) override {
    return Visit(TraceRow::Change::kDelete, family, key, {});
  }
  rocksdb::Status SingleDeleteCF(uint32_t family, const rocksdb::Slice& key) override {
    return Visit(TraceRow::Change::kDelete, family, key, {});
  }
  rocksdb::Status DeleteRangeCF(uint32_t family, const rocksdb::Slice& begin,
                                const rocksdb::Slice& end) override {
    return Visit(TraceRow::Change::kDeleteRange, family, begin, end);
  }

 private:
  rocksdb::Status Visit(TraceRow::Change change, uint32_t family, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) {
    if (family < kFirstFamily || family - kFirstFamily >= kFamilyNames.size()) {
      return rocksdb::Status::Corruption("a row of no family");
    }
    visit_({change,
            static_cast<Family>(family - kFirstFamily),
            {key.data(), key.size()},
            {value.data(), value.size()}});
    return rocksdb::Status::OK();
  }

  const std::function<void(const TraceRow&)>& visit_;
};

}  // namespace

Result<void> ForEachRow(std::string_view batch, const std::function<void(const TraceRow&)>& visit) {
  const rocksdb::WriteBatch rows{std::string(batch)};
  RowHandler handler(visit);
  const rocksdb::Status status = rows.Iterate(&handler);
  if (!status.ok()) return tl::unexpected(FromRocks(status, "a commit of the trace"));
  return {};
}

void AppendStep(std::string& out, const TraceStep& step) {
  out += static_cast<char>(step.kind);
  PutVarint(out, step.micros);
  switch (step.kind) {
    case TraceStep::Kind::kCommit:
      out += step.sync ? '\1' : '\0';
      PutVarint(out, step.batch.size());
      out += step.batch;
      break;
    case TraceStep::Kind::kScan:
      PutVarint(out, step.rows);
      [[fallthrough]];
    case TraceStep::Kind::kGet:
      out += static_cast<char>(step.family);
      PutVarint(out, step.key.size());
      out += step.key;
  }
}

namespace {

bool TakeStep(std::string_view& in, TraceStep& step) {
  const auto take_byte = [&in](uint8_t& byte) {
    if (in.empty()) return false;
    byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    return true;
  };
  uint8_t kind = 0, extra = 0;
  uint64_t size = 0;
  if (!take_byte(kind) || kind < 1 || kind > 3 || !TakeVarint(in, step.micros)) return false;
  step.kind = static_cast<TraceStep::Kind>(kind);
  if (step.kind == TraceStep::Kind::kScan && !TakeVarint(in, step.rows)) return false;
  if (!take_byte(extra) || !TakeVarint(in, size)) return false;
  if (step.kind == TraceStep::Kind::kCommit) {
    step.sync = extra != 0;
    return TakeBytes(in, size, step.batch);
  }
  if (extra >= kFamilyNames.size()) return false;
  step.family = static_cast<Family>(extra);
  return TakeBytes(in, size, step.key);
}

}  // namespace

struct TraceWriter::Rep {
  std::string path;
  int fd = -1;
  uint64_t blocks = 0;
  uint64_t written = 0;
  std::string buffer;
  std::string packed;
  // Kept from block to block: making one costs as much as using it.
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context{ZSTD_createCCtx(), ZSTD_freeCCtx};

  ~Rep() {
    if (fd >= 0) ::close(fd);
  }
  Result<void> WriteAll(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::write(fd, bytes.data(), bytes.size());
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return tl::unexpected(FileError(path, "writing"));
      bytes.remove_prefix(static_cast<size_t>(size));
      written += static_cast<uint64_t>(size);
    }
    return {};
  }
  Result<void> WriteBlock(BlockType type, std::string_view raw) {
    if (packed.size() < ZSTD_compressBound(raw.size())) {
      packed.resize(ZSTD_compressBound(raw.size()));
    }
    const size_t size = ZSTD_compressCCtx(context.get(), packed.data(), packed.size(), raw.data(),
                                          raw.size(), kLevel);
    if (ZSTD_isError(size))
      return MakeError(ErrorCode::kInternal, "zstd: {}", ZSTD_getErrorName(size));
    const BlockHead head{static_cast<uint8_t>(type), static_cast<uint32_t>(raw.size()),
                         static_cast<uint32_t>(size),
                         XXH3_64bits_withSeed(packed.data(), size, blocks++)};
    const auto bytes = Pack(head);
    LARDER_RETURN_IF_ERROR(WriteAll({bytes.data(), bytes.size()}));
    return WriteAll({packed.data(), size});
  }
  Result<void> FlushBuffer() {
    if (buffer.empty()) return {};
    auto outcome = WriteBlock(BlockType::kSteps, buffer);
    buffer.clear();
    return outcome;
  }
};

TraceWriter::TraceWriter(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
TraceWriter::~TraceWriter() = default;

Result<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path) {
  auto rep = std::make_unique<Rep>();
  rep->path = path;
  rep->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (rep->fd < 0) return tl::unexpected(FileError(path, "making"));
  LARDER_RETURN_IF_ERROR(rep->WriteAll(kTraceMagic));
  return std::unique_ptr<TraceWriter>(new TraceWriter(std::move(rep)));
}

Result<void> TraceWriter::AddCommit(uint64_t micros, const Transaction& transaction, bool sync) {
  TraceStep step;
  step.micros = micros;
  step.sync = sync;
  step.batch = transaction.rep().batch.Data();
  return AddStep(step);
}

Result<void> TraceWriter::AddStep(const TraceStep& step) {
  AppendStep(rep_->buffer, step);
  return rep_->buffer.size() >= kTraceBlockBytes ? rep_->FlushBuffer() : Result<void>();
}

Result<void> TraceWriter::AddBlock(std::string_view steps) {
  LARDER_RETURN_IF_ERROR(rep_->FlushBuffer());
  return rep_->WriteBlock(BlockType::kSteps, steps);
}

Result<void> TraceWriter::Finish(const TraceSummary& summary) {
  LARDER_RETURN_IF_ERROR(rep_->FlushBuffer());
  LARDER_RETURN_IF_ERROR(rep_->WriteBlock(BlockType::kEnd, Encode(summary)));
  if (::fsync(rep_->fd) != 0) return tl::unexpected(FileError(rep_->path, "syncing"));
  return {};
}

uint64_t TraceWriter::bytes() const { return rep_->written; }

struct TraceReader::Rep {
  std::string path;
  int fd = -1;
  uint64_t blocks = 0;
  uint64_t steps = 0;
  TraceSummary summary;
  std::string packed;
  std::string block;
  std::string_view left;

  ~Rep() {
    if (fd >= 0) ::close(fd);
  }
  // False at the end of the file.
  Result<bool> ReadExactly(char* to, size_t size) {
    size_t done = 0;
    while (done < size) {
      const ssize_t got = ::read(fd, to + done, size - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return tl::unexpected(FileError(path, "reading"));
      if (got == 0) return done == 0 ? Result<bool>(false) : CutOff();
      done += static_cast<size_t>(got);
    }
    return true;
  }
  tl::unexpected<Error> CutOff() const {
    return MakeError(ErrorCode::kCorruption,
                     "the trace {} is cut off after {} operations; record it again, or ask whoever "
                     "copied it for the whole file",
                     path, steps);
  }
  tl::unexpected<Error> Damaged(const char* what) const {
    return MakeError(ErrorCode::kCorruption, "the trace {} is damaged in block {}: {}", path,
                     blocks, what);
  }
  Result<BlockType> ReadBlock() {
    std::array<char, kHeadBytes> bytes{};
    LARDER_ASSIGN_OR_RETURN(const bool there, ReadExactly(bytes.data(), bytes.size()));
    if (!there) return CutOff();
    const BlockHead head = Unpack(bytes.data());
    const bool known = head.type == static_cast<uint8_t>(BlockType::kSteps) ||
                       head.type == static_cast<uint8_t>(BlockType::kEnd);
    if (!known || head.raw > kMaxBlockBytes || head.stored > ZSTD_compressBound(head.raw)) {
      return Damaged("its head makes no sense");
    }
    // Before room is made for what the head only claims.
    struct stat file {};
    const off_t at = ::lseek(fd, 0, SEEK_CUR);
    if (at < 0 || ::fstat(fd, &file) != 0) return tl::unexpected(FileError(path, "reading"));
    if (head.stored > static_cast<uint64_t>(std::max<off_t>(0, file.st_size - at))) return CutOff();
    packed.resize(head.stored);
    LARDER_ASSIGN_OR_RETURN(const bool whole, ReadExactly(packed.data(), packed.size()));
    if (!whole && !packed.empty()) return CutOff();
    if (XXH3_64bits_withSeed(packed.data(), packed.size(), blocks) != head.checksum) {
      return Damaged("its checksum is wrong");
    }
    if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != head.raw) {
      return Damaged("it does not unpack to what its head says");
    }
    block.resize(head.raw);
    const size_t size = ZSTD_decompress(block.data(), block.size(), packed.data(), packed.size());
    if (ZSTD_isError(size) || size != head.raw) return Damaged("it cannot be unpacked");
    ++blocks;
    left = block;
    return static_cast<BlockType>(head.type);
  }
  Result<void> Start() {
    if (::lseek(fd, 0, SEEK_SET) != 0) return tl::unexpected(FileError(path, "reading"));
    blocks = 0;
    left = {};
    std::array<char, kTraceMagic.size()> magic{};
    LARDER_ASSIGN_OR_RETURN(const bool there, ReadExactly(magic.data(), magic.size()));
    if (!there || std::string_view(magic.data(), magic.size()) != kTraceMagic) {
      return MakeError(ErrorCode::kInvalidArgument, "{} is no trace of larder", path);
    }
    return {};
  }
  // Reads all of it, so that nothing is begun with a trace that is not complete.
  Result<void> Check() {
    LARDER_RETURN_IF_ERROR(Start());
    for (;;) {
      LARDER_ASSIGN_OR_RETURN(const BlockType type, ReadBlock());
      if (type == BlockType::kEnd) break;
      TraceStep step;
      for (; !left.empty(); ++steps) {
        if (!TakeStep(left, step)) return Damaged("an operation cannot be read");
      }
    }
    LARDER_ASSIGN_OR_RETURN(summary, Decode(block, path));
    return Start();
  }
};

TraceReader::TraceReader(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
TraceReader::~TraceReader() = default;

Result<std::unique_ptr<TraceReader>> TraceReader::Open(const std::string& path) {
  auto rep = std::make_unique<Rep>();
  rep->path = path;
  rep->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (rep->fd < 0) {
    return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                     "cannot read the trace {}: {}", path, std::strerror(errno));
  }
  LARDER_RETURN_IF_ERROR(rep->Check());
  return std::unique_ptr<TraceReader>(new TraceReader(std::move(rep)));
}

const TraceSummary& TraceReader::summary() const { return rep_->summary; }
uint64_t TraceReader::steps() const { return rep_->steps; }
Result<void> TraceReader::Rewind() { return rep_->Start(); }

Result<bool> TraceReader::Next(TraceStep& step) {
  while (rep_->left.empty()) {
    LARDER_ASSIGN_OR_RETURN(const BlockType type, rep_->ReadBlock());
    if (type == BlockType::kEnd) {
      rep_->left = {};
      return false;
    }
  }
  if (!TakeStep(rep_->left, step)) return rep_->Damaged("an operation cannot be read");
  return true;
}

Result<void> CheckTraceFits(const TraceSummary& trace, const Store& store) {
  LARDER_ASSIGN_OR_RETURN(const auto collections, store.Collections());
  for (const auto& [id, stream] : trace.collections) {
    const CollectionInfo* found = nullptr;
    for (const CollectionInfo& info : collections) {
      if (info.id == id) found = &info;
    }
    if (!found || found->spec.Fingerprint() != stream.fingerprint) {
      return MakeError(
          ErrorCode::kInvalidArgument,
          "the trace is of another store: its collection {} ({}) is {} in {}; replay it "
          "with the store that it was recorded from, or a copy of that",
          id, stream.resource, found ? "another one" : "not there", store.options().path);
    }
  }
  return {};
}

}  // namespace larder
