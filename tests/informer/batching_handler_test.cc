// Events through a deduplicator and a batcher, from a simulated cluster to a function or a queue.
#include "informer/batching_handler.h"

#include <fmt/format.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <mutex>

#include "tests/informer/listener_fixture.h"

namespace larder {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// What a batch's function was given: "add x/a", "update x/a", "delete x/a", a batch after the
// other.
class Sink {
 public:
  BatchingHandler::Function Function() {
    return [this](const BatchingHandler::Batch& batch) { return Take(batch); };
  }
  Result<void> Take(const BatchingHandler::Batch& batch) {
    if (throws) throw std::runtime_error("asked to throw");
    if (fails) return MakeError(ErrorCode::kUnavailable, "not now");
    std::lock_guard lock(mutex_);
    sizes_.push_back(batch.size());
    for (const ObjectChange& change : batch) {
      constexpr const char* kNames[] = {"add ", "update ", "delete "};
      calls_.push_back(kNames[static_cast<size_t>(change.type)] +
                       change.current()->key().ToString());
    }
    return {};
  }
  std::vector<std::string> Calls() const {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  std::vector<size_t> Sizes() const {
    std::lock_guard lock(mutex_);
    return sizes_;
  }

  std::atomic<bool> fails = false;
  std::atomic<bool> throws = false;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  std::vector<size_t> sizes_;
};

bool Eventually(const std::function<bool()>& holds) {
  const RecordingHandler waiter;
  return waiter.WaitFor([&](const auto&) { return holds(); });
}

WorkQueueConfig Config(uint32_t batch_size, std::chrono::nanoseconds flush_timeout = 10ms) {
  WorkQueueConfig config{.name = "audit"};
  config.deduplication.enabled = true;
  config.batching = {batch_size, flush_timeout};
  return config;
}

class BatchingHandlerTest : public InformerTest {
 protected:
  // A process that has a durable handler, from its start until Close().
  void Begin(Sink& sink, const WorkQueueConfig& config) {
    Open();
    HandlerOptions options;
    options.durable_name = "audit";
    const auto added = informer_->AddEventHandler(
        std::make_shared<BatchingHandler>(config, sink.Function()), options);
    ASSERT_TRUE(added) << added.error().ToString();
    registration_ = *added;
    Sync();
  }
  void TearDown() override {
    registration_.reset();
    InformerTest::TearDown();
  }

  SharedInformer::Registration registration_;
};

TEST_F(BatchingHandlerTest, HandsOverEverythingInOrderAndInBatches) {
  for (const char* name : {"a", "b", "c", "d", "e"}) CreatePod(name);
  Sink sink;
  Begin(sink, Config(2));
  ASSERT_TRUE(Eventually([&] { return registration_->HasSynced(); }));
  EXPECT_THAT(sink.Calls(), ElementsAre("add x/a", "add x/b", "add x/c", "add x/d", "add x/e"));
  TouchPod("a");
  CatchUp();
  DeletePod("a");
  ASSERT_TRUE(Eventually([&] { return sink.Calls().size() == 7; }));
  EXPECT_THAT(sink.Calls().back(), "delete x/a");
  for (const size_t size : sink.Sizes()) EXPECT_LE(size, 2U);
  ASSERT_TRUE(Eventually([&] { return registration_->Stats().rows == 0; })) << "acknowledged";
}

TEST_F(BatchingHandlerTest, GathersUntilABatchIsFullOrTheInformerStops) {
  CreatePod("a");
  Sink sink;
  Begin(sink, Config(3, 1h));
  ASSERT_TRUE(Eventually([&] { return registration_->HasSynced(); })) << "does not wait an hour";
  for (const char* name : {"b", "c", "d"}) CreatePod(name);
  ASSERT_TRUE(Eventually([&] { return sink.Calls().size() == 4; }));
  EXPECT_THAT(sink.Sizes(), ElementsAre(1, 3));
  CreatePod("e");
  CatchUp();
  EXPECT_TRUE(Eventually([&] { return registration_->Stats().delivered == 5; }));
  EXPECT_THAT(sink.Calls(), SizeIs(4));
  registration_.reset();
  Close();
  EXPECT_THAT(sink.Sizes(), ElementsAre(1, 3, 1));
  Begin(sink, Config(3, 1h));
  ASSERT_TRUE(Eventually([&] { return registration_->HasSynced(); }));
  EXPECT_THAT(sink.Calls(), SizeIs(5)) << "all was acknowledged";
}

// A process that dies acknowledges nothing more than this one has.
TEST_F(BatchingHandlerTest, WhatWasNotTakenIsNotAcknowledgedAndComesAgain) {
  CreatePod("a");
  Sink sink;
  Begin(sink, Config(100));
  ASSERT_TRUE(Eventually([&] { return registration_->HasSynced(); }));
  sink.fails = true;
  TouchPod("a");
  CreatePod("b");
  CatchUp();
  ASSERT_TRUE(Eventually([&] { return registration_->Stats().error.has_value(); }));
  EXPECT_EQ(registration_->Stats().rows, 2U);
  registration_.reset();
  Close();
  EXPECT_THAT(sink.Calls(), ElementsAre("add x/a"));
  sink.fails = false;
  Begin(sink, Config(100));
  ASSERT_TRUE(Eventually([&] { return sink.Calls().size() == 3; }));
  EXPECT_THAT(sink.Calls(), UnorderedElementsAre("add x/a", "update x/a", "add x/b"));
}

TEST_F(BatchingHandlerTest, AFirstListThatWasNotTakenComesAgain) {
  CreatePod("a");
  CreatePod("b");
  Sink sink;
  sink.throws = true;
  Begin(sink, Config(100));
  ASSERT_TRUE(Eventually([&] { return registration_->Stats().error.has_value(); }));
  EXPECT_FALSE(registration_->HasSynced());
  registration_.reset();
  Close();
  sink.throws = false;
  Begin(sink, Config(100));
  ASSERT_TRUE(Eventually([&] { return registration_->HasSynced(); }));
  EXPECT_THAT(sink.Calls(), ElementsAre("add x/a", "add x/b"));
}

TEST_F(BatchingHandlerTest, AFunctionThatDoesNotReturnIsLeftBehindAndNothingIsAcknowledged) {
  CreatePod("a");
  InformerOptions impatient;
  impatient.handler_grace = 0ms;
  Open(impatient);
  std::atomic<bool> called = false;
  std::atomic<bool> released = false;
  auto handler = std::make_shared<BatchingHandler>(
      Config(100), [&](const BatchingHandler::Batch&) -> Result<void> {
        called = true;
        released.wait(false);
        return {};
      });
  HandlerOptions options;
  options.durable_name = "audit";
  auto added = informer_->AddEventHandler(handler, options);
  ASSERT_TRUE(added);
  Sync();
  ASSERT_TRUE(Eventually([&] { return called.load(); }));
  EXPECT_THAT(informer_->Stop(), ElementsAre("audit"));
  added->reset();
  Close();
  Sink sink;
  Begin(sink, Config(100));
  EXPECT_TRUE(Eventually([&] { return sink.Calls().size() == 1; }));
  registration_.reset();
  Close();
  const std::weak_ptr<BatchingHandler> left = handler;
  handler.reset();
  released = true;
  released.notify_all();
  EXPECT_TRUE(Eventually([&] { return left.expired(); }));
}

// Past the buffer changes wait on disk: those rows, too, stay until they are taken.
TEST_F(BatchingHandlerTest, WhatSpilledIsKeptUntilItIsTaken) {
  Sink sink;
  Open();
  HandlerOptions options;
  options.durable_name = "audit";
  options.buffer_events = 1;
  const auto handler = std::make_shared<BatchingHandler>(Config(4), sink.Function());
  const auto added = informer_->AddEventHandler(handler, options);
  ASSERT_TRUE(added);
  registration_ = *added;
  Sync();
  ASSERT_TRUE(Eventually([&] { return registration_->HasSynced(); }));
  sink.fails = true;
  for (int i = 0; i < 20; ++i) CreatePod("p" + std::to_string(i));
  CatchUp();
  ASSERT_TRUE(Eventually([&] { return handler->failed_batches() > 0; }));
  EXPECT_EQ(registration_->Stats().rows, 20U);
  sink.fails = false;
  ASSERT_TRUE(Eventually([&] { return registration_->Stats().rows == 0; }));
  EXPECT_THAT(sink.Calls(), SizeIs(20));
}

TEST_F(BatchingHandlerTest, DropsWhatASecondInformerTellsAndCountsIt) {
  CreatePod("a");
  CreatePod("b");
  prometheus::Registry registry;
  Sink sink;
  Open();
  auto handler = std::make_shared<BatchingHandler>(Config(10), sink.Function(), &registry);
  const auto first = informer_->AddEventHandler(handler, {});
  const auto second = informer_->AddEventHandler(handler, {});
  Sync();
  ASSERT_TRUE(Eventually([&] { return (*first)->HasSynced() && (*second)->HasSynced(); }));
  EXPECT_THAT(sink.Calls(), UnorderedElementsAre("add x/a", "add x/b"));
  EXPECT_EQ(handler->duplicates(), 2U);
  const auto text = [&] { return prometheus::TextSerializer().Serialize(registry.Collect()); };
  const auto has = [&](const std::string& sample) {
    return text().find(sample) != std::string::npos;
  };
  EXPECT_TRUE(Eventually([&] {
    return has("larder_handler_duplicates_total{handler=\"audit\"} 2");
  })) << text();
  EXPECT_TRUE(has("larder_handler_batch_failures_total{handler=\"audit\"} 0")) << text();
  ASSERT_TRUE(informer_->RemoveEventHandler(*first));
  ASSERT_TRUE(informer_->RemoveEventHandler(*second));
}

ObjectPtr Pod(int version, const std::string& uid = "u") {
  return *Object::Parse(fmt::format(
      R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"a","namespace":"x","uid":"{}","resourceVersion":"{}"}}}})",
      uid, version));
}

TEST(BatchingHandlerAloneTest, TwoOfOneNameShareTheirMetrics) {
  Sink sink;
  prometheus::Registry registry;
  const auto shown = [&registry] {
    return prometheus::TextSerializer()
               .Serialize(registry.Collect())
               .find("larder_handler_duplicates_total{handler=\"audit\"}") != std::string::npos;
  };
  auto first = std::make_unique<BatchingHandler>(Config(10), sink.Function(), &registry);
  auto second = std::make_unique<BatchingHandler>(Config(10), sink.Function(), &registry);
  EXPECT_TRUE(shown());
  second.reset();
  EXPECT_TRUE(shown());
  first.reset();
  EXPECT_FALSE(shown());
}

TEST(BatchingHandlerAloneTest, NeverDropsADeleteNorTheWayBackNorAnotherObject) {
  Sink sink;
  BatchingHandler handler(Config(100), sink.Function());
  handler.OnAdd(Pod(7), false);
  handler.OnUpdate(Pod(7), Pod(7));  // a resync
  EXPECT_EQ(handler.duplicates(), 1U);
  handler.OnDelete(Pod(7), /*inferred=*/true);
  handler.OnAdd(Pod(7), false);
  handler.OnUpdate(Pod(7), Pod(5));       // an etcd was restored
  handler.OnUpdate(Pod(5), Pod(6));       // and goes on from there
  handler.OnAdd(Pod(3, "other"), false);  // of another cluster, say
  handler.OnAdd(Pod(1, ""), false);
  handler.OnAdd(Pod(1, ""), false);
  EXPECT_EQ(handler.duplicates(), 1U);
  ASSERT_TRUE(handler.Flush());
  EXPECT_THAT(sink.Calls(), SizeIs(8));
}

TEST(BatchingHandlerAloneTest, DropsNothingUnlessItIsToldTo) {
  Sink sink;
  BatchingHandler handler({.name = "audit"}, sink.Function());
  handler.OnAdd(Pod(7), false);
  handler.OnUpdate(Pod(7), Pod(7));
  ASSERT_TRUE(handler.Flush());
  EXPECT_THAT(sink.Calls(), SizeIs(2));
}

TEST(BatchingHandlerAloneTest, HandsOverWhatIsLeftWhenItGoes) {
  Sink sink;
  {
    BatchingHandler handler(Config(100, 1h), sink.Function());
    handler.OnAdd(Pod(7), false);
    EXPECT_THAT(sink.Calls(), IsEmpty());
  }
  EXPECT_THAT(sink.Calls(), SizeIs(1));
}

TEST_F(BatchingHandlerTest, FillsAQueueWhoseItemsAreOnDiskWhenTheChangesAreAcknowledged) {
  CreatePod("a");
  CreatePod("b");
  Open();
  {
    auto queue = WorkQueue::Open({.name = "audit", .store = store_.get()});
    ASSERT_TRUE(queue);
    HandlerOptions options;
    options.durable_name = "audit";
    const auto added = informer_->AddEventHandler(
        std::make_shared<BatchingHandler>(Config(10), AddKeysTo(queue->get())), options);
    ASSERT_TRUE(added);
    Sync();
    ASSERT_TRUE(Eventually([&] { return (*added)->HasSynced(); }));
    EXPECT_EQ((*queue)->Status().unwritten, 0U);
    EXPECT_EQ((*queue)->Len(), 2U);
    informer_->Stop();
  }
  auto again = WorkQueue::Open({.name = "audit", .store = store_.get()});
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->Get(), "x/a");
  EXPECT_EQ((*again)->Get(), "x/b");
}

// The store was restored before what came last was acknowledged.
using BatchingRowsTest = PendingRowsTest;
TEST_F(BatchingRowsTest, SeesTheWayBackFromWhatIsNotAcknowledgedYet) {
  std::shared_ptr<Listener> listener;
  std::vector<std::string> versions;
  const auto handler =
      std::make_shared<BatchingHandler>(Config(1), [&](const auto& batch) -> Result<void> {
        versions.emplace_back(batch.front().object->resource_version());
        if (versions.back() == "9") Update(*listener, "a", 8);
        return {};
      });
  Know(handler, "a");
  listener = Restart(handler);
  Update(*listener, "a", 9);
  Drain(*listener);
  EXPECT_THAT(versions, ElementsAre("7", "9", "8"));
  EXPECT_EQ(handler->duplicates(), 0U);
}

Sink sent;
Result<void> Send(const BatchingHandler::Batch& batch) { return sent.Take(batch); }

// What docs/informers.md shows (tests/tools/docs_test.cc compares).
// [docs]
Result<void> AddAudit(SharedInformer& pods, prometheus::Registry* registry) {
  LARDER_ASSIGN_OR_RETURN(const auto config, WorkQueueConfig::FromJson(R"({
      "name": "audit",
      "deduplication": {"enabled": true, "ttl": "5m"},
      "batching": {"batchSize": 100, "flushTimeout": "100ms"}})"));
  HandlerOptions options;
  options.durable_name = config.name;
  LARDER_RETURN_IF_ERROR(pods.AddEventHandler(
      std::make_shared<BatchingHandler>(
          config, [](const BatchingHandler::Batch& batch) { return Send(batch); }, registry),
      options));
  return {};
}
// [docs]

TEST_F(BatchingHandlerTest, WorksAsTheDocumentationShowsIt) {
  CreatePod("a");
  prometheus::Registry registry;
  Open();
  ASSERT_TRUE(AddAudit(*informer_, &registry));
  Sync();
  EXPECT_TRUE(Eventually([&] { return !sent.Calls().empty(); }));
  Close();
}

}  // namespace
}  // namespace larder
