#include "storage/table_reads.h"

#include <rocksdb/file_system.h>

#include <string>
#include <string_view>
#include <utility>

namespace larder {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// A status has a code and a text, and nothing else comes through RocksDB.
constexpr std::string_view kReadMark = "a table could not be read";

bool IsDiskError(const rocksdb::Status& status) {
  return status.IsIOError() && status.subcode() == rocksdb::Status::SubCode::kNone;
}

IOStatus Marked(IOStatus status) {
  if (!IsDiskError(status)) return status;
  const std::string text = status.getState() ? status.getState() : "";
  IOStatus marked = IOStatus::IOError(std::string(kReadMark), text);
  marked.SetRetryable(status.GetRetryable());
  marked.SetDataLoss(status.GetDataLoss());
  marked.SetScope(status.GetScope());
  return marked;
}

class TableFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  using FSRandomAccessFileOwnerWrapper::FSRandomAccessFileOwnerWrapper;

  IOStatus Read(uint64_t offset, size_t size, const IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) const override {
    return Marked(
        FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug));
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* debug) override {
    IOStatus status = FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
    for (size_t i = 0; i < count; ++i) requests[i].status = Marked(std::move(requests[i].status));
    return Marked(std::move(status));
  }
};

class TableReadsFiles final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "larder.TableReads"; }

  IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* debug) override {
    IOStatus status = target()->NewRandomAccessFile(path, options, file, debug);
    if (status.ok() && path.ends_with(".sst"))
      *file = std::make_unique<TableFile>(std::move(*file));
    return status;
  }
};

class TableReadsEnv final : public rocksdb::EnvWrapper {
 public:
  explicit TableReadsEnv(rocksdb::Env* env) : EnvWrapper(env) {
    file_system_ = std::make_shared<TableReadsFiles>(env->GetFileSystem());
    system_clock_ = env->GetSystemClock();
  }
  static const char* kClassName() { return "larder.TableReads"; }
  const char* Name() const override { return kClassName(); }
};

}  // namespace

std::unique_ptr<rocksdb::Env> MakeTableReadsEnv(rocksdb::Env* env) {
  return std::make_unique<TableReadsEnv>(env);
}

bool IsTableReadError(const rocksdb::Status& status) {
  return IsDiskError(status) && status.ToString().find(kReadMark) != std::string::npos;
}

}  // namespace larder
