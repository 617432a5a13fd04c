// What must not reach a screen: the values of Secrets, and what a terminal would obey.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/tools/sample_store.h"

namespace larder {
namespace {

class SecretDisplayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(Key()) << std::string(43, 'A') << "=\n";
    std::filesystem::permissions(Key(), std::filesystem::perms(0600));
  }
  std::string Key() const { return scratch_ / "key"; }
  // kubectl apply leaves a copy of what was applied in an annotation. `partial`: as a collection
  // has it that keeps metadata only.
  std::string Fill(const std::string& name, const std::string& version, const std::string& value,
                   bool partial = false) const {
    const auto store = Store::Open({.path = scratch_ / name, .encryption_key_file = Key()});
    EXPECT_TRUE(store) << store.error().ToString();
    const std::string kind =
        partial ? R"({"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",)"
                : R"({"apiVersion":"v1","kind":"Secret",)";
    const std::string rest =
        R"(,"data":{"password":")" + value + R"(","user":"c2FtZQ=="},"type":"Opaque"})";
    PutObject(**store, "secrets",
              kind +
                  R"("metadata":{"name":"login","namespace":"shop","uid":"s","resourceVersion":")" +
                  version +
                  R"(","annotations":{"note":"plain","kubectl.kubernetes.io/)"
                  R"(last-applied-configuration":"{\"data\":{\"password\":\")" +
                  value + R"(\"}}\n"}})" + (partial ? "}" : rest));
    return scratch_ / name;
  }

  ScratchDirectory scratch_;
};

TEST_F(SecretDisplayTest, DescribeShowsSizesOnly) {
  const std::string store = Fill("store", "5", "aHVudGVyMg==");
  const Outcome shown = RunLarder({"describe", "secret", "login", "-n", "shop", "--store", store,
                                   "--encryption-key-file", Key()});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("note=plain"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("12 bytes in base64"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("aHVudGVyMg"), std::string::npos) << shown.out;
}

TEST_F(SecretDisplayTest, DiffSaysThatValuesDifferAndNotWhatTheyAre) {
  const std::string before = Fill("before", "5", "aHVudGVyMg=="),
                    now = Fill("now", "6", "YWZ0ZXI=");
  for (const char* how : {"--encryption-key-file", "--json"}) {
    std::vector<std::string> words = {"diff", before, now, "--encryption-key-file", Key()};
    if (std::string(how) == "--json") words.emplace_back(how);
    const Outcome diff = RunLarder(words);
    EXPECT_EQ(diff.exit_code, 1) << diff.err;
    EXPECT_NE(diff.out.find("data.password"), std::string::npos) << diff.out;
    EXPECT_NE(diff.out.find("*** (before)"), std::string::npos) << diff.out;
    EXPECT_NE(diff.out.find("*** (after)"), std::string::npos) << diff.out;
    EXPECT_EQ(diff.out.find("data.user"), std::string::npos) << diff.out;
    for (const char* value : {"aHVudGVyMg", "YWZ0ZXI"}) {
      EXPECT_EQ(diff.out.find(value), std::string::npos) << diff.out;
    }
  }
}

// Of metadata only, an object's own kind is PartialObjectMetadata.
TEST_F(SecretDisplayTest, ADiffOfMetadataShowsNoCopyOfTheValues) {
  constexpr bool kFull = false, kPartial = true;
  int pair = 0;
  for (const auto& [first, second] :
       {std::pair(kPartial, kPartial), std::pair(kFull, kPartial), std::pair(kPartial, kFull)}) {
    const std::string number = std::to_string(pair++);
    const std::string before = Fill("before" + number, "5", "aHVudGVyMg==", first),
                      now = Fill("now" + number, "6", "YWZ0ZXI=", second);
    for (const char* how : {"--encryption-key-file", "--json"}) {
      SCOPED_TRACE(number + " " + how);
      std::vector<std::string> words = {"diff", before, now, "--encryption-key-file", Key()};
      if (std::string(how) == "--json") words.emplace_back(how);
      const Outcome diff = RunLarder(words);
      EXPECT_EQ(diff.exit_code, 1) << diff.err;
      EXPECT_NE(diff.out.find("last-applied-configuration"), std::string::npos) << diff.out;
      EXPECT_NE(diff.out.find("*** (after)"), std::string::npos) << diff.out;
      for (const char* value : {"aHVudGVyMg", "YWZ0ZXI", "c2FtZQ"}) {
        EXPECT_EQ(diff.out.find(value), std::string::npos) << diff.out;
      }
    }
  }
}

TEST_F(SecretDisplayTest, AnExportSaysThatSecretsAreInTheClear) {
  const std::string store = Fill("store", "5", "aHVudGVyMg==");
  const Outcome clear = RunLarder({"export", "--store", store, "--encryption-key-file", Key()});
  ASSERT_EQ(clear.exit_code, 0) << clear.err;
  EXPECT_NE(clear.out.find("aHVudGVyMg"), std::string::npos) << clear.out;
  EXPECT_NE(clear.err.find("larder: secrets are written decrypted"), std::string::npos)
      << clear.err;
  FillSampleStore(scratch_ / "plain");
  const Outcome plain =
      RunLarder({"export", "--store", scratch_ / "plain", "--encryption-key-file", Key()});
  EXPECT_EQ(plain.err.find("decrypted"), std::string::npos) << plain.err;
}

// A store that is new does not know what else its program wants encrypted.
TEST_F(SecretDisplayTest, WhatAnExportHadEncryptedAnImportEncrypts) {
  const std::string file = scratch_ / "all.jsonl", value = "c3VyZSB0byBiZSBmb3VuZA";
  {
    const auto store = Store::Open({.path = scratch_ / "store",
                                    .encryption_key_file = Key(),
                                    .encrypted_resources = {"secrets", "configmaps"}});
    ASSERT_TRUE(store) << store.error().ToString();
    PutObject(**store, "configmaps",
              R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"login",)"
              R"("namespace":"shop","uid":"c","resourceVersion":"5"},"data":{"password":")" +
                  value + R"("}})");
    PutObject(**store, "nodes",
              R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"n",)"
              R"("resourceVersion":"6"}})");
  }
  ASSERT_EQ(RunLarder({"export", "-f", file, "--store", scratch_ / "store", "--encryption-key-file",
                       Key()})
                .exit_code,
            0);
  const Outcome keyless = RunLarder({"import", "-f", file, "--store", scratch_ / "keyless"});
  EXPECT_EQ(keyless.exit_code, 3) << keyless.err;
  EXPECT_NE(keyless.err.find("configmaps reach the disk only encrypted"), std::string::npos)
      << keyless.err;
  const std::string copy = scratch_ / "copy";
  const Outcome imported =
      RunLarder({"import", "-f", file, "--store", copy, "--encryption-key-file", Key()});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  const std::vector<std::string> get = {"get", "cm",   "login",   "-n", "shop",
                                        "-o",  "json", "--store", copy};
  const Outcome unread = RunLarder(get);
  EXPECT_EQ(unread.exit_code, 3) << unread.err;
  EXPECT_EQ(unread.out.find(value), std::string::npos) << unread.out;
  std::vector<std::string> with_key = get;
  with_key.insert(with_key.end(), {"--encryption-key-file", Key()});
  EXPECT_NE(RunLarder(with_key).out.find(value), std::string::npos);
  const auto store = Store::OpenReadOnly({.path = copy, .encryption_key_file = Key()});
  ASSERT_TRUE(store) << store.error().ToString();
  const auto collections = (*store)->Collections();
  ASSERT_TRUE(collections && collections->size() == 2);
  for (const CollectionInfo& info : *collections) {
    EXPECT_EQ(info.encrypted, info.spec.resource.resource == "configmaps") << info.spec.ToString();
  }
}

// Who made the file or the link beforehand would have the Secrets in it.
TEST_F(SecretDisplayTest, AnExportGoesThroughNoFileOfSomebodyElse) {
  const std::string store = Fill("store", "5", "aHVudGVyMg==");
  const std::string file = scratch_ / "all.jsonl", part = file + ".part";
  std::ofstream(part) << "mine";
  std::filesystem::permissions(part, std::filesystem::perms(0666));
  const auto write = [&](const std::string& path) {
    return RunLarder({"export", "-f", path, "--store", store, "--encryption-key-file", Key()});
  };
  ASSERT_EQ(write(file).exit_code, 0);
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
  std::string text;
  std::getline(std::ifstream(part), text);
  EXPECT_EQ(text, "mine");
  EXPECT_EQ(std::filesystem::status(part).permissions(), std::filesystem::perms(0666));
  // And one that fails leaves nothing of its own.
  std::filesystem::create_directory(scratch_ / "empty");
  EXPECT_NE(RunLarder({"export", "-f", scratch_ / "empty/all.jsonl", "--store", store}).exit_code,
            0)
      << "there is no key to read with";
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "empty"));
}

// An object's author could otherwise set the title of its reader's window, move its cursor, or
// worse.
TEST(TerminalTest, WhatObjectsSayIsShownAndNotObeyed) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "store";
  FillSampleStore(path);
  {
    const auto store = Store::Open({.path = path});
    PutObject(**store, "events", R"({"apiVersion":"v1","kind":"Event","metadata":{"name":"e2",
        "namespace":"shop","uid":"e2","resourceVersion":"9","annotations":{"a":"\u001b[2Jgone"}},
        "involvedObject":{"kind":"Pod","name":"web-0","namespace":"shop","uid":"u-web-0"},
        "type":"Warning","reason":"Bell\u0007","message":"\u001b]0;title\u0007 first\nsecond",
        "lastTimestamp":"2024-02-01T00:00:00Z","source":{"component":"\u009b31mred"}})");
    PutObject(**store, "events", R"({"apiVersion":"v1","kind":"Event","metadata":{
        "name":"\u009b1Ae3","namespace":"shop","uid":"e3","resourceVersion":"10"}})");
    Transaction transaction = (*store)->Begin();
    transaction.PutQueueItem("pods", "shop/\033[5mweb-9", 9,
                             {.added_ms = 1, .failures = 3, .last_error = "\033c\nreset"});
    ASSERT_TRUE((*store)->Commit(std::move(transaction), Durability::kSync));
  }
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--store", path});
    const Outcome outcome = RunLarder(words);
    for (const char* bad : {"\033", "\a", "\xc2\x9b"}) {
      EXPECT_EQ(outcome.out.find(bad), std::string::npos) << words.front() << "\n" << outcome.out;
    }
    return outcome.out;
  };
  EXPECT_NE(run({"get", "events", "-n", "shop", "-o", "name"}).find("event/^[[1Ae3\n"),
            std::string::npos);
  // As kubectl's table: a cell ends with its first line.
  EXPECT_NE(run({"get", "events", "-n", "shop"}).find("^[]0;title^G first...\n"),
            std::string::npos);
  EXPECT_NE(run({"describe", "pod", "web-0", "-n", "shop"}).find("^[]0;title^G first second"),
            std::string::npos);
  EXPECT_NE(run({"describe", "event", "e2", "-n", "shop"}).find("a=^[[2Jgone"), std::string::npos);
  EXPECT_NE(run({"history", "pod/web-0", "-n", "shop"}).find("^[[31mred"), std::string::npos);
  EXPECT_NE(run({"queue", "show", "pods"}).find("^[c reset"), std::string::npos);
  EXPECT_NE(run({"get", "events", "-A", "-o", "custom-columns=R:.reason"}).find("Bell^G"),
            std::string::npos);
}

}  // namespace
}  // namespace larder
