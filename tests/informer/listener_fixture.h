// An indexer on a store, for tests of a handler's own bookkeeping.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "informer/listener.h"
#include "tests/informer/fixture.h"
#include "tests/storage/support.h"

namespace larder {

class ListenerTest : public InformerTest {
 protected:
  void SetUp() override {
    InformerTest::SetUp();
    OpenParts();
    CollectionSpec spec;
    spec.cluster_uid = "cluster";
    spec.resource = *LookupResource("pods");
    indexer_ = *Indexer::Open(store_.get(), nullptr, spec, {});
    names_ = std::make_unique<DurableNames>(store_.get(), indexer_->collection().id);
  }
  void TearDown() override {
    indexer_.reset();
    InformerTest::TearDown();
  }

  std::unique_ptr<Indexer> indexer_;
  std::unique_ptr<DurableNames> names_;
};

// A durable handler, and the collection's commits as an informer makes them.
class PendingRowsTest : public ListenerTest {
 protected:
  void SetUp() override {
    ListenerTest::SetUp();
    ASSERT_TRUE(names_->Remember("slow", 1));
  }

  // As at the start of a process. With a buffer of 0 everything spills.
  std::shared_ptr<Listener> Restart(const std::shared_ptr<EventHandler>& handler,
                                    size_t buffer_events = 0) {
    HandlerOptions options;
    options.durable_name = "slow";
    options.buffer_events = buffer_events;
    auto listener = std::make_shared<Listener>(indexer_.get(), names_.get(), handler, options,
                                               "slow", RealClock());
    EXPECT_TRUE(listener->Open(/*complete=*/true));
    return listener;
  }

  static ObjectPtr Pod(const std::string& name, int version = 7) {
    return *Object::Parse(fmt::format(
        R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{0}","namespace":"x","uid":"{0}","resourceVersion":"{1}"}}}})",
        name, version));
  }
  void Add(Listener& listener, const std::string& name, int version = 7) {
    const auto writer = indexer_->BeginWrite();
    const ObjectPtr pod = Pod(name, version);
    ASSERT_TRUE(writer->Upsert(pod, *indexer_->Prepare(*pod)));
    Commit(listener, *writer, {ChangeType::kAdded, nullptr, pod, false, false});
  }
  // Also back to an older version, as of a server that was restored.
  void Update(Listener& listener, const std::string& name, int version) {
    const auto writer = indexer_->BeginWrite();
    const auto change = *writer->Upsert(Pod(name, version), *indexer_->Prepare(*Pod(name, version)),
                                        Indexer::Writer::Expect::kAny);
    Commit(listener, *writer, {ChangeType::kUpdated, change.old, Pod(name, version), false, false});
  }
  void Delete(Listener& listener, const std::string& name, int version = 7) {
    const auto writer = indexer_->BeginWrite();
    const ObjectPtr pod = Pod(name, version);
    ASSERT_TRUE(writer->Delete(pod->key(), {}, {}));
    Commit(listener, *writer, {ChangeType::kDeleted, pod, nullptr, false, false});
  }
  void Commit(Listener& listener, Indexer::Writer& writer, const ObjectChange& change) {
    ASSERT_TRUE(listener.Stage(writer, change));
    ASSERT_TRUE(writer.Commit(Durability::kRelaxed));
    listener.Publish(/*committed=*/true);
  }
  // The handler knows it, and nothing waits.
  void Know(const std::shared_ptr<EventHandler>& handler, const std::string& name) {
    const auto listener = Restart(handler);
    Add(*listener, name);
    Drain(*listener);
  }
  static void Drain(Listener& listener) {
    listener.Start();
    while (listener.Stats().rows != 0 || listener.Stats().buffered != 0) std::this_thread::yield();
    listener.Stop();
  }
  size_t Stored() { return *PendingDeltas(indexer_.get(), "slow").Count(); }

  const std::shared_ptr<RecordingHandler> handler_ = std::make_shared<RecordingHandler>();
};

}  // namespace larder
