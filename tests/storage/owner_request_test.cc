// One process asks another, which owns the store, to do something.
#include "storage/owner_request.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/storage/support.h"

namespace larder {
namespace {

namespace fs = std::filesystem;
using testing::CodeOf;
using testing::Must;

constexpr std::chrono::seconds kAnswered{60};
constexpr std::chrono::milliseconds kSilence{50};

class OwnerRequestTest : public ::testing::Test {
 protected:
  // An owner that looks every few milliseconds, or as good as never.
  void Open(std::chrono::milliseconds looks_every = std::chrono::milliseconds(10)) {
    StoreOptions options;
    options.path = dir_.path();
    options.sync_interval = looks_every;
    store_ = Must(Store::Open(options));
  }
  Result<std::string> Ask(const std::string& name, const std::string& text,
                          std::chrono::milliseconds patience = kAnswered) {
    return AskOwner(dir_.path(), name, text, {}, patience);
  }
  std::string RequestFile() const { return dir_.path() + "/tuning/request"; }
  std::string RequestText() const {
    std::ifstream file(RequestFile());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void AwaitRequest(bool there) {
    while (fs::exists(RequestFile()) != there) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // Nothing of it stays in the store's directory.
  void ExpectNothingLeft() {
    for (const auto& entry : fs::directory_iterator(dir_.path() + "/tuning")) {
      ADD_FAILURE() << entry.path() << " was left behind";
    }
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_F(OwnerRequestTest, IsAnsweredByTheOwner) {
  Open();
  AnswerRequests(*store_, "twice",
                 [](const std::string& text) -> Result<std::string> { return text + text; });
  EXPECT_EQ(Must(Ask("twice", "two\nlines ")), "two\nlines two\nlines ");
  ExpectNothingLeft();
}

// Who asked first has given up, and the next one asks while the owner still works on it.
TEST_F(OwnerRequestTest, ALateAnswerTakesNoOtherRequestAway) {
  Open();
  std::atomic<bool> first{true};
  AnswerRequests(*store_, "slow", [&](const std::string& text) -> Result<std::string> {
    if (!first.exchange(false)) return text;
    while (!RequestText().ends_with("two")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return text;
  });
  std::jthread impatient([&] { (void)Ask("slow", "one", kSilence); });
  while (first) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  impatient.join();
  const auto answer = Ask("slow", "two");
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(*answer, "two");
}

TEST_F(OwnerRequestTest, WhatTheOwnerCouldNotDoComesBackAsItsError) {
  Open();
  AnswerRequests(*store_, "fails", [](const std::string&) -> Result<std::string> {
    return MakeError(ErrorCode::kConflict, "somebody else did");
  });
  const auto answer = Ask("fails", "");
  ASSERT_EQ(CodeOf(answer), ErrorCode::kConflict);
  EXPECT_EQ(answer.error().message, "somebody else did");
  ExpectNothingLeft();
}

TEST_F(OwnerRequestTest, AnOwnerThatKnowsNothingOfItSaysSo) {
  Open();
  EXPECT_EQ(CodeOf(Ask("unheard-of", "x")), ErrorCode::kNotFound);
  AnswerRequests(*store_, "once",
                 [](const std::string& text) -> Result<std::string> { return text; });
  EXPECT_EQ(Must(Ask("once", "a")), "a");
  StopAnswering(*store_, "once");
  EXPECT_EQ(CodeOf(Ask("once", "a")), ErrorCode::kNotFound);
}

TEST_F(OwnerRequestTest, ASilentOwnerIsNotWaitedForForEverAndTheRequestIsTakenBack) {
  Open(std::chrono::hours(1));
  EXPECT_EQ(CodeOf(Ask("anything", "", kSilence)), ErrorCode::kTimeout);
  ExpectNothingLeft();
}

TEST_F(OwnerRequestTest, AnInterruptTakesTheRequestBack) {
  Open(std::chrono::hours(1));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CodeOf(AskOwner(dir_.path(), "anything", "", stop.get_token(), kAnswered)),
            ErrorCode::kCancelled);
  ExpectNothingLeft();
}

TEST_F(OwnerRequestTest, OneIsAskedAtATime) {
  Open(std::chrono::hours(1));
  std::stop_source stop;
  std::jthread first(
      [&] { (void)AskOwner(dir_.path(), "anything", "", stop.get_token(), kAnswered); });
  AwaitRequest(true);
  const auto second = Ask("anything", "", kSilence);
  EXPECT_EQ(CodeOf(second), ErrorCode::kAlreadyExists);
  EXPECT_NE(second.error().message.find(RequestFile()), std::string::npos)
      << second.error().message;
  EXPECT_TRUE(fs::exists(RequestFile())) << "the first one still waits";
  stop.request_stop();
}

TEST_F(OwnerRequestTest, ASnapshotIsMadeByTheOwner) {
  Open();
  const auto made = Must(AskOwnerForSnapshot(dir_.path(), "before", {}, kAnswered));
  EXPECT_EQ(made.name, "before");
  EXPECT_EQ(Must(ListSnapshots(dir_.path())).size(), 1U);
  // A name that is taken is refused before anybody is asked.
  EXPECT_EQ(CodeOf(AskOwnerForSnapshot(dir_.path(), "before", {}, kAnswered)),
            ErrorCode::kAlreadyExists);
  ExpectNothingLeft();
}

// The id becomes part of a file's name.
TEST_F(OwnerRequestTest, ARequestToRecordThatIsNoneIsAnsweredWithAnError) {
  Open();
  fs::create_directory(dir_.path() + "/tuning");
  const std::string error = dir_.path() + "/tuning/record.error";
  for (const char* text :
       {"", "[]", "{}", R"({"milliseconds":"9"})", R"({"milliseconds":-1})",
        R"({"milliseconds":9,"maxBytes":"9"})", R"({"milliseconds":9,"maxBytes":-9})"}) {
    SCOPED_TRACE(text);
    std::ofstream(dir_.path() + "/tuning/part") << text;
    fs::rename(dir_.path() + "/tuning/part", dir_.path() + "/tuning/record");
    while (fs::exists(dir_.path() + "/tuning/record")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(fs::remove(error));
  }
}

TEST_F(OwnerRequestTest, ARecordingThatIsToLastForEverDoesNotEndAtOnce) {
  Open();
  fs::create_directory(dir_.path() + "/tuning");
  std::ofstream(dir_.path() + "/tuning/part") << R"({"milliseconds":18446744073709551615})";
  fs::rename(dir_.path() + "/tuning/part", dir_.path() + "/tuning/record");
  while (!fs::exists(dir_.path() + "/tuning/trace.part")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // An owner that answers has looked in between.
  (void)Ask("nothing", "");
  (void)Ask("nothing", "");
  EXPECT_TRUE(fs::exists(dir_.path() + "/tuning/record"));
}

TEST_F(OwnerRequestTest, ARequestThatPointsElsewhereIsDroppedUnanswered) {
  Open();
  const std::string outside = dir_.root() + "/outside";
  std::atomic<int> asked = 0;
  AnswerRequests(*store_, "count", [&](const std::string&) -> Result<std::string> {
    ++asked;
    return std::string("counted");
  });
  fs::create_directory(dir_.path() + "/tuning");
  const std::string part = dir_.root() + "/part";
  std::ofstream(part) << "/../../../outside\ncount\n";
  fs::rename(part, RequestFile());
  AwaitRequest(false);
  EXPECT_EQ(asked, 0);
  ExpectNothingLeft();
  EXPECT_FALSE(fs::exists(outside + ".answer"));
  EXPECT_EQ(Must(Ask("count", "")), "counted") << "and the owner goes on answering";
}

}  // namespace
}  // namespace larder
