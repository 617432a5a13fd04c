#include "storage/value_codec.h"

#include <flatbuffers/flatbuffers.h>
#include <gtest/gtest.h>

#include <cstring>

#include "schema/envelope_generated.h"
#include "storage/keys.h"
#include "tests/storage/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using testing::Must;

class OneDictionary final : public DictionarySource {
 public:
  explicit OneDictionary(DictionaryPtr dictionary) : dictionary_(std::move(dictionary)) {}
  DictionaryPtr Find(DictionaryId id) const override {
    return dictionary_ && dictionary_->id() == id ? dictionary_ : nullptr;
  }

 private:
  DictionaryPtr dictionary_;
};

DictionaryPtr TrainOnPods() {
  static const DictionaryPtr kDictionary = [] {
    TrainingSamples samples;
    ObjectParts parts;
    for (uint64_t i = 0; i < 200; ++i) {
      TakeApart(*testing::Pod(i * 10), parts);
      samples.Add(parts.raw);
    }
    return Must(TrainDictionary(5, 200, samples));
  }();
  return kDictionary;
}

std::string Encode(const Object& object, const EncodeOptions& options) {
  ObjectParts parts;
  TakeApart(object, parts);
  return Must(EncodeValue(keys::Object(1, object.key()), parts, options)).value;
}

class ValueCodec : public ::testing::Test {
 protected:
  Result<ObjectPtr> Decode(const Object& like, std::string_view value) {
    return DecodeValue(keys::Object(1, like.key()), value, {&dictionaries_, &cipher_});
  }

  Cipher cipher_ = Must(Cipher::Make({std::string(32, 'k')}));
  OneDictionary dictionaries_{TrainOnPods()};
  std::vector<EncodeOptions> forms_ = {{false, nullptr, nullptr},
                                       {true, nullptr, nullptr},
                                       {true, TrainOnPods(), nullptr},
                                       {true, TrainOnPods(), &cipher_},
                                       {false, nullptr, &cipher_}};
};

TEST_F(ValueCodec, AHeadIsReplacedInEveryFormAndWhatIsCompressedStays) {
  const ObjectPtr before = testing::Pod(7, 100);
  const ObjectPtr after = testing::Pod(7, 101);
  ASSERT_TRUE(DifferOnlyInVersion(*before, *after));
  for (const EncodeOptions& form : forms_) {
    const std::string value =
        Must(ReplaceHead(keys::Object(1, before->key()), Encode(*before, form),
                         {std::string(after->uid()), std::string(after->resource_version())}));
    EXPECT_EQ(Must(Decode(*after, value))->json(), after->json());
    EXPECT_EQ(Must(Decode(*after, value))->envelope_bytes(), after->envelope_bytes());
    if (form.cipher) continue;
    EXPECT_EQ(value, Encode(*after, form));
  }
}

// Whatever a document is like: where two versions are taken for the same but for the version, the
// row of one with the head of the other is the row of the other.
TEST_F(ValueCodec, VersionsAreTakenForEqualOnlyWhereTheirRowsAre) {
  EXPECT_FALSE(DifferOnlyInVersion(*testing::Pod(7, 1), *testing::Pod(7, 2, "Pending")));
  EXPECT_FALSE(DifferOnlyInVersion(*testing::Pod(7, 1), *testing::Pod(8, 1)));
  EXPECT_FALSE(DifferOnlyInVersion(*testing::Pod(7, 9), *testing::Pod(7, 10)));
  size_t equal = 0;
  for (const std::string& document : testing::AwkwardDocuments()) {
    std::string next = document;
    const size_t at = next.find("\"resourceVersion\"");
    const size_t digit = at == std::string::npos ? at : next.find_first_of("0123456789", at + 17);
    if (digit == std::string::npos) continue;
    next[digit] = next[digit] == '3' ? '4' : '3';
    const auto a = Object::Parse(document);
    const auto b = Object::Parse(next);
    if (!a || !b || !DifferOnlyInVersion(**a, **b)) continue;
    ++equal;
    const std::string value =
        Must(ReplaceHead(keys::Object(1, (*a)->key()), Encode(**a, forms_[1]),
                         {std::string((*b)->uid()), std::string((*b)->resource_version())}));
    EXPECT_EQ(Must(Decode(**b, value))->json(), (*b)->json());
  }
  EXPECT_GT(equal, 0U);
}

TEST_F(ValueCodec, GivesBackEveryDocumentInEveryForm) {
  std::mt19937_64 random(testing::Seed());
  std::vector<std::string> documents = testing::AwkwardDocuments();
  for (uint64_t i = 0; i < 50; ++i) documents.push_back(testing::PodJson(i));
  for (int i = 0; i < 500; ++i) documents.push_back(testing::RandomDocument(random));
  for (const std::string& document : documents) {
    const ObjectPtr object = Must(Object::Parse(document, {"v1", "Thing"}));
    for (const EncodeOptions& form : forms_) {
      const ObjectPtr read = Must(Decode(*object, Encode(*object, form)));
      ASSERT_EQ(read->json(), object->json());
      ASSERT_EQ(read->envelope_bytes(), object->envelope_bytes());
    }
  }
}

TEST_F(ValueCodec, DetectsEveryFlippedBit) {
  const ObjectPtr object = testing::SmallObject("ns", "a", 7);
  for (const EncodeOptions& form : forms_) {
    const std::string value = Encode(*object, form);
    for (size_t i = 0; i < value.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string damaged = value;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
        ASSERT_EQ(CodeOf(Decode(*object, damaged)), ErrorCode::kCorruption) << i;
        ASSERT_FALSE(DecodeHead(keys::Object(1, object->key()), damaged, nullptr));
      }
    }
  }
}

TEST_F(ValueCodec, DetectsEveryTruncationAndWhatIsAppended) {
  const ObjectPtr object = testing::Pod(1);
  for (const EncodeOptions& form : forms_) {
    const std::string value = Encode(*object, form);
    for (size_t size = 0; size < value.size(); size += 1 + value.size() / 500) {
      ASSERT_EQ(CodeOf(Decode(*object, value.substr(0, size))), ErrorCode::kCorruption) << size;
    }
    EXPECT_EQ(CodeOf(Decode(*object, value + '\0')), ErrorCode::kCorruption);
  }
}

TEST_F(ValueCodec, RefusesARowCopiedToAnotherKey) {
  const ObjectPtr a = testing::SmallObject("ns", "a", 7), b = testing::SmallObject("ns", "b", 7);
  for (const EncodeOptions& form : forms_) {
    const auto moved = Decode(*b, Encode(*a, form));
    EXPECT_EQ(CodeOf(moved), ErrorCode::kCorruption);
    EXPECT_NE(moved.error().message.find("1/ns/b"), std::string::npos) << "names the key";
  }
}

TEST_F(ValueCodec, ReadsTheHeadWithoutTheRest) {
  const ObjectPtr pod = testing::Pod(1, 42);
  const std::string key = keys::Object(1, pod->key());
  const ValueHead head = Must(DecodeHead(key, Encode(*pod, forms_[2]), nullptr));
  EXPECT_EQ(head.head.uid, pod->uid());
  EXPECT_EQ(head.head.resource_version, "42");
  EXPECT_EQ(head.dictionary, 5U);
  EXPECT_TRUE(head.compressed);
  EXPECT_FALSE(head.encrypted);
  const Cipher rotated = Must(Cipher::Make({std::string(32, 'n'), std::string(32, 'k')}));
  const std::string sealed = Encode(*pod, forms_[3]);
  EXPECT_TRUE(Must(DecodeHead(key, sealed, &cipher_)).current_key);
  EXPECT_FALSE(Must(DecodeHead(key, sealed, &rotated)).current_key);
  EXPECT_EQ(DictionaryOf(sealed), 5U);
}

TEST_F(ValueCodec, ADictionaryMakesAPodSmall) {
  const ObjectPtr pod = testing::Pod(777);
  const size_t plain = Encode(*pod, forms_[0]).size();
  const size_t compressed = Encode(*pod, forms_[1]).size();
  const size_t with_dictionary = Encode(*pod, forms_[2]).size();
  EXPECT_LT(compressed, plain / 2);
  EXPECT_LT(with_dictionary, plain / 10);
}

// Puts numbers anywhere into an envelope.
template <typename Number>
void Put(std::string& bytes, size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

// Verifying an envelope before uid and version are put into it would say nothing about it: the
// Verifier allows a text to overlap what it likes.
TEST_F(ValueCodec, RefusesAForgedEnvelopeWhoseUidIsWhereItsOwnOffsetsAre) {
  constexpr size_t kTable = 48, kVtable = 402, kBlank = 0x3030, kFields = kTable + kBlank;
  std::string envelope(kFields + 64, '\0');
  const auto field = [&](size_t number, size_t place) {
    Put(envelope, kVtable + 4 + 2 * number, static_cast<uint16_t>(place));
  };
  Put(envelope, 0, static_cast<uint32_t>(kTable));
  std::memcpy(envelope.data() + 4, "LRDE", 4);
  Put(envelope, kVtable, uint16_t{4 + 14 * 2});
  Put(envelope, kVtable + 2, uint16_t{300});
  Put(envelope, kTable, static_cast<int32_t>(kTable) - static_cast<int32_t>(kVtable));
  // The kind's place is the length of the uid, the name's and that of generateName are its text.
  field(1, 4);
  field(3, kBlank);
  field(4, kBlank);
  field(5, 256);
  Put(envelope, kTable + 4, static_cast<uint32_t>(kFields + 4 - (kTable + 4)));
  Put(envelope, kTable + 256, static_cast<uint32_t>(kVtable + 4 + 2 - (kTable + 256)));
  Put(envelope, kFields, uint32_t{4});
  Put(envelope, kFields + 4, uint32_t{1});
  envelope[kFields + 8] = 'a';
  ObjectParts parts;
  parts.head = {"\xfc\xff\xfc\xff", ""};
  parts.raw = envelope + std::string("\0{}", 3);
  parts.envelope_bytes = envelope.size();
  parts.json_bytes = 2;
  const std::string key = keys::Object(1, {"x", "a"});
  const std::string value = Must(EncodeValue(key, parts, {false, nullptr, nullptr})).value;
  EXPECT_EQ(CodeOf(DecodeValue(key, value, {})), ErrorCode::kCorruption);
}

// A few kilobytes that would become gigabytes.
TEST_F(ValueCodec, AForgedRowDoesNotGrowBeyondItsSize) {
  for (const bool owners : {false, true}) {
    flatbuffers::FlatBufferBuilder builder;
    const auto name = builder.CreateString("a");
    const auto large = builder.CreateString(std::string(1 << 20, 'x'));
    const auto pairs =
        builder.CreateVector(std::vector(20'000, fbs::CreateKeyValue(builder, name, large)));
    const auto refs = builder.CreateVector(
        std::vector(20'000, fbs::CreateOwnerReference(builder, name, name, large, name)));
    fbs::EnvelopeBuilder root(builder);
    root.add_name(name);
    if (owners) {
      root.add_owners(refs);
    } else {
      root.add_labels(pairs);
    }
    fbs::FinishEnvelopeBuffer(builder, root.Finish());
    ObjectParts parts;
    parts.raw.assign(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
    parts.envelope_bytes = parts.raw.size();
    // Labels are put back into the document, and of owners everybody may ask.
    parts.raw += owners ? std::string("\0{}", 3) : std::string("\1\10\0", 3);
    parts.json_bytes = owners ? 2 : 1 << 20;
    const std::string key = keys::Object(1, {"x", "a"});
    const std::string value = Must(EncodeValue(key, parts, {})).value;
    EXPECT_LT(value.size(), 100'000U);
    EXPECT_EQ(CodeOf(DecodeValue(key, value, {})), ErrorCode::kCorruption) << owners;
  }
}

TEST_F(ValueCodec, ReadsAsManyLabelsAsItWrites) {
  std::string json = R"({"metadata":{"name":"a","labels":{"":"")";
  for (int i = 0; i < 1'100'000; ++i) json += R"(,"":"")";
  const ObjectPtr object = Must(Object::Parse(json + "}}}"));
  EXPECT_EQ(Must(Decode(*object, Encode(*object, {})))->json(), object->json());
}

TEST_F(ValueCodec, NamesWhatIsMissing) {
  const ObjectPtr pod = testing::Pod(1);
  const std::string key = keys::Object(1, pod->key());
  const OneDictionary none(nullptr);
  const auto without_dictionary = DecodeValue(key, Encode(*pod, forms_[2]), {&none, nullptr});
  EXPECT_EQ(CodeOf(without_dictionary), ErrorCode::kCorruption);
  EXPECT_NE(without_dictionary.error().message.find("dictionary"), std::string::npos);
  const auto without_key = DecodeValue(key, Encode(*pod, forms_[3]), {&dictionaries_, nullptr});
  EXPECT_EQ(CodeOf(without_key), ErrorCode::kForbidden);
  const Cipher other = Must(Cipher::Make({std::string(32, 'x')}));
  EXPECT_EQ(CodeOf(DecodeValue(key, Encode(*pod, forms_[3]), {&dictionaries_, &other})),
            ErrorCode::kForbidden);
}

TEST(DictionaryRecord, SurvivesAndIsVerified) {
  const DictionaryPtr dictionary = TrainOnPods();
  const std::string record = dictionary->Serialize();
  const DictionaryPtr read = Must(Dictionary::Parse(5, record));
  EXPECT_EQ(read->Serialize(), record);
  EXPECT_EQ(read->seen(), 200U);
  for (size_t i = 0; i < record.size(); i += 97) {
    std::string damaged = record;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_EQ(CodeOf(Dictionary::Parse(5, damaged)), ErrorCode::kCorruption) << i;
    EXPECT_FALSE(Dictionary::Parse(5, record.substr(0, i)));
  }
}

TEST(DictionaryTraining, SaysWhenThereIsTooLittleToLearnFrom) {
  TrainingSamples samples;
  samples.Add("a");
  samples.Add("b");
  EXPECT_EQ(CodeOf(TrainDictionary(1, 1, samples)), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace larder
