#include "storage/cipher.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::kNewKey;
using testing::kOldKey;
using testing::Must;

class KeyFile {
 public:
  explicit KeyFile(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path()) << text;
    ::chmod(path().c_str(), mode);
  }
  std::string path() const { return dir_.path("keys"); }

 private:
  testing::TempDir dir_;
};

TEST(Cipher, OpensWhatItSealed) {
  const Cipher cipher = Must(Cipher::Make({std::string(32, 'k')}));
  for (const std::string& text :
       {std::string(), std::string("secret"), std::string(100'000, 'x')}) {
    const std::string sealed = Must(cipher.Seal(text, "row"));
    EXPECT_EQ(Must(cipher.Open(sealed, "row")), text);
    EXPECT_TRUE(text.empty() || sealed.find(text.substr(0, 6)) == std::string::npos);
  }
}

TEST(Cipher, NeverSealsTheSameTwice) {
  const Cipher cipher = Must(Cipher::Make({std::string(32, 'k')}));
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(Must(cipher.Seal("same", "row"))).second);
}

TEST(Cipher, RefusesWhatWasChangedOrMoved) {
  const Cipher cipher = Must(Cipher::Make({std::string(32, 'k')}));
  const std::string sealed = Must(cipher.Seal("secret", "row"));
  EXPECT_EQ(CodeOf(cipher.Open(sealed, "other row")), ErrorCode::kCorruption);
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    // In the key's name it looks like a key that we do not have.
    EXPECT_EQ(CodeOf(cipher.Open(changed, "row")),
              i < 4 ? ErrorCode::kForbidden : ErrorCode::kCorruption);
    EXPECT_FALSE(cipher.Open(sealed.substr(0, i), "row"));
  }
}

TEST(Cipher, RotationReadsOldAndWritesNew) {
  const KeyFile before(std::string(kOldKey) + "\n");
  const KeyFile after("# rotated in May\n" + std::string(kNewKey) + "\r\n" + kOldKey + "\n\n");
  const Cipher old_only = Must(Cipher::FromFile(before.path()));
  const Cipher both = Must(Cipher::FromFile(after.path()));
  const std::string sealed = Must(old_only.Seal("secret", "row"));
  EXPECT_EQ(Must(both.Open(sealed, "row")), "secret");
  EXPECT_TRUE(old_only.IsCurrent(sealed));
  EXPECT_FALSE(both.IsCurrent(sealed));
  const std::string resealed = Must(both.Seal("secret", "row"));
  EXPECT_EQ(CodeOf(old_only.Open(resealed, "row")), ErrorCode::kForbidden);
  EXPECT_NE(old_only.KeyName(), both.KeyName());
}

TEST(Cipher, RefusesKeyFilesThatOthersCanRead) {
  const KeyFile open(kOldKey, 0640);
  const auto refused = Cipher::FromFile(open.path());
  EXPECT_EQ(CodeOf(refused), ErrorCode::kForbidden);
  EXPECT_NE(refused.error().message.find("chmod 600"), std::string::npos);
}

// Another user and group, for this process, as long as it is there.
class AsUser {
 public:
  AsUser(uid_t user, gid_t group) {
    EXPECT_EQ(::setegid(group), 0);
    EXPECT_EQ(::seteuid(user), 0);
  }
  ~AsUser() {
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::setegid(0), 0);
  }
};

// A kubelet mounts a Secret so: root's, readable for the pod's group.
TEST(Cipher, AKeyThatOnlyOurGroupMayReadIsTaken) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to root and a group";
  constexpr uid_t kUser = 65532;
  constexpr gid_t kGroup = 65532;
  const KeyFile file(kOldKey);
  std::filesystem::permissions(std::filesystem::path(file.path()).parent_path(),
                               std::filesystem::perms(0711));
  const auto read = [&](uid_t owner, gid_t group, mode_t mode) {
    EXPECT_EQ(::chown(file.path().c_str(), owner, group), 0);
    EXPECT_EQ(::chmod(file.path().c_str(), mode), 0);
    const AsUser user(kUser, kGroup);
    return Cipher::FromFile(file.path());
  };
  EXPECT_TRUE(read(0, kGroup, 0440));
  EXPECT_TRUE(read(0, kGroup, 0640));
  EXPECT_EQ(CodeOf(read(0, kGroup, 0460)), ErrorCode::kForbidden) << "the group can change it";
  EXPECT_EQ(CodeOf(read(0, kGroup, 0444)), ErrorCode::kForbidden) << "everybody can read it";
  EXPECT_EQ(CodeOf(read(0, kGroup + 1, 0440)), ErrorCode::kForbidden) << "another group's";
  EXPECT_EQ(CodeOf(read(kUser, kGroup, 0440)), ErrorCode::kForbidden) << "ours: chmod mends it";
  const auto unreadable = read(0, kGroup, 0400);
  EXPECT_EQ(CodeOf(unreadable), ErrorCode::kForbidden) << "only root can read it";
  EXPECT_NE(unreadable.error().message.find("Permission denied"), std::string::npos);
}

TEST(Cipher, SaysWhatIsWrongWithAKeyFile) {
  EXPECT_EQ(CodeOf(Cipher::FromFile("/nonexistent/keys")), ErrorCode::kNotFound);
  const KeyFile kept("# comment\nnot a key\n");
  const auto bad = Cipher::FromFile(kept.path());
  EXPECT_EQ(CodeOf(bad), ErrorCode::kInvalidArgument);
  EXPECT_NE(bad.error().message.find("line 2"), std::string::npos) << bad.error().message;
  const KeyFile empty("\n");
  EXPECT_NE(Cipher::FromFile(empty.path()).error().message.find("openssl rand"), std::string::npos);
}

TEST(Cipher, TakesKeysFromTheEnvironment) {
  ::setenv("LARDER_TEST_KEYS", (std::string(kNewKey) + "," + kOldKey).c_str(), 1);
  const Cipher cipher = Must(Cipher::FromEnvironment("LARDER_TEST_KEYS"));
  const KeyFile file(kOldKey);
  const Cipher old_only = Must(Cipher::FromFile(file.path()));
  EXPECT_EQ(Must(cipher.Open(Must(old_only.Seal("x", "row")), "row")), "x");
  ::unsetenv("LARDER_TEST_KEYS");
  EXPECT_EQ(CodeOf(Cipher::FromEnvironment("LARDER_TEST_KEYS")), ErrorCode::kNotFound);
}

TEST(Cipher, BlindsValuesEquallyUnderOneKey) {
  const Cipher cipher = Must(Cipher::Make({std::string(32, 'k')}));
  const Cipher other = Must(Cipher::Make({std::string(32, 'o')}));
  EXPECT_EQ(Must(cipher.Blind("value")), Must(cipher.Blind("value")));
  EXPECT_NE(Must(cipher.Blind("value")), Must(cipher.Blind("valuf")));
  EXPECT_NE(Must(cipher.Blind("value")), Must(other.Blind("value")));
  EXPECT_EQ(Must(cipher.Blind("value")).size(), 32U);
}

}  // namespace
}  // namespace larder
