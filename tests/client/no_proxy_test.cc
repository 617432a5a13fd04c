#include "client/no_proxy.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

TEST(NoProxy, NamesStandForThemselvesAndForWhatEndsInThem) {
  for (const char* list : {"cluster.example", ".cluster.example", "a,cluster.example",
                           "a b example", " x , CLUSTER.example. ", "*"}) {
    EXPECT_TRUE(IsWithoutProxy("cluster.example", list)) << list;
    EXPECT_TRUE(IsWithoutProxy("api.Cluster.example.", list)) << list;
  }
  for (const char* list :
       {"", ",", "ster.example", "api.cluster.example", "*.example", "a,*", "."}) {
    EXPECT_FALSE(IsWithoutProxy("cluster.example", list)) << list;
  }
}

TEST(NoProxy, AddressesAreComparedAsAddresses) {
  EXPECT_TRUE(IsWithoutProxy("10.1.2.3", "10.1.2.3"));
  EXPECT_TRUE(IsWithoutProxy("10.1.2.3", "x,10.0.0.0/8"));
  EXPECT_TRUE(IsWithoutProxy("10.1.2.3", "10.1.2.2/31"));
  EXPECT_TRUE(IsWithoutProxy("10.1.2.3", "0.0.0.0/0"));
  EXPECT_TRUE(IsWithoutProxy("[fd00::1]", "fd00::1"));
  EXPECT_TRUE(IsWithoutProxy("[fd00::1]", "fd00:0::/16"));
  EXPECT_TRUE(IsWithoutProxy("[fd00::1]", "[fd00::1]"));
  for (const char* list : {"10.1.2.4", "1.2.3", ".1.2.3", "11.0.0.0/8", "10.1.2.4/31",
                           "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "fd00::/16", "::/0"}) {
    EXPECT_FALSE(IsWithoutProxy("10.1.2.3", list)) << list;
  }
  EXPECT_FALSE(IsWithoutProxy("[fd00::1]", "0.0.0.0/0"));
  EXPECT_FALSE(IsWithoutProxy("[fd00::1]", "fd01::/16"));
}

}  // namespace
}  // namespace larder
