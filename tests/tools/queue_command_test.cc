// `larder queue` and `larder doctor` on a queue with a record that cannot be read.
#include <gtest/gtest.h>

#include <string>

#include "tests/queue/damage.h"
#include "tests/tools/process.h"
#include "tests/tools/sample_store.h"

namespace larder {
namespace {

TEST(QueueCommandTest, ADamagedRecordOfAQueueIsNamedAndHidesNoOther) {
  const ScratchDirectory scratch;
  const std::string store = scratch / "store";
  FillSampleStore(store);
  testing::PutDamagedQueueRecord(store, "pods", "shop/cart-0", 9);
  const Outcome show = RunLarder({"queue", "show", "pods", "--store", store});
  EXPECT_EQ(show.exit_code, 1);
  EXPECT_NE(show.out.find("web-0"), std::string::npos) << "it is behind the damaged one";
  EXPECT_NE(show.out.find("shop/cart-0"), std::string::npos) << show.out;
  const Outcome doctor = RunLarder({"doctor", "--store", store});
  EXPECT_EQ(doctor.exit_code, 1) << doctor.err;
  EXPECT_NE(doctor.out.find("pods has records that cannot be read"), std::string::npos)
      << doctor.out;
  EXPECT_NE(doctor.out.find("shop/cart-0"), std::string::npos) << doctor.out;
  EXPECT_EQ(RunLarder({"queue", "drain", "pods", "--all", "--store", store}).exit_code, 0);
  EXPECT_EQ(RunLarder({"queue", "ls", "--json", "--store", store}).out, "[]\n");
}

}  // namespace
}  // namespace larder
