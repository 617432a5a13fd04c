// Workloads in numbers: read, checked, and made into the same operations every time.
#include "tuning/model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "storage/maintenance.h"
#include "storage/measure.h"
#include "tests/storage/support.h"
#include "tuning/churn.h"
#include "tuning/content.h"
#include "tuning/prepare.h"
#include "tuning/source.h"

namespace larder::tuning {
namespace {

using larder::testing::CodeOf;
using larder::testing::Must;
using larder::testing::TempDir;

WorkloadModel Small() {
  WorkloadModel model = Must(FindProfile("job-storms"));
  return Scaled(model, 0.01);
}

TEST(Model, ProfilesAreSoundAndSurviveAFile) {
  EXPECT_EQ(Profiles().size(), 5u);
  for (const WorkloadModel& profile : Profiles()) {
    ASSERT_TRUE(Check(profile)) << profile.name;
    const WorkloadModel back = Must(ModelFromJson(ToJson(profile)));
    EXPECT_EQ(ToJson(back), ToJson(profile));
  }
  EXPECT_EQ(CodeOf(FindProfile("nothing")), ErrorCode::kInvalidArgument);
}

TEST(Model, BadOnesAreRefusedByField) {
  const auto error = [](const std::string& from, const std::string& to) {
    std::string text = ToJson(Small());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto model = ModelFromJson(text);
    EXPECT_FALSE(model) << to;
    return model ? std::string() : model.error().message;
  };
  EXPECT_NE(error("\"events\"", "\"evnets\"").find("events is missing"), std::string::npos);
  EXPECT_NE(error("\"burst\": true", "\"burst\": 1").find("burst"), std::string::npos);
  EXPECT_NE(error("jobs.batch", "gadgets").find("gadgets"), std::string::npos);
  EXPECT_NE(error("\"skew\": 0.0", "\"skew\": 2.0").find("skew"), std::string::npos);
  EXPECT_NE(error("\"larder_workload\": 1", "\"larder_workload\": 2").find("reads 1"),
            std::string::npos);
  EXPECT_FALSE(ModelFromJson("[]"));
  EXPECT_FALSE(ModelFromJson("{"));
}

TEST(Content, IsTheSameForTheSameArgumentsAndAboutTheSize) {
  for (const char* name : {"pods", "events", "nodes", "leases.coordination.k8s.io"}) {
    ContentKind kind;
    kind.resource = Must(LookupResource(name));
    kind.json_bytes = 3000;
    const ObjectPtr a = Must(MakeObject(kind, 7, 2, 9)), b = Must(MakeObject(kind, 7, 2, 9));
    EXPECT_EQ(a->json(), b->json());
    EXPECT_EQ(a->key(), KeyOfObject(kind, 7)) << name;
    EXPECT_EQ(a->resource_version(), "9");
    EXPECT_NE(Must(MakeObject(kind, 8, 2, 9))->uid(), a->uid());
    EXPECT_NE(Must(MakeObject(kind, 7, 3, 9))->json(), a->json());
    if (kind.resource.resource != "pods") {
      EXPECT_NEAR(static_cast<double>(a->json().size()), 3000, 200);
    }
  }
}

// The steps of two preparations, one beside the other.
std::string Steps(const WorkloadModel& model, const Encoding& encoding, const std::string& folder) {
  const auto source = Must(SourceOfModel(model, nullptr));
  const Prepared prepared = Must(Prepare(*source, encoding, {.folder = folder}));
  EXPECT_GT(prepared.objects, model.events / 3);
  EXPECT_GT(prepared.base_bytes, 0u);
  const auto reader = Must(TraceReader::Open(prepared.steps_path));
  std::string all;
  TraceStep step;
  while (Must(reader->Next(step))) {
    // Values change with the encoding; which rows are written must not.
    all += fmt::format("{}{}{}:", static_cast<int>(step.kind), step.key, step.rows);
    if (step.kind != TraceStep::Kind::kCommit) continue;
    Must(ForEachRow(step.batch, [&](const TraceRow& row) {
      all += fmt::format("{} {};", static_cast<int>(row.change), row.key);
    }));
  }
  return all;
}

TEST(ModelSource, TheSameSeedIsTheSameWorkWhateverTheEncoding) {
  const TempDir dir;
  std::filesystem::create_directories(dir.path());
  WorkloadModel model = Small();
  const std::string first = Steps(model, {}, dir.path());
  EXPECT_EQ(Steps(model, {}, dir.path()), first);
  EXPECT_EQ(Steps(model, {false, 0, 0}, dir.path()), first);
  model.seed = 2;
  EXPECT_NE(Steps(model, {}, dir.path()), first);
}

TEST(ModelOf, ReadsSizesAndRatesFromTheObjects) {
  const TempDir dir;
  const auto store = Must(Store::Open({.path = dir.path()}));
  const CollectionId maps = Must(store->OpenCollection(larder::testing::SpecOf("configmaps"))).id;
  const CollectionId pods = Must(store->OpenCollection(larder::testing::SpecOf("pods"))).id;
  std::vector<ObjectPtr> slow, fast;
  for (int i = 0; i < 60; ++i) {
    const auto object = [&](const char* kind, int second) {
      return Must(Object::Parse(fmt::format(
          R"({{"kind":"{}","metadata":{{"name":"a{}","namespace":"n","uid":"u{}","resourceVersion":"1",)"
          R"("creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{{"time":"2026-01-02T00:{:02}:00Z"}}]}},)"
          R"("data":{{"k":"{}"}}}})",
          kind, i, i, second, std::string(600, 'x'))));
    };
    slow.push_back(object("ConfigMap", i / 2));
    fast.push_back(object("Pod", 30 + i / 2));
  }
  larder::testing::PutAll(*store, maps, slow);
  larder::testing::PutAll(*store, pods, fast);
  const WorkloadModel model = Must(ModelOf(*store));
  ASSERT_EQ(model.resources.size(), 2u);
  EXPECT_EQ(model.resources[0].objects, 60u);
  EXPECT_GT(model.resources[0].json_bytes, 600u);
  // Written 30 minutes ago on average, and 15.
  EXPECT_GT(model.resources[1].updates, model.resources[0].updates * 1.5);
  EXPECT_EQ(model.resources[0].creates, 0);
  const TempDir empty;
  EXPECT_EQ(CodeOf(ModelOf(*Must(Store::Open({.path = empty.path()})))),
            ErrorCode::kInvalidArgument);
}

// Whoever replays has no key to store them with.
TEST(ModelOf, LeavesOutWhatIsEncryptedAlsoWithTheKey) {
  const TempDir dir;
  ::setenv("LARDER_MODEL_TEST_KEY", (std::string(43, 'A') + "=").c_str(), 1);
  const auto store =
      Must(Store::Open({.path = dir.path(), .encryption_key_variable = "LARDER_MODEL_TEST_KEY"}));
  for (const char* resource : {"pods", "secrets"}) {
    const CollectionId id = Must(store->OpenCollection(larder::testing::SpecOf(resource))).id;
    larder::testing::PutAll(*store, id, {larder::testing::Pod(1)});
  }
  const WorkloadModel model = Must(ModelOf(*store));
  ASSERT_EQ(model.resources.size(), 1u);
  EXPECT_EQ(model.resources[0].resource, "pods");
  const TempDir copy;
  Must(Must(SourceOfModel(model, store.get()))->Prepare(*Must(Store::Open({.path = copy.path()}))));
}

// Results of one base say nothing of another.
TEST(Source, AStoreThatChangedIsAnotherWorkload) {
  const TempDir dir, files;
  std::filesystem::create_directories(files.path("files"));
  const std::string trace = files.path("files") + "/trace";
  const auto store = Must(Store::Open({.path = dir.path()}));
  const CollectionId pods = Must(store->OpenCollection(larder::testing::SpecOf("pods"))).id;
  Must(StartRecording(*store, {.path = trace}));
  larder::testing::PutAll(*store, pods, {larder::testing::Pod(1)});
  (void)Must(StopRecording(*store));
  const WorkloadModel model = Must(ModelOf(*store));
  const auto fingerprints = [&] {
    return std::pair(Must(SourceOfModel(model, store.get()))->Fingerprint(),
                     Must(SourceOfTrace(trace, *store))->Fingerprint());
  };
  const auto before = fingerprints();
  EXPECT_EQ(before, fingerprints());
  larder::testing::PutAll(*store, pods, {larder::testing::Pod(2)});
  const auto after = fingerprints();
  EXPECT_NE(before.first, after.first);
  EXPECT_NE(before.second, after.second);
}

// A hundred objects of one second, ten of which were updated in the ten minutes behind it.
TEST(ModelOf, DoesNotTakeTheFillingOfAnEmptyClusterForChurn) {
  const TempDir dir;
  const auto store = Must(Store::Open({.path = dir.path()}));
  const CollectionId maps = Must(store->OpenCollection(larder::testing::SpecOf("configmaps"))).id;
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 100; ++i) {
    objects.push_back(Must(Object::Parse(fmt::format(
        R"({{"kind":"ConfigMap","metadata":{{"name":"a{}","namespace":"n","uid":"u{}","resourceVersion":"1",)"
        R"("creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{{"time":"2026-01-01T00:{:02}:00Z"}}]}}}})",
        i, i, i < 10 ? i + 1 : 0))));
  }
  larder::testing::PutAll(*store, maps, objects);
  const auto churn = Must(EstimateChurn(*store, Must(GetStats(*store)).collections));
  EXPECT_GT(churn.at(maps).updates, 5.0 / 600);
  EXPECT_LT(churn.at(maps).updates, 20.0 / 600);
  EXPECT_EQ(churn.at(maps).creates, 0);
}

}  // namespace
}  // namespace larder::tuning
