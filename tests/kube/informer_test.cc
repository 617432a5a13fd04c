// The whole way against the real server: an informer with its store in a process that is killed.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <set>

#include "informer/shared_informer.h"
#include "tests/kube/kube_fixture.h"

namespace larder {
namespace {

class KubeInformer : public KubeTest {
 protected:
  void SetUp() override {
    KubeTest::SetUp();
    if (IsSkipped()) return;
    directory_ = std::filesystem::path(testing::TempDir()) / (ns_ + "-store");
  }
  void TearDown() override {
    Close();
    std::filesystem::remove_all(directory_);
    KubeTest::TearDown();
  }

  // As a process does at its start: the store, the informer, a handler with a durable name.
  void Open() {
    auto store = Store::Open({.path = directory_});
    ASSERT_TRUE(store) << store.error().ToString();
    store_ = *std::move(store);
    hot_ = std::make_unique<HotTier>(HotTierOptions{});
    InformerOptions options;
    options.resource = resource_;
    options.ns = ns_;
    auto informer = SharedInformer::Open(
        {store_.get(), hot_.get(), transport_.get(), cluster_uid_, nullptr}, options);
    ASSERT_TRUE(informer) << informer.error().ToString();
    informer_ = *std::move(informer);
    auto handler = std::make_shared<EventHandlerFuncs>();
    handler->on_delete = [this](const ObjectPtr& last_known, bool) {
      std::lock_guard lock(mutex_);
      deleted_.insert(last_known->key().name);
    };
    HandlerOptions durable;
    durable.durable_name = "test";
    ASSERT_TRUE(informer_->AddEventHandler(handler, durable));
    informer_->Start();
    const auto synced = informer_->WaitForSync(RealClock()->Now() + kPatience, {});
    ASSERT_TRUE(synced) << synced.error().ToString();
  }
  void Close() {
    if (informer_) informer_->Stop();
    informer_.reset();
    hot_.reset();
    store_.reset();
  }
  MirrorTarget::Content Stored() const {
    MirrorTarget::Content content;
    const auto read = informer_->GetIndexer().ForEach(ns_, [&](const ObjectPtr& object) {
      content[object->key().ToString()] = {std::string(object->uid()),
                                           std::string(object->resource_version())};
      return true;
    });
    EXPECT_TRUE(read) << read.error().ToString();
    return content;
  }

  std::set<std::string> Deleted() {
    std::lock_guard lock(mutex_);
    return deleted_;
  }

  std::filesystem::path directory_;
  std::mutex mutex_;
  std::set<std::string> deleted_;  // guarded by mutex_: what the handler heard
  std::unique_ptr<Store> store_;
  std::unique_ptr<HotTier> hot_;
  std::unique_ptr<SharedInformer> informer_;
};

TEST_F(KubeInformer, IsKilledAndResumesWithoutAList) {
  MakeMany("a", 50);
  // The transport has a thread, which a fork would not copy: the child makes everything itself.
  transport_.reset();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    transport_ = Connect(Admin());
    Open();
    const bool whole = informer_ && Stored().size() == 50;
    if (write(ready[1], whole ? "y" : "n", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char answer = 0;
  EXPECT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  close(ready[0]);
  close(ready[1]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);

  transport_ = Connect(Admin());
  client_ = std::make_unique<ApiClient>(*transport_);
  Change("a-0", "changed");
  Delete("a-1");
  Make("b");
  Open();
  ASSERT_NE(informer_, nullptr);
  EXPECT_TRUE(Eventually([&] { return Stored() == Content(); }));
  const InformerStatus status = informer_->Status();
  EXPECT_EQ(status.reflector.lists, 0U);
  EXPECT_EQ(status.reflector.objects, 3U);
  EXPECT_TRUE(Eventually([&] { return Deleted() == std::set<std::string>{"a-1"}; }));
}

TEST_F(KubeInformer, HearsOfDeletionsWhileItWasAwayAndItsVersionExpired) {
  MakeMany("a", 20);
  Open();
  ASSERT_TRUE(Eventually([&] { return Stored() == Content(); }));
  Close();
  for (const char* name : {"a-3", "a-5"}) Delete(name);
  Change("a-7", "changed");
  ExpireHistory();

  // Synced only after the relist: what is gone must not look present.
  Open();
  EXPECT_EQ(Stored(), Content());
  EXPECT_EQ(informer_->Status().reflector.fetched, 1U);
  EXPECT_TRUE(Eventually([&] { return Deleted() == std::set<std::string>{"a-3", "a-5"}; }));
}

}  // namespace
}  // namespace larder
