#include "storage/splice.h"

#include <gtest/gtest.h>

#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::Must;

std::string Residual(const Object& object) {
  std::string residual;
  CutMetadata(object, residual);
  return residual;
}

void ExpectLossless(const std::string& document) {
  const auto object = Object::Parse(document, {"v1", "Thing"});
  ASSERT_TRUE(object) << object.error().ToString() << "\n" << document;
  const auto restored =
      RestoreMetadata(Residual(**object), (*object)->envelope_bytes(), (*object)->json().size());
  ASSERT_TRUE(restored) << document;
  ASSERT_EQ(*restored, (*object)->json());
}

TEST(Splice, IsLosslessForAwkwardDocuments) {
  for (const std::string& document : testing::AwkwardDocuments()) ExpectLossless(document);
}

TEST(Splice, IsLosslessForRandomDocuments) {
  std::mt19937_64 random(testing::Seed());
  for (int i = 0; i < 20'000; ++i) {
    ExpectLossless(testing::RandomDocument(random));
    if (HasFatalFailure()) return;
  }
}

TEST(Splice, CutsEverythingThatTheEnvelopeHasOfAPod) {
  const ObjectPtr pod = testing::Pod(3);
  const std::string residual = Residual(*pod);
  for (const std::string_view text :
       {pod->name(), pod->uid(), *pod->Annotation("checksum/config"),
        *pod->Label("pod-template-hash"), std::string_view("2026-11-15T23:59:04Z\",\"labels")}) {
    EXPECT_EQ(residual.find(text), std::string::npos) << text;
  }
  EXPECT_LT(residual.size(), pod->json().size() - 400);
}

TEST(Splice, CutsACustomResourcesSortedKeysBehindItsManagedFields) {
  const ObjectPtr widget = Must(Object::Parse(testing::AwkwardDocuments()[1]));
  const std::string residual = Residual(*widget);
  for (const std::string_view text :
       {"w-1", "c458dea9", "blockOwnerDeletion", "x.example.com/y", "18446744073709551616"}) {
    EXPECT_EQ(residual.find(text), std::string::npos) << text;
  }
}

TEST(Splice, RefusesAResidualThatDoesNotFit) {
  const ObjectPtr pod = testing::Pod(3);
  const std::string residual = Residual(*pod);
  EXPECT_FALSE(RestoreMetadata("", pod->envelope_bytes(), pod->json().size()));
  EXPECT_FALSE(
      RestoreMetadata("\x7f", pod->envelope_bytes(), pod->json().size()));  // too many cuts
  EXPECT_FALSE(RestoreMetadata(std::string("\x01\x63\x00", 3), pod->envelope_bytes(),
                               pod->json().size()));  // no field 99
  EXPECT_FALSE(RestoreMetadata(std::string("\x01\x01\x7f", 3), pod->envelope_bytes(),
                               pod->json().size()));  // too far
  // A cut-off list of cuts.
  for (size_t size = 0; size < 20; ++size) {
    EXPECT_FALSE(
        RestoreMetadata(residual.substr(0, size), pod->envelope_bytes(), pod->json().size()))
        << size;
  }
}

}  // namespace
}  // namespace larder
