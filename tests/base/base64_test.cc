#include "base/base64.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

TEST(Base64, IsTheExamplesOfRfc4648) {
  const std::pair<const char*, const char*> kExamples[] = {{"", ""},
                                                           {"f", "Zg=="},
                                                           {"fo", "Zm8="},
                                                           {"foo", "Zm9v"},
                                                           {"foob", "Zm9vYg=="},
                                                           {"fooba", "Zm9vYmE="},
                                                           {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : kExamples) {
    EXPECT_EQ(EncodeBase64(plain), text);
    EXPECT_EQ(DecodeBase64(text), plain);
  }
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(DecodeBase64(EncodeBase64(all)), all);
}

TEST(Base64, IgnoresWhiteSpaceAndRefusesAllElse) {
  EXPECT_EQ(DecodeBase64(" Zm9v\r\nYg=\t=\n"), "foob");
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9-", "Zm9_", "Zm=v"}) {
    EXPECT_FALSE(DecodeBase64(text)) << text;
  }
}

}  // namespace
}  // namespace larder
