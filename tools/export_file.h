// The file that `larder export` writes and `larder import` reads: JSON lines, zstd where its name
// ends in .zst.
//
// A collection is a line {"larder.collection": {...}} with everything that identifies it and how
// far it is, then one line for each object, as the server sent it, then {"larder.end": N}. A file
// that was cut off has no such end, and its collection is not taken for complete.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/object.h"
#include "storage/collection.h"

namespace larder::tools {

// Not thread-safe. Errors: kIo, kNoSpace; kInvalidArgument for what is no such file.
class ExportWriter {
 public:
  // "-": stdout. A file is written beside its name and renamed by Finish: it is whole or not there.
  static Result<std::unique_ptr<ExportWriter>> Open(const std::string& path, bool compress);
  ~ExportWriter();

  Result<void> Line(std::string_view text);
  Result<void> Finish();
  // Nobody reads the pipe any more: no error, but nothing is written either.
  bool closed() const;

 private:
  struct Rep;
  explicit ExportWriter(std::unique_ptr<Rep> rep);
  Result<void> Pack(bool end);
  std::unique_ptr<Rep> rep_;
};

class ExportReader {
 public:
  // Tells compressed files by their first bytes.
  static Result<std::unique_ptr<ExportReader>> Open(const std::string& path);
  ~ExportReader();

  // The next line without its end; nullopt at the end of the file.
  Result<std::optional<std::string>> Line();

 private:
  struct Rep;
  explicit ExportReader(std::unique_ptr<Rep> rep);
  Result<bool> Fill();
  std::unique_ptr<Rep> rep_;
};

Json CollectionToJson(const CollectionInfo& info);
Result<CollectionInfo> CollectionFromJson(const Json& json);

inline constexpr const char* kCollectionLine = "larder.collection";
inline constexpr const char* kEndLine = "larder.end";

}  // namespace larder::tools
