// A store's directory, before RocksDB sees it: made with mode 0700, refused where others can read
// it or where it is something else. Internal to storage/.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace larder {

// What is in a directory, as far as it can be read; `error` says where it cannot. Unlike a
// range-for over an iterator it never throws: several callers are threads of their own.
std::vector<std::filesystem::directory_entry> EntriesOf(const std::filesystem::path& path,
                                                        std::error_code& error);

bool FileExists(const std::string& path);
// Empty where it cannot be read.
std::string ReadWholeFile(const std::string& path);

// Is there a database in this directory (ours or not)?
bool HasDatabase(const std::string& path);
// Does it hold rows: a table, or a log that is not empty? Whatever the manifest says.
bool HasRows(const std::string& path);

// kForbidden when others can read the directory, or when it belongs to another user (root may read
// anybody's, but not write there).
Result<void> CheckPermissions(const std::string& path, bool for_writing);

// Makes the directory where it is missing and may be made.
Result<void> PrepareDirectory(const std::string& path, bool may_create, bool for_writing);

// An empty directory of mode 0700 that others cannot have prepared; its parents are made too.
Result<void> MakePrivateDirectory(const std::string& path);

}  // namespace larder
