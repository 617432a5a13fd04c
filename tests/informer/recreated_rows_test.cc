// A row that is a delete and an add, and what changes while that is told.
#include <fmt/format.h>

#include <functional>
#include <map>

#include "tests/informer/listener_fixture.h"

namespace larder {
namespace {

// What a handler hears of "a", which it knows at 7, while that changes under it.
class RecreatedRowTest : public PendingRowsTest {
 protected:
  using Calls = std::vector<std::string>;

  void SetUp() override {
    PendingRowsTest::SetUp();
    Know(std::make_shared<EventHandlerFuncs>(), "a");
  }
  // With what is done once in a call, by the call's text.
  void Begin(std::map<std::string, std::function<void()>> meanwhile, size_t buffer_events = 0) {
    const auto handler = std::make_shared<EventHandlerFuncs>();
    meanwhile_ = std::move(meanwhile);
    const auto hear = [this](const std::string& call) {
      heard_.push_back(call);
      if (const auto found = meanwhile_.extract(call)) found.mapped()();
    };
    handler->on_add = [hear](const ObjectPtr& object, bool) {
      hear(fmt::format("add {}", object->resource_version()));
    };
    handler->on_update = [hear](const ObjectPtr& old, const ObjectPtr& now) {
      hear(fmt::format("update {}→{}", old->resource_version(), now->resource_version()));
    };
    handler->on_delete = [hear](const ObjectPtr& last, bool) {
      hear(fmt::format("delete {}", last->resource_version()));
    };
    listener_ = Restart(handler, buffer_events);
  }
  // The stored "a" goes, and comes again.
  void Recreate(int gone, int back) {
    Delete(*listener_, "a", gone);
    Add(*listener_, "a", back);
  }

  std::map<std::string, std::function<void()>> meanwhile_;
  std::shared_ptr<Listener> listener_;
  Calls heard_;
};

TEST_F(RecreatedRowTest, AnUpdateWhileItIsToldIsAnUpdate) {
  Begin({{"delete 8", [this] { Update(*listener_, "a", 10); }},
         {"add 9", [this] { Update(*listener_, "a", 11); }},
         {"update 9→11", [this] { Update(*listener_, "a", 12); }}});
  Recreate(8, 9);
  Drain(*listener_);
  EXPECT_EQ(heard_, (Calls{"delete 8", "add 9", "update 9→11", "update 11→12"}));
}

TEST_F(RecreatedRowTest, AnUpdateThatSpillsBehindOneInMemoryIsAnUpdate) {
  Begin({}, /*buffer_events=*/3);  // the end of the first list, the delete and the add
  Recreate(8, 9);
  Update(*listener_, "a", 10);
  ASSERT_TRUE(listener_->Stats().spilling);
  Drain(*listener_);
  EXPECT_EQ(heard_, (Calls{"delete 8", "add 9", "update 9→10"}));
}

TEST_F(RecreatedRowTest, ToTheNextProcessTooItIsAnUpdateOnceItWasTold) {
  Begin({{"add 9", [this] {
            Update(*listener_, "a", 10);
            listener_->RequestStop();
          }}});
  Recreate(8, 9);
  listener_->Start();
  while (listener_->Stats().delivered < 2) std::this_thread::yield();
  listener_->Stop();
  Begin({});
  Drain(*listener_);
  EXPECT_EQ(heard_, (Calls{"delete 8", "add 9", "update 9→10"}));
}

// The next process finds the row as one of an earlier: what it tells of it is told of the add, too.
TEST_F(RecreatedRowTest, AnUpdateWhileTheNextProcessIsToldOfItIsAnUpdate) {
  Begin({});
  Recreate(8, 9);
  Begin({{"add 9", [this] { Update(*listener_, "a", 10); }}});
  Drain(*listener_);
  EXPECT_EQ(heard_, (Calls{"delete 8", "add 9", "update 9→10"}));
}

// What was told then is the state that goes.
TEST_F(RecreatedRowTest, TheDeleteOfWhatWasToldBeforeItIsStillTold) {
  Begin({{"update 7→8", [this] { Recreate(9, 10); }}, {"add 10", [this] { Recreate(11, 12); }}});
  Update(*listener_, "a", 8);
  Drain(*listener_);
  EXPECT_EQ(heard_, (Calls{"update 7→8", "delete 9", "add 10", "delete 11", "add 12"}));
}

}  // namespace
}  // namespace larder
