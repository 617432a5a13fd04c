// Pause, resume, stop, metrics: what an owner does with a running reflector.
#include <gmock/gmock.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <condition_variable>
#include <thread>

#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;

// A server whose watch stays open until it is stopped, and that says when it is being read.
class OpenEnded final : public HttpTransport {
 public:
  Result<Response> Do(const Request&, const std::stop_token&) override {
    return Response{200, {}, PodListJson("1000", {}), 0};
  }
  Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                           const std::stop_token&) override {
    {
      std::lock_guard lock(mutex_);
      opened_.push_back(Shorthand(request));
    }
    return std::make_unique<Stream>(this);
  }
  void WaitForRead(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reading_ >= count; });
  }
  std::vector<std::string> Opened() {
    std::lock_guard lock(mutex_);
    return opened_;
  }

 private:
  class Stream final : public BodyStream {
   public:
    explicit Stream(OpenEnded* server) : server_(*server) {}
    int status() const override { return 200; }
    const std::map<std::string, std::string>& headers() const override { return headers_; }
    uint64_t wire_bytes() const override { return 0; }
    Result<std::string_view> Read(const std::stop_token& stop, Clock::Steady) override {
      std::unique_lock lock(server_.mutex_);
      ++server_.reading_;
      server_.changed_.notify_all();
      server_.changed_.wait(lock, stop, [] { return false; });
      return MakeError(ErrorCode::kCancelled, "stopped");
    }

   private:
    OpenEnded& server_;
    std::map<std::string, std::string> headers_;
  };

  std::mutex mutex_;
  std::condition_variable_any changed_;
  size_t reading_ = 0;
  std::vector<std::string> opened_;
};

class LifecycleTest : public testing::Test {
 protected:
  LifecycleTest() {
    target_.position.resource_version = "10";
    ReflectorOptions options;
    options.name = "life";
    options.resource = {"", "v1", "pods", "Pod", true};
    options.clock = &clock_;
    options.registry = &registry_;
    reflector_ = *Reflector::Create(options, &server_, &target_);
  }
  void WaitForState(ReflectorState state) {
    while (reflector_->Status().state != state) std::this_thread::yield();
  }

  FakeClock clock_;
  prometheus::Registry registry_;
  OpenEnded server_;
  RecordingTarget target_;
  std::unique_ptr<Reflector> reflector_;
};

TEST_F(LifecycleTest, StopsWhileItWatches) {
  std::jthread thread([&](const std::stop_token& stop) { reflector_->Run(stop); });
  server_.WaitForRead(1);
  thread.request_stop();
  thread.join();
  EXPECT_EQ(reflector_->Status().state, ReflectorState::kStopped);
  EXPECT_FALSE(reflector_->Status().last_error.has_value());
}

TEST_F(LifecycleTest, PausesAndResumesFromTheTargetsCursor) {
  std::jthread thread([&](const std::stop_token& stop) { reflector_->Run(stop); });
  server_.WaitForRead(1);
  reflector_->Pause();
  WaitForState(ReflectorState::kPaused);
  reflector_->Resume();
  server_.WaitForRead(2);
  thread.request_stop();
  thread.join();
  EXPECT_THAT(server_.Opened(), ElementsAre("W 10", "W 10"));
  EXPECT_THAT(target_.calls, ElementsAre("Start", "Start"));
  EXPECT_EQ(reflector_->Status().restarts.at("paused"), 1U);
}

// Found by the crash programme: the last commit before the server fell silent failed, and nobody
// told the watch, which was waiting for an event.
TEST_F(LifecycleTest, ATargetThatFailsBehindAQuietWatchIsAskedAgainWhereToBegin) {
  std::jthread thread([&](const std::stop_token& stop) { reflector_->Run(stop); });
  server_.WaitForRead(1);
  const Error error{ErrorCode::kIo, "no disk", {}, {}};
  reflector_->TargetFailed(error);
  WaitForState(ReflectorState::kBackingOff);
  reflector_->TargetFailed(error);  // one wait and one start are for both
  while (reflector_->Status().watches < 2) {
    clock_.Advance(std::chrono::seconds(1));
    std::this_thread::yield();
  }
  server_.WaitForRead(2);
  thread.request_stop();
  thread.join();
  EXPECT_THAT(server_.Opened(), ElementsAre("W 10", "W 10"));
  EXPECT_THAT(target_.calls, ElementsAre("Start", "Start"));
  EXPECT_EQ(reflector_->Status().restarts.at("target"), 1U);
}

TEST_F(LifecycleTest, StopsWhileItIsPausedOrBacksOff) {
  reflector_->Pause();
  std::jthread paused([&](const std::stop_token& stop) { reflector_->Run(stop); });
  WaitForState(ReflectorState::kPaused);
  paused.request_stop();
  paused.join();
  reflector_->Resume();
  target_.fail_at = "Start";
  std::jthread failing([&](const std::stop_token& stop) { reflector_->Run(stop); });
  WaitForState(ReflectorState::kBackingOff);
  failing.request_stop();
  failing.join();
  EXPECT_EQ(reflector_->Status().state, ReflectorState::kStopped);
}

TEST_F(LifecycleTest, GoesOnAfterTheBackoffsTime) {
  target_.fail_at = "Start";
  std::jthread thread([&](const std::stop_token& stop) { reflector_->Run(stop); });
  WaitForState(ReflectorState::kBackingOff);
  while (clock_.Waiters() == 0 && reflector_->Status().state == ReflectorState::kBackingOff) {
    std::this_thread::yield();
  }
  clock_.Advance(std::chrono::seconds(1));
  server_.WaitForRead(1);
}

TEST_F(LifecycleTest, CanRunAgain) {
  for (int i = 0; i < 2; ++i) {
    std::jthread thread([&](const std::stop_token& stop) { reflector_->Run(stop); });
    server_.WaitForRead(static_cast<size_t>(i) + 1);
  }
  EXPECT_THAT(server_.Opened(), ElementsAre("W 10", "W 10"));
}

TEST_F(LifecycleTest, ShowsItsMetrics) {
  {
    std::jthread thread([&](const std::stop_token& stop) { reflector_->Run(stop); });
    server_.WaitForRead(1);
  }
  const std::string text = prometheus::TextSerializer().Serialize(registry_.Collect());
  EXPECT_THAT(text, HasSubstr(R"(larder_reflector_watches_total{collection="life"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(larder_reflector_resource_version{collection="life"} 10)"));
  EXPECT_THAT(text,
              HasSubstr(R"(larder_reflector_events_total{collection="life",type="BOOKMARK"} 0)"));
  // Nothing came, and the clock stands still: the server may still refuse the version.
  EXPECT_THAT(text, HasSubstr(R"(larder_reflector_synced{collection="life"} 0)"));
}

TEST_F(ReflectorTest, CountsWhatItDoes) {
  prometheus::Registry registry;
  options.registry = &registry;
  server.Push(Answer::Json(PodListJson("9", {{.name = "a", .version = "5"}})));
  server.Push(
      Answer::Watch({EventLine("ADDED", {.name = "b", .version = "11"}), BookmarkLine("12")}));
  server.Push(Answer::Status(429, "TooManyRequests"));
  Run();
  const std::string text = prometheus::TextSerializer().Serialize(registry.Collect());
  EXPECT_THAT(text,
              HasSubstr(R"(larder_reflector_lists_total{collection="test",reason="first"} 1)"));
  EXPECT_THAT(text,
              HasSubstr(R"(larder_reflector_events_total{collection="test",type="ADDED"} 1)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(larder_reflector_restarts_total{collection="test",reason="TooManyRequests"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(larder_reflector_objects_total{collection="test"} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(larder_reflector_synced{collection="test"} 1)"));
  EXPECT_THAT(text, HasSubstr("larder_reflector_last_bookmark_timestamp_seconds"));
  EXPECT_THAT(text, HasSubstr("larder_reflector_wire_bytes_total"));
}

}  // namespace
}  // namespace larder
