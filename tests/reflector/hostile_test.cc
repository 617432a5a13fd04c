// A hostile API server: whatever it sends, the cursor stays behind it, memory stays bounded and
// nothing is stored that was not whole.
#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <cstdlib>
#include <sstream>

#include "reflector/list_splitter.h"
#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::ElementsAre;
using ::testing::HasSubstr;

class HostileTest : public ReflectorTest {
 protected:
  // A good event, then this line, then a good event that must not be taken: the watch must be
  // opened again from the first one.
  void ExpectRefused(const std::string& line) {
    SCOPED_TRACE(line.substr(0, 100));
    InstantClock instant;
    std::stop_source source;
    ScriptedTransport transport(&instant, &source);
    RecordingTarget recording;
    recording.position.resource_version = "10";
    ReflectorOptions same = options;
    same.clock = &instant;
    transport.Always("V", Answer::Json(PodListJson("1000", {})));
    transport.Push(Answer::Watch({EventLine("ADDED", {.name = "a", .version = "11"}), line,
                                  EventLine("ADDED", {.name = "b", .version = "13"})}));
    transport.Push(Answer::Watch({}));
    auto made = Reflector::Create(same, &transport, &recording);
    (*made)->Run(source.get_token());
    EXPECT_THAT(transport.Requests(), ElementsAre("V", "W 10", "W 11"));
    EXPECT_THAT(recording.calls, ElementsAre("Start", "ADDED x/a@11"));
    EXPECT_EQ((*made)->Status().restarts["Protocol"], 1U);
    EXPECT_EQ((*made)->Status().last_error->code, ErrorCode::kProtocol);
  }

  // What a reflector logs that starts at this version and gets these answers.
  std::string LogOf(const std::string& stored, const std::vector<Answer>& answers,
                    FirstSync first_sync = FirstSync::kList) {
    InstantClock instant;
    std::stop_source source;
    ScriptedTransport transport(&instant, &source);
    RecordingTarget recording;
    recording.position.resource_version = stored;
    ReflectorOptions same = options;
    same.clock = &instant;
    same.first_sync = first_sync;
    for (const Answer& answer : answers) transport.Push(answer);
    auto made = Reflector::Create(same, &transport, &recording);
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    (*made)->Run(source.get_token());
    spdlog::set_default_logger(before);
    EXPECT_EQ(recording.Count("End"), 0U);
    return log.str();
  }

  // The list must be refused, and nothing swept.
  void ExpectListRefused(Answer answer) {
    target.Put("x/old", "uid-old", "3");
    server.Push(std::move(answer));
    Run();
    EXPECT_THAT(server.Requests(), ElementsAre("L"));
    EXPECT_EQ(target.Count("End"), 0U);
    EXPECT_TRUE(target.objects.contains("x/old"));
  }
};

TEST_F(HostileTest, UnknownEventType) {
  ExpectRefused(EventLine("RENAMED", {.name = "a", .version = "12"}));
}
TEST_F(HostileTest, EventWithoutObject) { ExpectRefused(R"({"type":"ADDED"})"); }
TEST_F(HostileTest, EventWithoutType) {
  ExpectRefused(R"({"object":{"metadata":{"name":"a","resourceVersion":"12"}}})");
}
TEST_F(HostileTest, EventThatIsNoJson) { ExpectRefused("<html><body>proxy error</body></html>"); }
TEST_F(HostileTest, EventThatIsCutOff) {
  const std::string line = EventLine("ADDED", {.name = "a", .version = "12"});
  for (size_t size : {size_t{1}, line.size() / 2, line.size() - 1})
    ExpectRefused(line.substr(0, size));
}
TEST_F(HostileTest, TwoEventsInALine) {
  const std::string line = EventLine("ADDED", {.name = "a", .version = "12"});
  ExpectRefused(line + line);
}
TEST_F(HostileTest, EventWithoutVersion) {
  ExpectRefused(EventLine("ADDED", {.name = "a", .version = ""}));
}
TEST_F(HostileTest, EventWithAVersionThatIsNone) {
  for (const char* version : {"0", "007", "-1", "abc", "1.5"}) {
    ExpectRefused(EventLine("MODIFIED", {.name = "a", .version = version}));
  }
}
TEST_F(HostileTest, AVersionThatIsNoneIsShownShortAndOnOneLine) {
  const std::string text = "x\\n[error] \\u001b[2J" + std::string(10'000, 'x');
  const TestPod pod{.name = "a", .version = "5"};
  const Answer good = Answer::Json(PodListJson("10", {}));
  for (const std::string& log :
       {LogOf("", {Answer::Json(PodListJson(text, {pod}))}),
        LogOf("", {Answer::Json(PodListJson("9", {{.name = "a", .version = text}}))}),
        LogOf("", {Answer::Json(R"({"items":[],"kind":")" + text + "\"}")}),
        LogOf("", {Answer::Watch({EventLine("ADDED", pod), BookmarkLine(text, true)})},
              FirstSync::kWatchList),
        LogOf("10", {good, Answer::Watch({BookmarkLine(text)})}),
        LogOf("10", {Answer::Json(PodListJson(text, {}))})}) {
    EXPECT_THAT(log, HasSubstr("x [error] ^[[2Jxxx"));
    EXPECT_LT(log.size(), 2000U);
  }
}

TEST_F(HostileTest, AListOfAnotherKindIsNamedShortAndOnOneLine) {
  ListHead head;
  head.kind = head.api_version = "x\n\033[2J" + std::string(10'000, 'x');
  const auto refused = head.CheckItems({"v1", "Pod"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the server sent x ^[[2Jxxx"));
  EXPECT_LT(refused.error().message.size(), 300U);
}

TEST_F(HostileTest, BookmarkWithoutVersion) {
  ExpectRefused(BookmarkLine(""));
  ExpectRefused(BookmarkLine("x"));
  ExpectRefused(R"({"type":"BOOKMARK","object":{}})");
}
TEST_F(HostileTest, InvalidUtf8IsNotStored) {
  ExpectRefused(EventLine("ADDED", {.name = "a", .version = "12", .extra = ",\"s\":\"\xc3\x28\""}));
  ExpectRefused(EventLine("ADDED", {.name = "a", .version = "12", .extra = ",\"s\":\"\xff\""}));
}
TEST_F(HostileTest, SlashOrNulInANameIsNotSkipped) {
  ExpectRefused(EventLine("ADDED", {.name = "a/b", .version = "12"}));
  ExpectRefused(EventLine("ADDED", {.name = "a\\u0000b", .version = "12"}));
  ExpectRefused(EventLine("ADDED", {.name = "a", .version = "12", .ns = "x/y"}));
  ExpectRefused(EventLine("DELETED", {.name = "", .version = "12"}));
}
TEST_F(HostileTest, NestingAHundredThousandDeep) {
  ExpectRefused(EventLine(
      "ADDED", {.name = "a",
                .version = "12",
                .extra = ",\"s\":" + std::string(100'000, '[') + std::string(100'000, ']')}));
}
TEST_F(HostileTest, AnEndlessLine) {
  options.max_event_bytes = 4096;
  ExpectRefused(EventLine(
      "ADDED",
      {.name = "a", .version = "12", .extra = ",\"s\":\"" + std::string(10'000, 'x') + "\""}));
}

TEST_F(HostileTest, AnObjectOfThreeMegabytesIsTaken) {
  StoredAt("10");
  const TestPod big{
      .name = "a", .version = "12", .extra = ",\"s\":\"" + std::string(3 << 20, 'x') + "\""};
  server.Push(Answer::Watch({EventLine("ADDED", big)}).InBitsOf(16'384));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 12"));
}

TEST_F(HostileTest, AWatchThatStallsInMidLine) {
  StoredAt("10");
  Answer answer = Answer::Watch({EventLine("ADDED", {.name = "a", .version = "12"})});
  answer.pieces[0].resize(20);
  server.Push(std::move(answer).ThenHang());
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10"));
  EXPECT_EQ(Restarts("silent"), 1U);
}

TEST_F(HostileTest, AWatchThatEndsInMidLine) {
  StoredAt("10");
  Answer answer = Answer::Watch({EventLine("ADDED", {.name = "a", .version = "12"})});
  answer.pieces[0].resize(answer.pieces[0].size() - 1);  // everything but the newline
  server.Push(std::move(answer));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10"));
  EXPECT_EQ(target.Count("ADDED"), 0U);
  EXPECT_EQ(Restarts("Unavailable"), 1U);
}

TEST_F(HostileTest, HtmlWithStatus200) {
  ExpectListRefused(
      Answer::Json("<html>log in</html>").WithHeader("content-type", "text/html; charset=utf-8"));
  EXPECT_THAT(reflector->Status().last_error->message, HasSubstr("text/html"));
  EXPECT_THAT(target.calls, ElementsAre("Start"));
}

TEST_F(HostileTest, HtmlThatSaysItIsJson) {
  ExpectListRefused(Answer::Json("<html>log in</html>"));
}

TEST_F(HostileTest, HtmlInsteadOfAWatch) {
  StoredAt("10");
  server.Push(Answer::Json("<html>\n").WithHeader("content-type", "text/html"));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 10"));
}

TEST_F(HostileTest, ARedirect) {
  Answer answer = Answer::Json("{}");
  answer.status = 302;
  ExpectListRefused(std::move(answer));
}

TEST_F(HostileTest, AStatusInsteadOfAList) {
  ExpectListRefused(Answer::Json(
      R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200})"));
}

TEST_F(HostileTest, AnEmptyObjectIsNoEmptyList) { ExpectListRefused(Answer::Json("{}")); }

TEST_F(HostileTest, AListWithoutVersion) {
  ExpectListRefused(Answer::Json(PodListJson("", {{.name = "a", .version = "5"}})));
}

TEST_F(HostileTest, AListThatIsCutOff) {
  const std::string list = PodListJson("9", {{.name = "a", .version = "5"}});
  ExpectListRefused(Answer::Json(list.substr(0, list.size() - 1)));
}

TEST_F(HostileTest, AListThatTrickles) {
  ExpectListRefused(Answer::Json(R"({"kind":"PodList","items":[)").ThenTrickle());
  EXPECT_EQ(reflector->Status().last_error->code, ErrorCode::kTimeout);
}

TEST_F(HostileTest, AListOfSpacesWithoutEnd) {
  options.max_event_bytes = 4096;
  ExpectListRefused(
      Answer::Json(std::string(20'000, ' ') + PodListJson("9", {{.name = "a", .version = "5"}}))
          .InBitsOf(1000));
  EXPECT_THAT(reflector->Status().last_error->message, HasSubstr("no item"));
}

TEST_F(HostileTest, AListItemThatCannotBeAnObject) {
  ExpectListRefused(Answer::Json(PodListJson("9", {{.name = "a/b", .version = "5"}})));
}

TEST_F(HostileTest, ARefusedObjectIsNamed) {
  ExpectListRefused(Answer::Json(PodListJson("9", {{.name = "a/b", .version = "5"}})));
  EXPECT_THAT(reflector->Status().last_error->message, HasSubstr("(x/a/b)"));
}

TEST_F(HostileTest, AListItemWithInvalidUtf8) {
  ExpectListRefused(
      Answer::Json(PodListJson("9", {{.name = "a", .version = "5", .extra = ",\"s\":\"\xff\""}})));
}

// A list that is made up as it is read.
class EndlessItems final : public BodyStream {
 public:
  explicit EndlessItems(uint64_t bytes) : left_(bytes) {
    item_ = PodJson(
        {.name = "a", .version = "5", .extra = ",\"s\":\"" + std::string(9000, 'x') + "\""});
  }
  int status() const override { return 200; }
  const std::map<std::string, std::string>& headers() const override { return headers_; }
  uint64_t wire_bytes() const override { return 0; }
  Result<std::string_view> Read(const std::stop_token&, Clock::Steady) override {
    if (done_) return std::string_view();
    piece_ = first_ ? R"({"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[)" : ",";
    first_ = false;
    piece_ += item_;
    left_ -= std::min<uint64_t>(left_, piece_.size());
    done_ = left_ == 0;
    if (done_) piece_ += "]}";
    return piece_;
  }

 private:
  uint64_t left_;
  std::string item_;
  std::string piece_;
  bool first_ = true;
  bool done_ = false;
  std::map<std::string, std::string> headers_;
};

// The address sanitizer does, so that memory cannot be judged under it.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeepsFreedMemory = true;
#elif defined(__has_feature)
constexpr bool kKeepsFreedMemory = __has_feature(address_sanitizer);
#else
constexpr bool kKeepsFreedMemory = false;
#endif

size_t PeakKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss);
}

// 128 MiB in every run; LARDER_TEST_LIST_MIB=2048 for the long one.
TEST_F(HostileTest, AListLargerThanMemoryCostsNone) {
  const char* wanted = std::getenv("LARDER_TEST_LIST_MIB");
  const uint64_t bytes = (wanted ? std::stoull(wanted) : 128) << 20;
  class Server final : public HttpTransport {
   public:
    Server(uint64_t bytes, std::stop_source* stop) : bytes_(bytes), stop_(*stop) {}
    Result<Response> Do(const Request&, const std::stop_token&) override {
      return MakeError(ErrorCode::kUnavailable, "only lists");
    }
    Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                             const std::stop_token&) override {
      if (Shorthand(request) == "L") return std::make_unique<EndlessItems>(bytes_);
      stop_.request_stop();
      return MakeError(ErrorCode::kCancelled, "over");
    }

   private:
    const uint64_t bytes_;
    std::stop_source& stop_;
  };
  class Counter final : public Target {
   public:
    Result<Position> Start() override { return Position{}; }
    Result<void> BeginList(std::string_view) override { return {}; }
    Result<void> ListItem(ObjectPtr) override {
      ++items;
      return {};
    }
    Result<bool> ListItemUnchanged(const ObjectKey&, std::string_view, std::string_view) override {
      return false;
    }
    Result<void> EndList(std::string_view) override { return {}; }
    Result<void> Event(EventType, ObjectPtr) override { return {}; }
    Result<void> Bookmark(std::string_view) override { return {}; }
    size_t items = 0;
  };
  Server endless(bytes, &stop);
  Counter counter;
  auto made = Reflector::Create(options, &endless, &counter);
  const size_t before = PeakKilobytes();
  (*made)->Run(stop.get_token());
  EXPECT_GT(counter.items, bytes / 10'000);
  EXPECT_EQ((*made)->Status().lists, 1U);
  const size_t grown = PeakKilobytes() - before;
  if (!kKeepsFreedMemory) {
    EXPECT_LT(grown, 8U << 10);
  }
}

TEST_F(HostileTest, TheSamePageTokenForEver) {
  options.first_sync = FirstSync::kPagedList;
  for (int i = 0; i < 2; ++i) server.Push(Answer::Json(PodListJson("9", {}, "again")));
  Run();
  EXPECT_EQ(target.Count("End"), 0U);
  EXPECT_EQ(reflector->Status().last_error->code, ErrorCode::kProtocol);
}

TEST_F(HostileTest, DeletedForAnUnknownObjectIsHandedOn) {
  StoredAt("10");
  server.Push(Answer::Watch({EventLine("DELETED", {.name = "never", .version = "12"})}));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10", "W 12"));
}

TEST_F(HostileTest, AServerThatClosesEverythingAtOnceIsNotHammered) {
  StoredAt("10");
  for (int i = 0; i < 20; ++i) server.Push(Answer::Watch({}).Lasting(milliseconds(0)));
  Run();
  EXPECT_EQ(clock.Waits().size(), 20U);
  milliseconds total{};
  for (const milliseconds wait : clock.Waits()) total += wait;
  EXPECT_GT(total, milliseconds(60'000));
  EXPECT_THAT(Requests(), Each("W 10"));
}

}  // namespace
}  // namespace larder
