// Stores of every format version that was ever released are read by today's code. The text of a new
// version is made with LARDER_WRITE_GOLDEN=FILE.
#include "tests/storage/golden.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::Must;

class GoldenStore : public ::testing::TestWithParam<int> {};

TEST_P(GoldenStore, IsReadInFull) {
  const testing::TempDir dir;
  if (const char* file = std::getenv("LARDER_WRITE_GOLDEN")) {
    testing::FillGolden(dir.path("made"));
    testing::DumpGolden(dir.path("made"), file);
    GTEST_SKIP() << "written to " << file;
  }
  testing::LoadGolden(GetParam(), dir.path());
  testing::ExpectGolden(*Must(Store::Open(testing::GoldenOptions(dir.path()))));
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenStore, ::testing::Values(1, 2),
                         [](const auto& test) { return "Format" + std::to_string(test.param); });

}  // namespace
}  // namespace larder
