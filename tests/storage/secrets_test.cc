// What may reach the disk only encrypted.
#include <flatbuffers/flatbuffers.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "base/process.h"
#include "schema/delta_generated.h"
#include "storage/maintenance.h"
#include "storage/records.h"
#include "storage/store.h"
#include "tests/storage/child.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
using testing::CodeOf;
using testing::kNewKey;
using testing::kOldKey;
using testing::Must;
using testing::SpecOf;

constexpr char kCanaryField[] = "canaryFieldName";
constexpr char kCanaryValue[] = "Y2FuYXJ5LXZhbHVlLWhlcmU=";

ObjectPtr Secret(size_t i) {
  return Must(Object::Parse(fmt::format(
      R"({{"kind":"Secret","apiVersion":"v1","metadata":{{"name":"s-{}","namespace":"n","uid":"u-{}","resourceVersion":"{}","labels":{{"canaryLabel":"canary-label-value"}},"annotations":{{"canaryAnnotation":"canary-annotation-value"}}}},"type":"Opaque","data":{{"{}":"{}","n":"{}"}}}})",
      i, i, i + 1, kCanaryField, kCanaryValue, i)));
}

class SecretsTest : public ::testing::Test {
 protected:
  void WriteKeys(const std::string& text) {
    std::ofstream(dir_.path("keys")) << text;
    ::chmod(dir_.path("keys").c_str(), 0600);
  }
  StoreOptions Options() const {
    return {.path = dir_.path(), .encryption_key_file = dir_.path("keys")};
  }
  // As a program has them that knows more to hide than the commands do.
  StoreOptions OptionsOfAProgram() const {
    StoreOptions options = Options();
    options.encrypted_resources = {"secrets", "configmaps"};
    return options;
  }
  void Fill() { Fill(Options(), "secrets"); }
  void Fill(const StoreOptions& options, const char* resource) {
    const auto store = Must(Store::Open(options));
    secrets_ = Must(store->OpenCollection(SpecOf(resource))).id;
    std::vector<ObjectPtr> all;
    for (size_t i = 0; i < 400; ++i) all.push_back(Secret(i));
    // Often enough for a dictionary to be trained, if one were.
    for (int round = 0; round < 2; ++round) testing::PutAll(*store, secrets_, all);
    store->WaitForDictionaries();
    Transaction transaction = store->Begin();
    const std::string token = Must(store->IndexToken(secrets_, "canary-label-value"));
    for (const ObjectPtr& secret : all) {
      transaction.PutIndexKey(secrets_, 1, token, secret->key(), secret->uid());
    }
    Must(store->Commit(std::move(transaction), Durability::kSync));
  }
  // As the same program did before it had configmaps encrypted; every row names the dictionary.
  void FillInTheClear() {
    WriteKeys(kOldKey);
    StoreOptions clear = OptionsOfAProgram();
    clear.encrypted_resources.clear();
    Fill(clear, "configmaps");
    const auto store = Must(Store::Open(clear));
    EXPECT_TRUE(Must(Compact(*store)).dropped_dictionaries.empty());
    const auto dictionaries = Must(GetStats(*store)).dictionaries;
    ASSERT_EQ(dictionaries.size(), 1U);
    EXPECT_EQ(dictionaries.front().values, 400U);
  }
  // The files in which a text stands.
  std::vector<std::string> FilesWith(const std::string& text) {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)),
                              std::istreambuf_iterator<char>());
      if (bytes.find(text) != std::string::npos) out.push_back(entry.path().string());
    }
    return out;
  }
  // And the files in which they do.
  std::map<std::string, std::vector<std::string>> TextsThatShow() {
    std::map<std::string, std::vector<std::string>> out;
    for (const char* text : {kCanaryField, kCanaryValue, "canaryLabel", "canary-label-value",
                             "canaryAnnotation", "canary-annotation-value", "Opaque"}) {
      if (const auto files = FilesWith(text); !files.empty()) out[text] = files;
    }
    return out;
  }
  void ExpectNothingShows() {
    EXPECT_THAT(TextsThatShow(), ::testing::IsEmpty());
    EXPECT_FALSE(FilesWith("s-17").empty()) << "names of objects are in the keys, and can be found";
  }

  // As a larder left it that did not record what is encrypted.
  void ForgetWhatIsEncrypted(const char* resource) {
    std::vector<std::string> names;
    ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, dir_.path(), &names).ok());
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.push_back({name, {}});
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, dir_.path(), families, &handles, &raw).ok());
    const std::unique_ptr<rocksdb::DB> db(raw);
    for (auto* handle : handles) {
      if (handle->GetName() == "meta") {
        CollectionInfo info;
        info.id = secrets_;
        info.spec = SpecOf(resource);
        const std::string record = records::EncodeCollection(info);
        ASSERT_TRUE(db->Put({}, handle, records::CollectionKey(secrets_), record).ok());
      }
      ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
    }
  }
  // The rows that nobody can read without a key. A row in the clear may be compressed, and show
  // nothing of its text either.
  uint64_t Sealed() const {
    return Must(Verify(*Must(Store::OpenReadOnly({.path = dir_.path()})))).sealed;
  }
  // With the keys of a rotation, and afterwards none but the new one.
  void CompactAsACommandAndReadAll() {
    WriteKeys(std::string(kNewKey) + "\n" + kOldKey);
    {
      const auto store = Must(Store::Open(Options()));
      Must(Compact(*store));
      EXPECT_TRUE(Must(GetStats(*store)).dictionaries.empty());
    }
    ExpectNothingShows();
    EXPECT_EQ(Sealed(), 400U);
    WriteKeys(kNewKey);
    const auto store = Must(Store::Open(Options()));
    size_t read = 0;
    Must(store->Scan(secrets_, {}, {}, [&](const ObjectPtr&) { return ++read != 0; }));
    EXPECT_EQ(read, 400U) << "the old key is not needed any more";
  }

  testing::TempDir dir_;
  CollectionId secrets_ = 0;
};

TEST_F(SecretsTest, AKeyThatDoesNotFitIsRefusedAndTakenForNoDamage) {
  WriteKeys(kOldKey);
  Fill();
  WriteKeys(kNewKey);
  const auto store = Must(Store::Open(Options()));
  const auto opened = store->OpenCollection(SpecOf("secrets"));
  ASSERT_EQ(CodeOf(opened), ErrorCode::kForbidden);
  EXPECT_NE(opened.error().message.find("another key"), std::string::npos);
  const VerifyReport report = Must(Verify(*store));
  EXPECT_TRUE(report.Ok()) << report.problems.front().message;
  EXPECT_EQ(report.sealed, 400U);
}

TEST_F(SecretsTest, AProcessThatHoldsAKeyLeavesNoCoreDump) {
  WriteKeys(kOldKey);
  // A process of its own, not a fork of this one: RocksDB's threads would not be in it.
  testing::Child child("keys", dir_.root());
  EXPECT_EQ(child.ReadLine(), "0 0 0");
  EXPECT_EQ(child.Wait(), 0);
}

TEST_F(SecretsTest, AProcessThatKeepsSecretsInMemoryLeavesNoCoreDump) {
  for (const char* where : {"keeper", "store"}) {
    SCOPED_TRACE(where);
    testing::Child child("keep", dir_.root(), where);
    EXPECT_EQ(child.ReadLine(), "0 0 0");
    EXPECT_EQ(child.Wait(), 0);
  }
}

TEST_F(SecretsTest, NothingOfThemStandsInAnyFile) {
  WriteKeys(kOldKey);
  Fill();
  ExpectNothingShows();
  {
    const auto store = Must(Store::Open(Options()));
    Must(Compact(*store));
    (void)Must(CreateSnapshot(*store, "s"));
    EXPECT_TRUE(Must(GetStats(*store)).dictionaries.empty());
    EXPECT_EQ(Must(store->Get(secrets_, {"n", "s-7"}))->json(), Secret(7)->json());
  }
  ExpectNothingShows();
}

// A dictionary is made of pieces of objects, and stored in the clear.
TEST_F(SecretsTest, WhatMovesToEncryptionLeavesNoDictionary) {
  FillInTheClear();
  EXPECT_FALSE(TextsThatShow().empty()) << "or this test would prove nothing";
  {
    const auto store = Must(Store::Open(OptionsOfAProgram()));
    ASSERT_EQ(Must(store->OpenCollection(SpecOf("configmaps"))).id, secrets_);
    EXPECT_EQ(Must(GetStats(*store)).dictionaries.size(), 1U) << "its rows need it";
    Must(store->DropIndex(secrets_, 1));  // as an indexer does: its values are hashes now
    EXPECT_EQ(Must(Compact(*store)).dropped_dictionaries.size(), 1U);
    EXPECT_TRUE(Must(GetStats(*store)).dictionaries.empty());
  }
  auto store = Must(Store::Open(OptionsOfAProgram()));
  EXPECT_EQ(Must(store->Get(secrets_, {"n", "s-7"}))->json(), Secret(7)->json());
  store.reset();  // waits for RocksDB, which removes the manifest of before in the background
  ExpectNothingShows();
  EXPECT_EQ(Sealed(), 400U);
}

TEST_F(SecretsTest, ADictionaryThatARowInTheClearNeedsIsKept) {
  FillInTheClear();
  {
    const auto store = Must(Store::Open(OptionsOfAProgram()));
    (void)Must(store->OpenCollection(SpecOf("configmaps")));
  }
  // It may neither encrypt these rows nor write them in the clear.
  const auto keyless = Must(Store::Open({.path = dir_.path()}));
  EXPECT_TRUE(Must(Compact(*keyless)).dropped_dictionaries.empty());
  EXPECT_EQ(Must(keyless->Get(secrets_, {"n", "s-7"}))->json(), Secret(7)->json());
}

TEST_F(SecretsTest, TheCanaryIsFoundWhereItMayBe) {
  WriteKeys(kOldKey);
  StoreOptions options = Options();
  options.encrypted_resources.clear();
  options.compression = false;
  const auto store = Must(Store::Open(options));
  testing::PutAll(*store, Must(store->OpenCollection(SpecOf("secrets"))).id, {Secret(1)});
  Must(store->Sync());
  EXPECT_FALSE(FilesWith(kCanaryValue).empty()) << "or the search itself would prove nothing";
}

TEST_F(SecretsTest, WithoutAKeyTheyStayInMemory) {
  const auto store = Must(Store::Open({.path = dir_.path()}));
  const auto refused = store->OpenCollection(SpecOf("secrets"));
  EXPECT_EQ(CodeOf(refused), ErrorCode::kForbidden);
  EXPECT_NE(refused.error().message.find("encryption_key_file"), std::string::npos);
  EXPECT_EQ(Must(store->KeeperOf(SpecOf("pods").resource)), store.get());
  Store* const memory = Must(store->KeeperOf(SpecOf("secrets").resource));
  ASSERT_NE(memory, store.get());
  EXPECT_EQ(Must(store->KeeperOf(SpecOf("secrets").resource)), memory);
  EXPECT_EQ(memory->options().memory_limit, store->options().memory_limit / 8);
  const CollectionInfo info = Must(memory->OpenCollection(SpecOf("secrets")));
  testing::PutAll(*memory, info.id, {Secret(1)});
  EXPECT_EQ(Must(memory->Get(info.id, {"n", "s-1"}))->json(), Secret(1)->json());
  EXPECT_EQ(Must(memory->IndexToken(info.id, "plain")), "plain");
  Must(store->Sync());
  EXPECT_EQ(FilesWith("s-1"), std::vector<std::string>());
  EXPECT_EQ(FilesWith(kCanaryField), std::vector<std::string>());
}

TEST_F(SecretsTest, AnIndexValueOfAnUnknownCollectionIsNotShown) {
  WriteKeys(kOldKey);
  const auto store = Must(Store::Open(Options()));
  EXPECT_EQ(CodeOf(store->IndexToken(77, kCanaryValue)), ErrorCode::kNotFound);
}

TEST_F(SecretsTest, WithAKeyTheStoreKeepsThemItself) {
  WriteKeys(kOldKey);
  const auto store = Must(Store::Open(Options()));
  EXPECT_EQ(Must(store->KeeperOf(SpecOf("secrets").resource)), store.get());
}

TEST_F(SecretsTest, AWrongOrMissingKeyIsAClearError) {
  WriteKeys(kOldKey);
  Fill();
  WriteKeys(kNewKey);
  {
    const auto store = Must(Store::Open(Options()));
    EXPECT_EQ(CodeOf(store->Get(secrets_, {"n", "s-1"})), ErrorCode::kForbidden);
    EXPECT_EQ(Must(store->GetHead(secrets_, {"n", "s-1"})).resource_version, "2");
  }
  const auto keyless = Must(Store::Open({.path = dir_.path()}));
  EXPECT_EQ(CodeOf(keyless->Get(secrets_, {"n", "s-1"})), ErrorCode::kForbidden);
  EXPECT_EQ(CodeOf(keyless->Encode(secrets_, *Secret(1))), ErrorCode::kNotFound);
  Must(Compact(*keyless));  // leaves alone what it cannot read
  EXPECT_EQ(Must(keyless->GetHead(secrets_, {"n", "s-1"})).resource_version, "2");
}

TEST_F(SecretsTest, RotationMovesEveryValueToTheNewKey) {
  WriteKeys(kOldKey);
  Fill();
  WriteKeys(std::string(kNewKey) + "\n" + kOldKey);
  {
    const auto store = Must(Store::Open(Options()));
    EXPECT_EQ(Must(store->Get(secrets_, {"n", "s-1"}))->json(), Secret(1)->json());
    Must(Compact(*store));
  }
  WriteKeys(kNewKey);
  const auto store = Must(Store::Open(Options()));
  size_t read = 0;
  Must(store->Scan(secrets_, {}, {}, [&](const ObjectPtr&) { return ++read != 0; }));
  EXPECT_EQ(read, 400U) << "the old key is not needed any more";
}

// As a handler that is behind leaves a change: with the state that it knows.
std::string Waiting(const EncodedObject& known) {
  flatbuffers::FlatBufferBuilder builder;
  const auto state = builder.CreateVector(reinterpret_cast<const uint8_t*>(known.value.data()),
                                          known.value.size());
  fbs::FinishPendingDeltaBuffer(
      builder, fbs::CreatePendingDelta(builder, 1, fbs::DeltaKind_Updated, false, false, state));
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

TEST_F(SecretsTest, CompactNamesWhatWaitsInTheClear) {
  WriteKeys(kOldKey);
  StoreOptions clear = Options();
  clear.encrypted_resources.clear();
  {
    const auto store = Must(Store::Open(clear));
    secrets_ = Must(store->OpenCollection(SpecOf("secrets"))).id;
    const EncodedObject encoded = Must(store->Encode(secrets_, *Secret(1)));
    Transaction transaction = store->Begin();
    transaction.PutDelta(secrets_, "audit", encoded.key, Waiting(encoded), encoded.value);
    Must(store->Commit(std::move(transaction), Durability::kSync));
    EXPECT_TRUE(Must(Compact(*store)).old_keys_needed.empty()) << "nothing of it is encrypted";
  }
  const auto store = Must(Store::Open(Options()));
  (void)Must(store->OpenCollection(SpecOf("secrets")));
  EXPECT_EQ(Must(Compact(*store)).old_keys_needed, std::vector<std::string>{"secrets"});
}

// A change that waits for its handler holds an object as it was sealed.
TEST_F(SecretsTest, RotationSaysThatPendingChangesMayNeedTheOldKey) {
  WriteKeys(kOldKey);
  Fill();
  const auto rotate = [&] {
    const auto store = Must(Store::Open(Options()));
    return Must(Compact(*store)).old_keys_needed;
  };
  const auto change = [&](const auto& put) {
    const auto store = Must(Store::Open(Options()));
    Transaction transaction = store->Begin();
    put(*store, transaction);
    Must(store->Commit(std::move(transaction), Durability::kSync));
  };
  change([&](Store& store, Transaction& transaction) {
    const EncodedObject encoded = Must(store.Encode(secrets_, *Secret(1)));
    transaction.PutDelta(secrets_, "audit", encoded.key, Waiting(encoded), encoded.value);
  });
  EXPECT_TRUE(rotate().empty()) << "there is no older key";
  WriteKeys(std::string(kNewKey) + "\n" + kOldKey);
  EXPECT_EQ(rotate(), std::vector<std::string>{"secrets"});
  change([&](Store&, Transaction& transaction) {
    transaction.DeleteDelta(secrets_, "audit", Secret(1)->key());
  });
  EXPECT_TRUE(rotate().empty()) << "its handler has been told";
}

TEST_F(SecretsTest, ARowUnderAnOldKeyIsNotUsedAgain) {
  WriteKeys(kOldKey);
  Fill();
  WriteKeys(std::string(kNewKey) + "\n" + kOldKey);
  EncodedObject encoded;
  {
    const auto store = Must(Store::Open(Options()));
    (void)Must(store->OpenCollection(SpecOf("secrets")));
    encoded = Must(store->EncodeFrom(secrets_, *Secret(1), *Secret(1)));
    Must(Compact(*store));
  }
  WriteKeys(kNewKey);
  const auto store = Must(Store::Open(Options()));
  EXPECT_EQ(Must(store->Decode(secrets_, encoded.key, encoded.value))->json(), Secret(1)->json());
}

TEST_F(SecretsTest, ARowInTheClearIsNotUsedAgain) {
  WriteKeys(kOldKey);
  StoreOptions options = Options();
  options.compression = false;
  StoreOptions clear = options;
  clear.encrypted_resources.clear();
  {
    const auto store = Must(Store::Open(clear));
    secrets_ = Must(store->OpenCollection(SpecOf("secrets"))).id;
    testing::PutAll(*store, secrets_, {Secret(1)});
    const std::string value = Must(store->EncodeFrom(secrets_, *Secret(1), *Secret(1))).value;
    EXPECT_NE(value.find(kCanaryValue), std::string::npos);
  }
  const auto store = Must(Store::Open(options));
  ASSERT_EQ(Must(store->OpenCollection(SpecOf("secrets"))).id, secrets_);
  const std::string value = Must(store->EncodeFrom(secrets_, *Secret(1), *Secret(1))).value;
  EXPECT_EQ(value.find(kCanaryValue), std::string::npos);
}

TEST_F(SecretsTest, WhatAProgramEncryptsStaysSoWhenACommandCompacts) {
  WriteKeys(kOldKey);
  Fill(OptionsOfAProgram(), "configmaps");
  CompactAsACommandAndReadAll();
}

TEST_F(SecretsTest, AnEncryptedRowStaysSoWhereNothingSaysThatItsCollectionIs) {
  WriteKeys(kOldKey);
  Fill(OptionsOfAProgram(), "configmaps");
  ForgetWhatIsEncrypted("configmaps");
  CompactAsACommandAndReadAll();
}

TEST_F(SecretsTest, WhatIsWrittenToAnEncryptedCollectionIsEncryptedWhateverTheListSays) {
  WriteKeys(kOldKey);
  Fill(OptionsOfAProgram(), "configmaps");
  {
    const auto store = Must(Store::Open(Options()));
    ASSERT_EQ(Must(store->OpenCollection(SpecOf("configmaps"))).id, secrets_);
    EXPECT_NE(Must(store->IndexToken(secrets_, "canary-label-value")), "canary-label-value");
    testing::PutAll(*store, secrets_, {Secret(1), Secret(1000)});
  }
  ExpectNothingShows();
  EXPECT_EQ(Sealed(), 401U);
  const auto keyless = Must(Store::Open({.path = dir_.path()}));
  EXPECT_EQ(CodeOf(keyless->OpenCollection(SpecOf("configmaps"))), ErrorCode::kForbidden);
}

TEST_F(SecretsTest, TheKeyMayComeFromTheEnvironment) {
  ::setenv("LARDER_TEST_STORE_KEY", kOldKey, 1);
  const auto store =
      Must(Store::Open({.path = dir_.path(), .encryption_key_variable = "LARDER_TEST_STORE_KEY"}));
  const CollectionInfo info = Must(store->OpenCollection(SpecOf("secrets")));
  testing::PutAll(*store, info.id, {Secret(1)});
  EXPECT_EQ(Must(store->Get(info.id, {"n", "s-1"}))->json(), Secret(1)->json());
  EXPECT_TRUE(HiddenFromPrograms("LARDER_TEST_STORE_KEY"));
  ::unsetenv("LARDER_TEST_STORE_KEY");
}

TEST_F(SecretsTest, ARowMovedToAnotherPlaceIsRefused) {
  WriteKeys(kOldKey);
  Fill();
  const auto store = Must(Store::Open(Options()));
  (void)Must(store->OpenCollection(SpecOf("secrets")));
  EncodedObject moved = Must(store->Encode(secrets_, *Secret(1)));
  moved.key.name = "s-2";
  Transaction transaction = store->Begin();
  transaction.PutObject(secrets_, moved);
  Must(store->Commit(std::move(transaction), Durability::kRelaxed));
  EXPECT_EQ(CodeOf(store->Get(secrets_, {"n", "s-2"})), ErrorCode::kCorruption);
}

}  // namespace
}  // namespace larder
