#include "schema/key_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace larder {
namespace {

TEST(KeyOrder, IsTheOrderOfNamespaceSlashNameAsBytes) {
  const std::vector<std::string> namespaces = {"", "a", "a-b", "a.b", "a0", "aa", "b"};
  for (const std::string& first : namespaces) {
    for (const std::string& second : namespaces) {
      EXPECT_EQ(NamespaceComesBefore(first, second), first + "/" < second + "/")
          << first << ", " << second;
      for (const char* const name : {"x", "y"}) {
        EXPECT_EQ(ComesBefore({first, "x"}, {second, name}), first + "/x" < second + "/" + name)
            << first << "/x, " << second << "/" << name;
      }
    }
  }
}

}  // namespace
}  // namespace larder
