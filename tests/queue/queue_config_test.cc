#include "queue/queue_config.h"

#include <gtest/gtest.h>

#include "queue/typed_queue.h"
#include "tests/queue/queue_harness.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

TEST(QueueConfigTest, MakesTheLimiterItDescribes) {
  FakeClock clock;
  WorkQueueConfig::RateLimit config;
  config.base_delay = 10ms;
  config.max_delay = 30ms;
  config.qps = 1;
  config.burst = 3;
  RateLimiterPtr limiter = MakeRateLimiter(config, &clock);
  EXPECT_EQ(limiter->When("a"), 10ms);
  EXPECT_EQ(limiter->When("a"), 20ms);
  EXPECT_EQ(limiter->When("a"), 30ms);
  EXPECT_EQ(limiter->When("b"), 1s);  // the bucket is empty
  config.qps = 0;
  limiter = MakeRateLimiter(config, &clock);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(limiter->When(std::to_string(i)), 10ms);
}

TEST(QueueConfigTest, MakesADeduplicatorOnlyWhenItIsOn) {
  WorkQueueConfig config;
  EXPECT_EQ(MakeEventDeduplicator(config), nullptr);
  config.deduplication.enabled = true;
  config.deduplication.ttl = 1s;
  FakeClock clock;
  const auto seen = MakeEventDeduplicator(config, &clock);
  ASSERT_NE(seen, nullptr);
  EXPECT_TRUE(seen->ShouldProcess("a", "1"));
  EXPECT_FALSE(seen->ShouldProcess("a", "1"));
  clock.Advance(1s);
  EXPECT_TRUE(seen->ShouldProcess("a", "1"));
}

TEST(QueueConfigTest, MakesAQueueWithItsRetries) {
  WorkQueueConfig config;
  config.name = "test";
  config.max_retries = 0;
  WorkQueue queue(MakeWorkQueueOptions(config, nullptr));
  EXPECT_TRUE(queue.AddRateLimited("foo", "no luck"));
  EXPECT_EQ(queue.DeadLetters().size(), 1u);
}

TEST(QueueConfigTest, NamesTheFieldThatIsWrong) {
  const auto message = [](const WorkQueueConfig& config) {
    const Result<void> valid = config.Validate();
    return valid ? std::string("valid") : valid.error().message;
  };
  WorkQueueConfig config;
  EXPECT_NE(message(config).find("name"), std::string::npos);
  config.name = "pods";
  EXPECT_EQ(message(config), "valid");
  config.rate_limit.max_delay = 1ms;
  EXPECT_NE(message(config).find("maxDelay"), std::string::npos);
  config.rate_limit.base_delay = 0ms;
  EXPECT_NE(message(config).find("baseDelay"), std::string::npos);
  config = {.name = "pods"};
  config.rate_limit.burst = 0;
  EXPECT_NE(message(config).find("burst"), std::string::npos);
  config.rate_limit.qps = -1;
  EXPECT_NE(message(config).find("qps"), std::string::npos);
  config = {.name = "pods"};
  config.deduplication.enabled = true;
  config.deduplication.ttl = 0s;
  EXPECT_NE(message(config).find("ttl"), std::string::npos);
}

TEST(QueueConfigTest, IsReadFromJson) {
  const auto config = WorkQueueConfig::FromJson(R"({
      "name": "pods", "maxRetries": 10, "durability": "sync",
      "rateLimiterConfig": {"baseDelay": "1s", "maxDelay": 300000000000, "qps": 20, "burst": 50},
      "deduplication": {"enabled": true, "ttl": "1m30s"},
      "batching": {"batchSize": 20, "flushTimeout": "50ms"}})");
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->name, "pods");
  EXPECT_EQ(config->max_retries, 10u);
  EXPECT_EQ(config->durability, Durability::kSync);
  EXPECT_EQ(config->rate_limit.base_delay, 1s);
  EXPECT_EQ(config->rate_limit.max_delay, 300s);
  EXPECT_EQ(config->rate_limit.qps, 20);
  EXPECT_EQ(config->rate_limit.burst, 50u);
  EXPECT_TRUE(config->deduplication.enabled);
  EXPECT_EQ(config->deduplication.ttl, 90s);
  EXPECT_EQ(config->batching.batch_size, 20u);
  EXPECT_EQ(config->batching.flush_timeout, 50ms);
  const auto least = WorkQueueConfig::FromJson(R"({"name": "pods", "maxRetries": 0})");
  ASSERT_TRUE(least) << least.error().ToString();
  EXPECT_EQ(least->max_retries, std::nullopt);
  EXPECT_FALSE(least->deduplication.enabled);
}

TEST(QueueConfigTest, SaysWhatIsWrongWithJson) {
  const std::pair<const char*, const char*> wrong[] = {
      {"[]", "one JSON object"},
      {"{}", "name must not be empty"},
      {R"({"name": 3})", "name is 3; allowed: text"},
      {R"({"name": "a", "maxRetries": -1})", "maxRetries is -1"},
      {R"({"name": "a", "maxRetries": 5000000000})", "maxRetries is 5000000000"},
      {R"({"name": "a", "durability": "most"})", R"(allowed: "relaxed" or "sync")"},
      {R"({"name": "a", "deduplication": {"ttl": "soon"}})", "deduplication.ttl is \"soon\""},
      {R"({"name": "a", "deduplication": {"ttl": true}})", "deduplication.ttl is true"},
      {R"({"name": "a", "deduplication": {"enabled": 1}})", "allowed: true or false"},
      {R"({"name": "a", "deduplication": 1})", "deduplication is 1; allowed: only these fields"},
      {R"({"name": "a", "batching": {"size": 1}})", "batching.size is 1; allowed: only these"},
      {R"({"name": "a", "batching": {"batchSize": 0}})", "batchSize must be above zero"},
      {R"({"name": "a", "batching": {"flushTimeout": "-1s"}})", "flushTimeout must be above zero"},
      {R"({"name": "a", "rateLimiterConfig": {"qps": "many"}})", "allowed: a number"},
  };
  for (const auto& [json, message] : wrong) {
    const auto config = WorkQueueConfig::FromJson(json);
    ASSERT_FALSE(config) << json;
    EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(config.error().message.find(message), std::string::npos) << config.error().message;
  }
}

TEST(TypedQueueTest, CarriesValues) {
  WorkQueue queue;
  TypedQueue<ObjectKey> keys(&queue);
  const ObjectKey key{"default", "a"};
  EXPECT_TRUE(keys.Add(key));
  EXPECT_TRUE(keys.Add(key));
  EXPECT_EQ(queue.Len(), 1u);
  EXPECT_EQ(keys.Get({}, kNoWait), key);
  EXPECT_TRUE(keys.AddRateLimited(key));
  EXPECT_EQ(keys.NumRequeues(key), 1u);
  keys.Done(key);
  keys.Forget(key);
  EXPECT_EQ(keys.NumRequeues(key), 0u);
}

TEST(TypedQueueTest, ReportsAndAcknowledgesWhatItCannotRead) {
  WorkQueue queue;
  std::vector<std::string> unreadable;
  TypedQueue<ObjectKey> keys(
      &queue, [&unreadable](const std::string& item, const Error&) { unreadable.push_back(item); });
  EXPECT_TRUE(queue.Add("a/b/c"));
  EXPECT_TRUE(keys.Add({"", "node"}));
  EXPECT_EQ(keys.Get({}, kNoWait), (ObjectKey{"", "node"}));
  EXPECT_EQ(unreadable, std::vector<std::string>{"a/b/c"});
  EXPECT_EQ(queue.Counters().items, 1u);
}

}  // namespace
}  // namespace larder
