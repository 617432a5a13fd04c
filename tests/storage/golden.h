// Stores of every format version that was ever released, as text: golden/format-N.txt has one row a
// line, with family, key and value in hex. Made once, by the code of its time; never changed
// afterwards.
#pragma once

#include <string>

#include "storage/store.h"

namespace larder::testing {

// With the key that its secrets need.
StoreOptions GoldenOptions(const std::string& path);
// Makes the store of that format at `path`, as a larder of its time left it.
void LoadGolden(int format, const std::string& path);
// Everything that was put into it is there.
void ExpectGolden(Store& store);

// To make a new one: today's store, and its text.
void FillGolden(const std::string& path);
void DumpGolden(const std::string& path, const std::string& file);

}  // namespace larder::testing
