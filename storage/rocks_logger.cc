#include "storage/rocks_logger.h"

#include <spdlog/spdlog.h>

#include <cstdarg>
#include <cstdio>

namespace larder {
namespace {

class RocksLogger final : public rocksdb::Logger {
 public:
  RocksLogger() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    Write(spdlog::level::debug, format, arguments);
  }
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < GetInfoLogLevel() || level == rocksdb::InfoLogLevel::HEADER_LEVEL) return;
    // What fails is also returned to the caller, who says it in better words.
    Write(level >= rocksdb::InfoLogLevel::ERROR_LEVEL ? spdlog::level::warn : spdlog::level::debug,
          format, arguments);
  }

 private:
  static void Write(spdlog::level::level_enum level, const char* format, va_list arguments) {
    char line[1024];
    const int written = std::vsnprintf(line, sizeof line, format, arguments);
    if (written <= 0) return;
    std::string_view text(line);
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    spdlog::log(level, "rocksdb: {}", text);
  }
};

}  // namespace

std::shared_ptr<rocksdb::Logger> MakeRocksLogger() { return std::make_shared<RocksLogger>(); }

}  // namespace larder
