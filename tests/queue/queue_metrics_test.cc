#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <thread>

#include "queue/work_queue.h"
#include "tests/queue/queue_harness.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

class QueueMetricsTest : public ::testing::Test {
 protected:
  void Open(Store* store) {
    WorkQueueOptions options = ManualOptions(store, &clock_);
    options.metrics = &registry_;
    options.max_retries = 0;
    queue_ = OpenQueue(std::move(options));
  }
  // The value of a sample of this queue, as a scrape shows it.
  std::string Sample(const std::string& name) {
    queue_->PublishMetrics();
    return Scrape(name + "{name=\"test\"} ");
  }
  std::string Scrape(const std::string& prefix) {
    const std::string text = "\n" + prometheus::TextSerializer().Serialize(registry_.Collect());
    const size_t at = text.find("\n" + prefix);
    if (at == std::string::npos) return "none";
    const size_t begin = at + 1 + prefix.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  FakeClock clock_;
  prometheus::Registry registry_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(QueueMetricsTest, CountsAsClientGoDoes) {
  Open(nullptr);
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(Sample("workqueue_adds_total"), "1");
  EXPECT_EQ(Sample("workqueue_depth"), "1");
  clock_.Advance(50us);
  EXPECT_EQ(queue_->Get(), "foo");
  EXPECT_EQ(Sample("workqueue_depth"), "0");
  EXPECT_EQ(Sample("workqueue_queue_duration_seconds_count"), "1");
  EXPECT_EQ(Sample("workqueue_queue_duration_seconds_sum"), "5e-05");
  // Added again while in process: an add, and a depth.
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(Sample("workqueue_adds_total"), "2");
  EXPECT_EQ(Sample("workqueue_depth"), "1");
  clock_.Advance(25us);
  queue_->Done("foo");
  EXPECT_EQ(Sample("workqueue_work_duration_seconds_count"), "1");
  EXPECT_EQ(Sample("workqueue_work_duration_seconds_sum"), "2.5e-05");
  EXPECT_EQ(queue_->Get(), "foo");
  EXPECT_EQ(Sample("workqueue_queue_duration_seconds_count"), "2");
  EXPECT_DOUBLE_EQ(std::stod(Sample("workqueue_queue_duration_seconds_sum")), 7.5e-05);
  queue_->Done("foo");
}

TEST_F(QueueMetricsTest, ShowsUnfinishedWork) {
  Open(nullptr);
  EXPECT_TRUE(queue_->Add("old"));
  EXPECT_TRUE(queue_->Add("new"));
  EXPECT_EQ(queue_->Get(), "old");
  clock_.Advance(2s);
  EXPECT_EQ(queue_->Get(), "new");
  clock_.Advance(1s);
  EXPECT_EQ(Sample("workqueue_unfinished_work_seconds"), "4");
  EXPECT_EQ(Sample("workqueue_longest_running_processor_seconds"), "3");
  queue_->Done("old");
  EXPECT_EQ(Sample("workqueue_unfinished_work_seconds"), "1");
  EXPECT_EQ(Sample("workqueue_longest_running_processor_seconds"), "1");
  queue_->Done("new");
  EXPECT_EQ(Sample("workqueue_unfinished_work_seconds"), "0");
  EXPECT_EQ(Sample("workqueue_longest_running_processor_seconds"), "0");
}

TEST_F(QueueMetricsTest, CountsRetriesAndDeadLetters) {
  Open(nullptr);
  EXPECT_TRUE(queue_->AddAfter("a", 1s));
  EXPECT_TRUE(queue_->AddRateLimited("b"));
  EXPECT_EQ(Sample("workqueue_retries_total"), "2");
  EXPECT_EQ(Sample("workqueue_dead_letters"), "1");
  EXPECT_EQ(Sample("workqueue_adds_total"), "0");
  clock_.Advance(1s);
  EXPECT_EQ(Sample("workqueue_adds_total"), "1");
}

TEST_F(QueueMetricsTest, CountsWhatIsWritten) {
  TempStore store(&clock_);
  Open(store.get());
  EXPECT_TRUE(queue_->Add("a"));
  EXPECT_EQ(Sample("workqueue_unwritten_changes"), "1");
  EXPECT_TRUE(queue_->Flush());
  queue_->Done(*queue_->Get());
  EXPECT_TRUE(queue_->Add("b"));
  EXPECT_TRUE(queue_->Flush());
  EXPECT_EQ(Sample("workqueue_unwritten_changes"), "0");
  EXPECT_EQ(Sample("workqueue_records_written_total"), "2");
  EXPECT_EQ(Sample("workqueue_records_deleted_total"), "1");
  EXPECT_EQ(Sample("workqueue_flush_duration_seconds_count"), "2");
  EXPECT_EQ(Sample("workqueue_flush_errors_total"), "0");
  queue_.reset();
  Open(store.get());
  EXPECT_EQ(Sample("workqueue_loaded_total"), "1");
  queue_.reset();
}

TEST_F(QueueMetricsTest, AreGoneWhenTheQueueIs) {
  Open(nullptr);
  EXPECT_EQ(Sample("workqueue_depth"), "0");
  queue_.reset();
  EXPECT_EQ(Scrape("workqueue_depth{name=\"test\"} "), "none");
}

TEST_F(QueueMetricsTest, StayWhenAnotherQueueOfThatNameIsRefused) {
  TempStore store(&clock_);
  Open(store.get());
  WorkQueueOptions options = ManualOptions(store.get(), &clock_);
  options.metrics = &registry_;
  EXPECT_FALSE(WorkQueue::Open(std::move(options)));
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(Sample("workqueue_depth"), "1");
  EXPECT_EQ(Sample("workqueue_adds_total"), "1");
  EXPECT_EQ(Sample("workqueue_queue_duration_seconds_count"), "0");
  queue_.reset();
  EXPECT_EQ(Scrape("workqueue_depth{name=\"test\"} "), "none");
}

TEST_F(QueueMetricsTest, OfQueuesOfOneNameAddUp) {
  Open(nullptr);
  EXPECT_TRUE(queue_->Add("foo"));
  EXPECT_EQ(Sample("workqueue_adds_total"), "1");
  const std::unique_ptr<WorkQueue> first = std::move(queue_);
  Open(nullptr);
  EXPECT_TRUE(queue_->Add("bar"));
  EXPECT_EQ(Sample("workqueue_adds_total"), "2");
  queue_.reset();
  EXPECT_TRUE(first->Add("baz"));
  first->PublishMetrics();
  EXPECT_EQ(Scrape("workqueue_adds_total{name=\"test\"} "), "3");
}

TEST_F(QueueMetricsTest, ArePublishedByTheQueueItself) {
  WorkQueueOptions options;
  options.name = "test";
  options.metrics = &registry_;
  options.clock = &clock_;
  queue_ = OpenQueue(std::move(options));
  EXPECT_TRUE(queue_->Add("foo"));
  while (Scrape("workqueue_depth{name=\"test\"} ") != "1") {
    clock_.Advance(500ms);
    std::this_thread::yield();
  }
  // Nothing is published for a queue that is closed, whatever the clock says.
  queue_.reset();
  clock_.Advance(1h);
  EXPECT_EQ(Scrape("workqueue_depth{name=\"test\"} "), "none");
}

}  // namespace
}  // namespace larder
