#include "indexer/indexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "indexer/lister.h"
#include "storage/maintenance.h"
#include "tests/indexer/support.h"

namespace larder {
namespace {

using testing::CodeOf;
using ::testing::ElementsAre;
using testing::Must;
using testing::NamesOf;
using testing::Thing;
using testing::ThingIndexes;
using Outcome = Indexer::Outcome;

using IndexerTest = testing::IndexedStore;

TEST_F(IndexerTest, FindsObjectsByLabelFieldListAndFunction) {
  Write({Thing("a", 1, "node-1", "web", {"x", "y"}), Thing("b", 2, "node-1", "db", {"y"}),
         Thing("c", 3, "node-2", "web", {})});
  EXPECT_THAT(By("node", "node-1"), ElementsAre("a", "b"));
  EXPECT_THAT(By("app", "web"), ElementsAre("a", "c"));
  EXPECT_THAT(By("tag", "y"), ElementsAre("a", "b"));
  EXPECT_THAT(By("initial", "c"), ElementsAre("c"));
  EXPECT_THAT(By("tag", "z"), ElementsAre());
  EXPECT_THAT(Must(indexer_->ListIndexFuncValues("tag")), ElementsAre("x", "y"));
  EXPECT_THAT(NamesOf(Must(indexer_->Index("tag", *Thing("z", 1, "", "", {"x", "y"})))),
              ElementsAre("a", "b"));
  const auto keys = Must(indexer_->IndexKeys("node", "node-2"));
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].name, "c");
  EXPECT_EQ(CodeOf(indexer_->ByIndex("nothing", "x")), ErrorCode::kNotFound);
  EXPECT_NE(indexer_->ByIndex("nothing", "x").error().message.find("app, "), std::string::npos);
}

TEST_F(IndexerTest, AFunctionThatThrowsGivesNoValuesAndEndsNothing) {
  const auto declare = [](std::string name) {
    return IndexDefinition::ByFunction(std::move(name), 1, [](const Object& object) {
      if (object.name() == "bad") throw std::runtime_error("no such owner");
      return std::vector<std::string>{"x"};
    });
  };
  Must(indexer_->AddIndexers({declare("first")}));
  Write({Thing("bad", 1, "node-1", "web", {}), Thing("good", 2, "node-1", "web", {})});
  EXPECT_THAT(By("first", "x"), ElementsAre("good"));
  EXPECT_THAT(By("node", "node-1"), ElementsAre("bad", "good")) << "the other indexes have it";
  // On the builder's thread, too.
  Must(indexer_->AddIndexers({declare("second")}));
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  EXPECT_THAT(By("second", "x"), ElementsAre("good"));
  for (const auto& progress : indexer_->Progress()) {
    EXPECT_EQ(progress.exceptions, progress.index == "first"    ? 1U
                                   : progress.index == "second" ? 1U
                                                                : 0U)
        << progress.index;
  }
}

TEST_F(IndexerTest, KeepsIndexesRightThroughUpdateDeleteAndRecreation) {
  EXPECT_EQ(Upsert(Thing("a", 1, "node-1", "web", {"x"})).outcome, Outcome::kAdded);
  const auto updated = Upsert(Thing("a", 2, "node-2", "web", {"x", "y"}));
  EXPECT_EQ(updated.outcome, Outcome::kUpdated);
  EXPECT_EQ(updated.old->resource_version(), "1");
  EXPECT_THAT(By("node", "node-1"), ElementsAre());
  EXPECT_THAT(By("node", "node-2"), ElementsAre("a"));
  EXPECT_THAT(By("app", "web"), ElementsAre("a"));
  EXPECT_THAT(By("tag", "y"), ElementsAre("a"));

  const auto recreated = Upsert(Thing("a", 3, "node-2", "web", {"z"}, "another-uid"));
  EXPECT_EQ(recreated.outcome, Outcome::kRecreated);
  EXPECT_THAT(By("tag", "x"), ElementsAre());
  std::vector<std::string> uids;
  Must(indexer_->ForEachIndexed(
      "node", "node-2",
      [&](const IndexEntry& entry) {
        uids.push_back(entry.uid);
        return true;
      },
      indexer_->TakeView()));
  EXPECT_THAT(uids, ElementsAre("another-uid"));

  EXPECT_EQ(Delete("a", "another-uid", "4").outcome, Outcome::kDeleted);
  for (const char* value : {"node-1", "node-2"}) EXPECT_THAT(By("node", value), ElementsAre());
  for (const char* value : {"x", "y", "z"}) EXPECT_THAT(By("tag", value), ElementsAre());
  EXPECT_EQ(CodeOf(indexer_->GetByKey({"n", "a"})), ErrorCode::kNotFound);
}

TEST_F(IndexerTest, OneBatchMayTouchAKeyManyTimes) {
  const auto writer = indexer_->BeginWrite();
  const auto put = [&](const ObjectPtr& object) {
    return Must(writer->Upsert(object, Must(store_->Encode(indexer_->collection().id, *object))));
  };
  EXPECT_EQ(put(Thing("a", 1, "node-1", "web", {})).outcome, Outcome::kAdded);
  EXPECT_EQ(put(Thing("a", 2, "node-2", "web", {})).outcome, Outcome::kUpdated);
  EXPECT_EQ(Must(writer->Delete({"n", "a"}, "uid", "3")).outcome, Outcome::kDeleted);
  EXPECT_EQ(put(Thing("a", 4, "node-3", "db", {}, "new")).outcome, Outcome::kAdded);
  EXPECT_EQ(put(Thing("b", 5, "node-3", "db", {})).outcome, Outcome::kAdded);
  EXPECT_EQ(Must(writer->Delete({"n", "b"}, "uid", "6")).outcome, Outcome::kDeleted);
  EXPECT_EQ(CodeOf(indexer_->GetByKey({"n", "a"})), ErrorCode::kNotFound) << "not yet committed";
  Must(writer->Commit(Durability::kRelaxed));
  EXPECT_EQ(Must(indexer_->GetByKey({"n", "a"}))->resource_version(), "4");
  EXPECT_THAT(By("node", "node-1"), ElementsAre());
  EXPECT_THAT(By("node", "node-2"), ElementsAre());
  EXPECT_THAT(By("node", "node-3"), ElementsAre("a"));
  EXPECT_EQ(CodeOf(indexer_->GetByKey({"n", "b"})), ErrorCode::kNotFound);
}

TEST_F(IndexerTest, PreparedObjectsAreTheSameThing) {
  const ObjectPtr object = Thing("a", 1, "node-1", "web", {"x"});
  const Indexer::Prepared prepared = Must(indexer_->Prepare(*object));
  // An index that comes in between is not forgotten.
  Must(indexer_->AddIndexers({Must(IndexDefinition::ByField("late", "spec.tags[0]"))}));
  {
    const auto writer = indexer_->BeginWrite();
    EXPECT_EQ(Must(writer->Upsert(object, prepared)).outcome, Outcome::kAdded);
    Must(writer->Commit(Durability::kRelaxed));
  }
  EXPECT_THAT(By("node", "node-1"), ElementsAre("a"));
  EXPECT_THAT(By("tag", "x"), ElementsAre("a"));
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  EXPECT_THAT(By("late", "x"), ElementsAre("a"));
}

TEST_F(IndexerTest, ANewIndexOnAFilledCollectionIsBuilt) {
  std::vector<ObjectPtr> things;
  for (int i = 0; i < 1000; ++i) {
    things.push_back(Thing("t" + std::to_string(i), 1, "node-" + std::to_string(i % 5), "web", {}));
  }
  Write(things);
  Reopen({Must(IndexDefinition::ByField("node2", "spec.nodeName"))});
  // Until it is ready a lookup says so, or scans: never a part.
  const auto found = indexer_->ByIndex("node2", "node-1", WhenNotReady::kFail);
  if (found) {
    EXPECT_EQ(found->size(), 200U);
  } else {
    EXPECT_EQ(found.error().code, ErrorCode::kNotReady);
  }
  EXPECT_EQ(Must(indexer_->ByIndex("node2", "node-1", WhenNotReady::kScan)).size(), 200U);
  EXPECT_EQ(Must(indexer_->IndexKeys("node2", "node-1", WhenNotReady::kScan)).size(), 200U);
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(20)));
  EXPECT_EQ(Must(indexer_->ByIndex("node2", "node-1", WhenNotReady::kFail)).size(), 200U);
  const auto progress = indexer_->Progress();
  ASSERT_EQ(progress.size(), 1U);
  EXPECT_TRUE(progress[0].ready);
  EXPECT_EQ(progress[0].scanned, 1000U);
  Reopen({Must(IndexDefinition::ByField("node2", "spec.nodeName"))});
  EXPECT_TRUE(indexer_->Progress()[0].ready) << "built once, not at every start";
  EXPECT_EQ(indexer_->Progress()[0].scanned, 0U);
}

// The first who opens a collection does not know what others will declare on it.
TEST_F(IndexerTest, AnIndexThatIsDeclaredLaterThanAtTheOpeningIsNotBuiltAgain) {
  Write({Thing("a", 1, "node-1", "web", {"x"}), Thing("b", 1, "node-2", "web", {})});
  const std::vector<IndexDefinition> all = ThingIndexes();
  Reopen({all[0]});
  EXPECT_EQ(CodeOf(indexer_->ByIndex("app", "web")), ErrorCode::kNotFound) << "not declared yet";
  EXPECT_EQ(indexer_->GetIndexers().size(), 1U);
  Must(indexer_->AddIndexers({all.begin() + 1, all.end()}));
  for (const Indexer::BuildProgress& index : indexer_->Progress()) {
    EXPECT_TRUE(index.ready) << index.index;
    EXPECT_EQ(index.scanned, 0U) << index.index;
  }
  EXPECT_THAT(By("app", "web"), ElementsAre("a", "b"));
  EXPECT_THAT(By("tag", "x"), ElementsAre("a"));
  EXPECT_THAT(By("initial", "b"), ElementsAre("b"));
}

TEST_F(IndexerTest, AnIndexThatNobodyDeclaredYetIsKeptInStep) {
  Write({Thing("a", 1, "node-1", "web", {}), Thing("b", 1, "node-2", "web", {})});
  Reopen({});
  Upsert(Thing("a", 2, "node-1", "db", {}));
  Upsert(Thing("c", 3, "node-1", "web", {}));
  Delete("b", "uid", "4");
  Must(indexer_->AddIndexers({IndexDefinition::ByLabel("app")}));
  EXPECT_EQ(indexer_->Progress()[0].scanned, 0U) << "it was not built again";
  EXPECT_THAT(By("app", "web"), ElementsAre("c"));
  EXPECT_THAT(By("app", "db"), ElementsAre("a"));
}

TEST_F(IndexerTest, AFunctionThatNobodyGaveInTimeIsBuiltAgain) {
  Write({Thing("a", 1, "node-1", "web", {})});
  Reopen({});
  Upsert(Thing("b", 2, "node-1", "web", {}));
  const auto records = Must(store_->IndexRecords(indexer_->collection().id));
  EXPECT_EQ(records.size(), 3U) << "its index went with the first change";
  Must(indexer_->AddIndexers({ThingIndexes().back()}));
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  EXPECT_EQ(indexer_->Progress()[0].scanned, 2U);
  EXPECT_THAT(By("initial", "a"), ElementsAre("a"));
  EXPECT_THAT(By("initial", "b"), ElementsAre("b"));
}

TEST_F(IndexerTest, AFunctionThatNobodyGaveIsNotBuilt) {
  Write({Thing("a", 1, "node-1", "web", {})});
  Reopen({Must(IndexDefinition::FromStored("owner", "func:owner@1"))});
  EXPECT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10))) << "it waits for nothing";
  Must(indexer_->AddIndexers({IndexDefinition::ByLabel("other")}));
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  for (const IndexRecord& record : Must(store_->IndexRecords(indexer_->collection().id))) {
    EXPECT_EQ(record.ready, record.name != "owner") << record.name;
  }
}

TEST_F(IndexerTest, AnotherDefinitionUnderTheNameOfAnUndeclaredIndexReplacesIt) {
  Write({Thing("a", 1, "node-1", "web", {"x"})});
  Reopen({});
  Must(indexer_->AddIndexers({Must(IndexDefinition::ByField("app", "spec.tags[0]"))}));
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  EXPECT_THAT(By("app", "web"), ElementsAre());
  EXPECT_THAT(By("app", "x"), ElementsAre("a"));
  EXPECT_EQ(Must(store_->IndexRecords(indexer_->collection().id)).size(), 4U);
}

TEST_F(IndexerTest, AnIndexThatNobodyDeclaresForLongIsDropped) {
  const auto stored = [this] {
    return Must(store_->IndexRecords(indexer_->collection().id)).size();
  };
  FakeClock clock;
  clock_ = &clock;
  const auto later = [&](std::chrono::hours how_much, std::vector<IndexDefinition> indexes) {
    clock.Advance(how_much);
    Reopen(std::move(indexes));
  };
  Write({Thing("a", 1, "node-1", "web", {})});
  later(std::chrono::hours(1), {});
  EXPECT_EQ(stored(), 4U);
  later(std::chrono::hours(24 * 6), {IndexDefinition::ByLabel("app")});
  later(std::chrono::hours(23), {});
  EXPECT_EQ(stored(), 4U);
  later(std::chrono::hours(2), {});
  EXPECT_EQ(stored(), 1U) << "only the one that was declared meanwhile";
  later(std::chrono::hours(24 * 7), {});
  EXPECT_EQ(stored(), 0U);
  indexer_.reset();
  store_.reset();  // before the clock
}

TEST_F(IndexerTest, AChangedDefinitionIsBuiltAnew) {
  Write({Thing("a", 1, "node-1", "web", {})});
  const auto by = [](int version, std::string value) {
    return IndexDefinition::ByFunction("f", version, [value = std::move(value)](const Object&) {
      return std::vector<std::string>{value};
    });
  };
  Reopen({by(1, "one")});
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  EXPECT_THAT(By("f", "one"), ElementsAre("a"));
  Reopen({by(2, "two")});
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  EXPECT_THAT(By("f", "one"), ElementsAre());
  EXPECT_THAT(By("f", "two"), ElementsAre("a"));
}

TEST_F(IndexerTest, IndexesAreDeclaredOnce) {
  EXPECT_EQ(CodeOf(indexer_->AddIndexers({IndexDefinition::ByLabel("app")})),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(CodeOf(indexer_->AddIndexers(
                {IndexDefinition::ByLabel("new"), IndexDefinition::ByLabel("other", "new")})),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(indexer_->GetIndexers().size(), 4U) << "all or none";
  Must(indexer_->AddIndexers({IndexDefinition::ByLabel("new")}));
  EXPECT_EQ(indexer_->GetIndexers().size(), 5U);
}

// Whoever looks at the indexes holds the set he looks at, though another one takes its place.
TEST_F(IndexerTest, IndexesAreReadWhileOthersAreAdded) {
  std::jthread reader([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const IndexDefinition& index : indexer_->GetIndexers())
        EXPECT_FALSE(index.name().empty());
      for (const auto& progress : indexer_->Progress()) EXPECT_FALSE(progress.index.empty());
    }
  });
  for (int i = 0; i < 100; ++i) {
    Must(indexer_->AddIndexers({IndexDefinition::ByLabel("label-" + std::to_string(i))}));
  }
  EXPECT_EQ(indexer_->GetIndexers().size(), 104U);
}

TEST_F(IndexerTest, CommitsGoOnWhileAnIndexIsBuilt) {
  std::vector<ObjectPtr> things;
  for (int i = 0; i < 3000; ++i) {
    things.push_back(Thing("t" + std::to_string(i), 1, "node-0", "web", {}));
  }
  Write(things);
  Must(indexer_->AddIndexers({Must(IndexDefinition::ByField("late", "spec.nodeName"))}));
  std::map<std::string, std::string> model;
  for (int i = 0; i < 3000; ++i) model["t" + std::to_string(i)] = "node-0";
  std::mt19937_64 random(testing::Seed());
  uint64_t version = 2;
  while (!indexer_->Progress().back().ready) {
    const std::string name = "t" + std::to_string(random() % 4000);
    if (random() % 4 == 0) {
      Delete(name, "", std::to_string(version++));
      model.erase(name);
    } else {
      const std::string node = "node-" + std::to_string(random() % 3);
      Upsert(Thing(name, version++, node, "web", {}));
      model[name] = node;
    }
  }
  for (const char* node : {"node-0", "node-1", "node-2"}) {
    std::vector<std::string> expected;
    for (const auto& [name, at] : model) {
      if (at == node) expected.push_back(name);
    }
    EXPECT_EQ(NamesOf(Must(indexer_->ByIndex("late", node, WhenNotReady::kFail))), expected);
  }
}

// A view taken before an index became ready has only a part of its keys.
TEST_F(IndexerTest, AViewFromBeforeTheEndOfABuildIsNotTakenForComplete) {
  Write({Thing("a", 1, "node-1", "web", {}), Thing("b", 1, "node-1", "web", {})});
  const Indexer::View before = indexer_->TakeView();
  Must(indexer_->AddIndexers({Must(IndexDefinition::ByField("late", "spec.nodeName"))}));
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  const auto visit = [](const IndexEntry&) { return true; };
  EXPECT_EQ(CodeOf(indexer_->ForEachIndexed("late", "node-1", visit, before)),
            ErrorCode::kNotReady);
  Must(indexer_->ForEachIndexed("late", "node-1", visit, indexer_->TakeView()));
}

TEST_F(IndexerTest, AttachesToALiveStoreForReading) {
  Write({Thing("a", 1, "node-1", "web", {"x"}), Thing("b", 1, "node-1", "db", {"y"})});
  const auto reader = Must(Store::OpenReadOnly({.path = dir_.path()}));
  const auto collections = Must(reader->Collections());
  ASSERT_EQ(collections.size(), 1U);
  const auto attached = Must(Indexer::Attach(reader.get(), collections[0]));
  EXPECT_THAT(NamesOf(Must(attached->ByIndex("node", "node-1"))), ElementsAre("a", "b"));
  EXPECT_THAT(NamesOf(Must(attached->ByIndex("initial", "b"))), ElementsAre("b"));
  EXPECT_EQ(attached->GetIndexers().size(), 4U);
  Upsert(Thing("a", 2, "node-2", "web", {}));
  Must(reader->CatchUp());
  EXPECT_THAT(NamesOf(Must(attached->ByIndex("node", "node-2"))), ElementsAre("a"));
  EXPECT_EQ(Must(attached->GetByKey({"n", "a"}))->resource_version(), "2");
}

TEST_F(IndexerTest, ADefinitionMayHaveANumberSign) {
  const auto declare = [] {
    return std::vector<IndexDefinition>{
        Must(IndexDefinition::ByField("note", "metadata.annotations['a#b']")),
        IndexDefinition::ByFunction("owner#1", 2,
                                    [](const Object&) { return std::vector<std::string>{"x"}; })};
  };
  const ObjectPtr noted = Must(Object::Parse(
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","annotations":{"a#b":"c"}}})"));
  Reopen(declare());
  Write({noted});
  // Not declared the second time, so that it is read back from what is stored.
  Reopen({});
  Must(indexer_->AddIndexers(declare()));
  EXPECT_THAT(NamesOf(Must(indexer_->ByIndex("note", "c", WhenNotReady::kFail))), ElementsAre("a"));
  EXPECT_THAT(NamesOf(Must(indexer_->ByIndex("owner#1", "x", WhenNotReady::kFail))),
              ElementsAre("a"));
  const auto reader = Must(Store::OpenReadOnly({.path = dir_.path()}));
  const auto attached = Must(Indexer::Attach(reader.get(), Must(reader->Collections()).front()));
  EXPECT_THAT(NamesOf(Must(attached->ByIndex("note", "c"))), ElementsAre("a"));
  EXPECT_EQ(Must(Verify(*store_)).problem_count, 0U);
}

TEST_F(IndexerTest, ADefinitionThatThisBuildDoesNotKnowBlocksNothing) {
  Write({Thing("a", 1, "node-1", "web", {})});
  Transaction transaction = store_->Begin();
  transaction.PutIndexRecord(indexer_->collection().id, {90, "later", "cel:self.spec", true});
  Must(store_->Commit(std::move(transaction), Durability::kRelaxed));
  const auto reader = Must(Store::OpenReadOnly({.path = dir_.path()}));
  const auto attached = Must(Indexer::Attach(reader.get(), Must(reader->Collections()).front()));
  EXPECT_EQ(attached->GetIndexers().size(), 4U) << "it is left out";
  Reopen(ThingIndexes());
  EXPECT_THAT(By("node", "node-1"), ElementsAre("a"));
  EXPECT_EQ(Must(store_->IndexRecords(indexer_->collection().id)).size(), 4U) << "it is dropped";
}

class SealedIndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteKeys(testing::kOldKey);
    store_ = Must(Store::Open(Options()));
    const auto indexer =
        Must(Indexer::Open(store_.get(), nullptr, testing::SpecOf("secrets"), ThingIndexes()));
    const auto writer = indexer->BeginWrite();
    for (const ObjectPtr& thing :
         {Thing("a", 1, "node-1", "web", {}), Thing("b", 2, "node-1", "db", {})}) {
      Must(writer->Upsert(thing, Must(indexer->Prepare(*thing))));
    }
    Must(writer->Commit(Durability::kSync));
  }
  void WriteKeys(const std::string& text) {
    std::ofstream(dir_.path("keys")) << text;
    ::chmod(dir_.path("keys").c_str(), 0600);
  }
  StoreOptions Options() const {
    return {.path = dir_.path(), .encryption_key_file = dir_.path("keys")};
  }
  void Attach(const StoreOptions& options) {
    attached_.reset();
    reader_ = Must(Store::OpenReadOnly(options));
    attached_ = Must(Indexer::Attach(reader_.get(), Must(reader_->Collections()).front()));
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_, reader_;
  std::unique_ptr<Indexer> attached_;
};

TEST_F(SealedIndexTest, IsLookedIntoWithItsKey) {
  Attach(Options());
  EXPECT_THAT(NamesOf(Must(attached_->ByIndex("node", "node-1"))), ElementsAre("a", "b"));
  EXPECT_THAT(NamesOf(Must(attached_->ByIndex("initial", "a"))), ElementsAre("a"));
}

TEST_F(SealedIndexTest, WithoutTheKeyItIsForbiddenAndNotEmpty) {
  Attach({.path = dir_.path()});
  EXPECT_EQ(CodeOf(attached_->ByIndex("node", "node-1")), ErrorCode::kForbidden);
  EXPECT_EQ(CodeOf(attached_->IndexKeys("initial", "a")), ErrorCode::kForbidden);
  EXPECT_EQ(CodeOf(attached_->ListIndexFuncValues("node")), ErrorCode::kForbidden);
  EXPECT_EQ(CodeOf(Lister(attached_.get())
                       .List({.fields = Must(FieldSelector::Parse("spec.nodeName=node-1"))})),
            ErrorCode::kForbidden);
}

TEST_F(SealedIndexTest, UnderAnotherKeyTheObjectsAreLookedThrough) {
  WriteKeys(std::string(testing::kNewKey) + "\n" + testing::kOldKey);
  Attach(Options());
  EXPECT_THAT(NamesOf(Must(attached_->ByIndex("node", "node-1"))), ElementsAre("a", "b"));
  EXPECT_THAT(
      NamesOf(Must(Lister(attached_.get())
                       .List({.fields = Must(FieldSelector::Parse("spec.nodeName=node-1"))}))
                  .objects),
      ElementsAre("a", "b"));
  EXPECT_EQ(CodeOf(attached_->ByIndex("initial", "a")), ErrorCode::kNotReady)
      << "a function is not there to be called";
}

// Every object found by an index is found with the value it was asked for, at one moment.
TEST_F(IndexerTest, WhatAnIndexFoundIsHotTheNextTime) {
  Write({Thing("a", 1, "node-1", "web", {}), Thing("b", 1, "node-2", "web", {})});
  MakeCold("a");
  const auto found = Must(indexer_->ByIndex("node", "node-1"));
  ASSERT_EQ(NamesOf(found), std::vector<std::string>{"a"});
  EXPECT_EQ(Must(indexer_->GetByKey({"n", "a"})), found.front()) << "the same, not a second copy";
  EXPECT_EQ(Must(indexer_->ByIndex("node", "node-1")).front(), found.front());
}

TEST_F(IndexerTest, AScanDecodesOnlyWhatIsNotHot) {
  Write({Thing("a", 1, "node-1", "web", {}), Thing("b", 1, "node-2", "web", {})});
  MakeCold("b");
  const ObjectPtr hot = Must(indexer_->GetByKey({"n", "a"}));
  std::vector<ObjectPtr> seen;
  const Indexer::View before = indexer_->TakeView();
  const auto scan = [&](const Indexer::View& view) {
    seen.clear();
    Must(indexer_->ForEach(
        "n", {},
        [&](const ObjectPtr& object) {
          seen.push_back(object);
          return true;
        },
        view));
    return NamesOf(seen);
  };
  EXPECT_EQ(scan(before), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(seen.front(), hot);
  EXPECT_EQ(hot_->GetStats().objects, 1U) << "a scan leaves in memory what was there";
  Write({Thing("a", 2, "node-1", "web", {})});
  scan(before);
  EXPECT_EQ(seen.front()->resource_version(), "1") << "the view is of before";
  scan(indexer_->TakeView());
  EXPECT_EQ(seen.front()->resource_version(), "2");
}

TEST_F(IndexerTest, ObjectsAreFoundByNamespaceWithoutAnIndexOfOnesOwn) {
  const auto thing = [](std::string_view name, std::string_view ns) {
    return Thing(name, 1, "node-1", "web", {}, "uid", ns);
  };
  Write({thing("a", "n"), thing("b", "n"), thing("a", "o")});
  EXPECT_EQ(NamesOf(Must(indexer_->ByIndex(kNamespaceIndex, "n"))),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Must(indexer_->IndexKeys(kNamespaceIndex, "o")), (std::vector<ObjectKey>{{"o", "a"}}));
  EXPECT_EQ(Must(indexer_->Index(kNamespaceIndex, *thing("x", "n"))).size(), 2U);
  EXPECT_EQ(Must(indexer_->ListIndexFuncValues(kNamespaceIndex)),
            (std::vector<std::string>{"n", "o"}));
  EXPECT_TRUE(Must(indexer_->ByIndex(kNamespaceIndex, "")).empty());
  EXPECT_TRUE(Must(indexer_->ByIndex(kNamespaceIndex, "p")).empty());
  EXPECT_EQ(CodeOf(indexer_->ByIndex("name", "a")), ErrorCode::kNotFound);
  // One's own goes first.
  Must(indexer_->AddIndexers({Must(IndexDefinition::ByField("namespace", "spec.nodeName"))}));
  ASSERT_TRUE(indexer_->WaitUntilReady(std::chrono::seconds(10)));
  EXPECT_EQ(Must(indexer_->ByIndex(kNamespaceIndex, "node-1")).size(), 3U);
}

TEST_F(IndexerTest, AnIndexReadAgreesWithTheObjectsBesideIt) {
  for (int i = 0; i < 20; ++i) Upsert(Thing("t" + std::to_string(i), 2, "even", "web", {}));
  std::jthread writer([this](const std::stop_token& stop) {
    for (uint64_t version = 3; !stop.stop_requested(); ++version) {
      std::vector<ObjectPtr> all;
      for (int i = 0; i < 20; ++i) {
        all.push_back(
            Thing("t" + std::to_string(i), version, version % 2 ? "odd" : "even", "web", {}));
      }
      Write(all);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    const auto found = Must(indexer_->ByIndex("node", i % 2 ? "odd" : "even"));
    ASSERT_TRUE(found.empty() || found.size() == 20) << "half a commit: " << found.size();
    for (const ObjectPtr& object : found) {
      ASSERT_EQ(object->resource_version(), found[0]->resource_version());
      const uint64_t version = std::stoull(std::string(object->resource_version()));
      ASSERT_EQ(version % 2 == 1, i % 2 == 1);
    }
  }
}

}  // namespace
}  // namespace larder
