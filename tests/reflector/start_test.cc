// Starting: where the target stopped, and whether that can be trusted.
#include <gmock/gmock.h>

#include "tests/reflector/reflector_harness.h"

namespace larder {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;

using StartTest = ReflectorTest;

TEST_F(StartTest, ResumesFromTheCursorWithoutListing) {
  StoredAt("10");
  server.Push(Answer::Watch({EventLine("MODIFIED", {.name = "a", .version = "11"})}));
  EXPECT_EQ(Run(), Reflector::Outcome::kStopped);
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10"));
  EXPECT_THAT(target.calls, ElementsAre("Start", "MODIFIED x/a@11"));
  EXPECT_TRUE(reflector->Status().synced);
  EXPECT_EQ(reflector->Status().lists, 0U);
  EXPECT_EQ(reflector->Status().state, ReflectorState::kStopped);
}

// A refusal comes after the headers: an open watch proves nothing yet.
TEST_F(StartTest, IsNotSyncedBeforeTheServerAcceptsTheResume) {
  for (const size_t bits : {size_t{1000}, size_t{7}}) {
    StoredAt("10");
    target.calls.clear();
    server.Push(Answer::Watch({ErrorLine(410, "Expired")}).InBitsOf(bits));
    server.Push(Answer::Protobuf(MetadataListProtobuf("20", {})));
    server.Push(Answer::Watch({}));
    std::vector<bool> synced;
    target.on_call = [&](const std::string& call) {
      if (call != "Start") synced.push_back(reflector->Status().synced);
    };
    Run();
    EXPECT_THAT(target.calls, ElementsAre("Start", "Begin gone", "End 20"));
    EXPECT_THAT(synced, ElementsAre(false, false));
    EXPECT_TRUE(reflector->Status().synced);
    stop = std::stop_source();
  }
}

TEST_F(StartTest, AnErrorStaysUntilTheServerAcceptsTheWatch) {
  StoredAt("10");
  server.Push(Answer::Watch({ErrorLine(500, "InternalError")}));
  server.Push(Answer::Watch({ErrorLine(500, "InternalError")}));
  Run();
  EXPECT_FALSE(reflector->Status().synced);
  EXPECT_TRUE(reflector->Status().error.has_value());
}

TEST_F(StartTest, AQuietWatchIsAcceptedSoonAfterItsHeaders) {
  StoredAt("10");
  server.Push(Answer::Watch({}).ThenHang());
  const Clock::Steady begun = clock.Now();
  options.silent_timeout = options.accepted_after + std::chrono::milliseconds(1);
  Run();
  EXPECT_TRUE(reflector->Status().synced);
  EXPECT_EQ(clock.Now() - begun, options.silent_timeout);
}

TEST_F(StartTest, ReportsAnotherCluster) {
  StoredAt("10");
  server.Always("C", Answer::Json(NamespaceJson("somewhere else")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
  EXPECT_THAT(server.Requests(), ElementsAre("C"));
  EXPECT_THAT(target.calls, ElementsAre("Start"));
  const ReflectorStatus status = reflector->Status();
  EXPECT_EQ(status.state, ReflectorState::kAnotherCluster);
  ASSERT_TRUE(status.error.has_value());
  EXPECT_THAT(status.error->message, HasSubstr("somewhere else"));
}

TEST_F(StartTest, ChecksTheClusterBeforeAFirstListToo) {
  target.position.cluster_uid = "cluster";
  server.Always("C", Answer::Json(NamespaceJson("other")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
  EXPECT_EQ(target.Count("Begin"), 0U);
}

TEST_F(StartTest, GoesOnWithoutTheClusterCheckWhereThereIsNoSuchNamespace) {
  StoredAt("10");
  server.Always("C", Answer::NotFound("kube-system"));
  server.Push(Answer::Watch({}));
  EXPECT_EQ(Run(), Reflector::Outcome::kStopped);
  EXPECT_THAT(Requests(), ElementsAre("W 10"));
}

TEST_F(StartTest, AProxyThatFindsNothingDoesNotPassTheClusterCheck) {
  target.position.resource_version = "10";
  target.position.cluster_uid = "cluster";
  server.Push(Answer::PageNotFound());
  server.Push(Answer::Json(NamespaceJson("another")));
  EXPECT_EQ(Run(), Reflector::Outcome::kAnotherCluster);
  EXPECT_THAT(Requests(), ElementsAre());
}

TEST_F(StartTest, GoesOnWithoutTheClusterCheckWhenItIsForbidden) {
  StoredAt("10");
  server.Always("C", Answer::Status(403, "Forbidden"));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 10"));
  EXPECT_FALSE(reflector->Status().last_error.has_value());
}

TEST_F(StartTest, ListsInFullWhenTheServerIsBehindTheCursor) {
  StoredAt("1000");
  target.Put("x/a", "uid-a", "999");
  target.Put("x/lost", "uid-lost", "1000");
  server.Always("V", Answer::Json(PodListJson("999", {})));
  server.Push(Answer::Json(PodListJson("999", {{.name = "a", .version = "999"}})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "L", "W 999"));
  EXPECT_THAT(target.calls,
              ElementsAre("Start", "Rewound", "Begin rewound", "Item x/a@999", "End 999"));
  EXPECT_EQ(target.objects.size(), 1U);
  EXPECT_EQ(Restarts("rewound"), 1U);
}

// Found by the simulation, seed 305340: the next process met a server that was past the version and
// showed the newest change at the version that is stored, by chance.
TEST_F(StartTest, AServerThatWasFoundRewoundIsListedByTheNextProcessToo) {
  StoredAt("20");
  target.position.witness = {{"x", "a"}, "20", false};
  server.Always("V x/a", Answer::Json(MetadataListJson("15", {})));
  server.Push(Answer::Status(500, "InternalError"));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("L"));
  EXPECT_EQ(target.Count("Begin"), 0U);
  stop = std::stop_source();
  server.Always("V x/a", Answer::Json(MetadataListJson("30", {{.name = "a", .version = "20"}})));
  server.Push(Answer::Json(PodListJson("30", {{.name = "a", .version = "20"}})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_EQ(target.Count("Begin"), 1U);
  EXPECT_EQ(target.Count("End 30"), 1U);
}

TEST_F(StartTest, ARewoundServerIsNotListedBeforeThatIsKept) {
  StoredAt("1000");
  server.Always("V", Answer::Json(PodListJson("999", {})));
  server.Push(Answer::Json(PodListJson("999", {})));
  server.Push(Answer::Watch({}));
  target.fail_at = "Rewound";
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "C", "V", "L", "W 999"));
  EXPECT_THAT(target.calls, ElementsAre("Start", "failed Rewound", "Start", "Rewound",
                                        "Begin rewound", "End 999"));
}

// A server that was restored and has since passed the cursor, looked at through the newest change
// that is stored.
class WitnessTest : public StartTest {
 protected:
  // Stored is x/a at 10, the newest of all, and the server is at 30.
  void Stored(bool deleted, const std::vector<TestPod>& shown) {
    StoredAt("20");
    target.Put("x/a", "uid-a", "10");
    target.position.witness = {{"x", "a"}, "10", deleted};
    server.Always("V x/a", Answer::Json(MetadataListJson("30", shown)));
  }
  void ExpectRewound() {
    server.Push(Answer::Json(PodListJson("40", {})));
    server.Push(Answer::Watch({}));
    Run();
    EXPECT_EQ(target.Count("Begin rewound"), 1U);
    EXPECT_EQ(Restarts("rewound"), 1U);
  }
  void ExpectResumed() {
    Run();
    EXPECT_EQ(target.Count("Begin"), 0U);
    EXPECT_EQ(Restarts("rewound"), 0U);
  }
};

TEST_F(WitnessTest, AsItIsStoredIsFine) {
  Stored(false, {{.name = "a", .version = "10"}});
  server.Push(Answer::Watch({BookmarkLine("35")}));
  ExpectResumed();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V x/a", "W 20"));
}

// Anybody who may create a role can choose its name.
TEST_F(WitnessTest, ItsNameIsEscapedInTheSelector) {
  StoredAt("20");
  target.position.witness = {{"x", "cn=admins,ou=\\"}, "10", false};
  server.Push(Answer::Json(MetadataListJson("30", {})));
  Run();
  EXPECT_EQ(QueryValue(server.FullRequests().back(), "fieldSelector"),
            R"(metadata.name=cn\=admins\,ou\=\\)");
}

TEST_F(WitnessTest, GoneAsItIsStoredIsFine) {
  Stored(true, {});
  server.Push(Answer::Watch({BookmarkLine("35")}));
  ExpectResumed();
}

TEST_F(WitnessTest, OlderThanStoredIsRewound) {
  Stored(false, {{.name = "a", .version = "9"}});
  ExpectRewound();
}

TEST_F(WitnessTest, ChangedBeforeTheCursorIsRewound) {
  Stored(false, {{.name = "a", .version = "15"}});
  ExpectRewound();
}

// What a relist fetched alone may be newer than its list. The server was there.
TEST_F(WitnessTest, AServerThatIsNotAsFarIsRewound) {
  Stored(false, {{.name = "a", .version = "25"}});
  target.position.witness = {{"x", "a"}, "31", false};
  ExpectRewound();
}

// The watch would tell of that change, and the newer one of the lost time would stay.
TEST_F(WitnessTest, OlderThanWhatWasFetchedAheadIsRewound) {
  Stored(false, {{.name = "a", .version = "23"}});
  target.position.witness = {{"x", "a"}, "25", false};
  ExpectRewound();
}

TEST_F(WitnessTest, GoneBeforeWhatWasFetchedAheadIsRewound) {
  Stored(false, {});
  target.position.witness = {{"x", "a"}, "25", false};
  server.Push(
      Answer::Watch({EventLine("DELETED", {.name = "a", .version = "23"}), BookmarkLine("35")}));
  ExpectRewound();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V x/a", "W 20", "L", "W 40"));
}

TEST_F(WitnessTest, GoneAfterWhatWasFetchedAheadIsFine) {
  Stored(false, {});
  target.position.witness = {{"x", "a"}, "25", false};
  server.Push(
      Answer::Watch({EventLine("MODIFIED", {.name = "a", .version = "25"}),
                     EventLine("DELETED", {.name = "a", .version = "27"}), BookmarkLine("35")}));
  ExpectResumed();
}

TEST_F(WitnessTest, ThereAgainIsRewound) {
  Stored(true, {{.name = "a", .version = "8"}});
  ExpectRewound();
}

TEST_F(WitnessTest, ChangedSinceIsFineWhenTheWatchSaysSo) {
  Stored(false, {{.name = "a", .version = "25"}});
  server.Push(
      Answer::Watch({EventLine("MODIFIED", {.name = "b", .version = "22"}),
                     EventLine("MODIFIED", {.name = "a", .version = "25"}), BookmarkLine("35")}));
  ExpectResumed();
}

TEST_F(WitnessTest, GoneSinceIsFineWhenTheWatchSaysSo) {
  Stored(false, {});
  server.Push(
      Answer::Watch({EventLine("DELETED", {.name = "a", .version = "30"}), BookmarkLine("35")}));
  ExpectResumed();
}

TEST_F(WitnessTest, GoneIsRewoundWhenTheWatchDoesNotSaySo) {
  Stored(false, {});
  server.Push(
      Answer::Watch({EventLine("MODIFIED", {.name = "b", .version = "29"}), BookmarkLine("30")}));
  ExpectRewound();
}

TEST_F(WitnessTest, ChangedIsRewoundWhenTheWatchDoesNotSaySo) {
  Stored(false, {{.name = "a", .version = "25"}});
  server.Push(Answer::Watch({EventLine("MODIFIED", {.name = "b", .version = "31"})}));
  ExpectRewound();
}

TEST_F(WitnessTest, AnUnfinishedListIsMadeAnywayAndAsksForNoWitness) {
  Stored(false, {});
  target.position.list_unfinished = true;
  server.Push(Answer::Protobuf(MetadataListProtobuf("40", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "D 20", "W 40"));
}

TEST_F(StartTest, ComparesVersionsByLengthNotByText) {
  StoredAt("9");
  server.Always("V", Answer::Json(PodListJson("123456789012345678901234567890", {})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("W 9"));
}

TEST_F(StartTest, ReadsTheVersionFromTheHeadOfAListThatIsTooLarge) {
  StoredAt("10");
  Answer too_large;
  too_large.refused = Error{ErrorCode::kProtocol, "the answer is larger than allowed", {}, {}};
  class Large final : public HttpTransport {
   public:
    Large(ScriptedTransport* inner, Answer* refusal) : inner_(inner), refusal_(*refusal) {}
    Result<Response> Do(const Request& request, const std::stop_token& token) override {
      if (Shorthand(request) == "V") return tl::unexpected(*refusal_.refused);
      return inner_->Do(request, token);
    }
    Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                             const std::stop_token& token) override {
      return inner_->Open(request, token);
    }

   private:
    ScriptedTransport* inner_;
    Answer& refusal_;
  };
  Large large(&server, &too_large);
  server.Push(Answer::Watch({}));
  auto made = Reflector::Create(options, &large, &target);
  (*made)->Run(stop.get_token());
  EXPECT_THAT(server.Requests(), ElementsAre("C", "V", "W 10"));
}

TEST_F(StartTest, FinishesAListThatWasUnderWay) {
  StoredAt("10");
  target.position.list_unfinished = true;
  target.Put("x/a", "uid-a", "5");
  server.Push(Answer::Protobuf(MetadataListProtobuf("20", {{.name = "a", .version = "5"}})));
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(Requests(), ElementsAre("D 10", "W 20"));
  EXPECT_THAT(target.calls, ElementsAre("Start", "Begin unfinished", "Same x/a", "End 20"));
}

TEST_F(StartTest, ChecksAgainAfterAFailedCheckAndNeverLists) {
  StoredAt("10");
  server.Always("C", Answer::Refused());
  target.on_call = [&](const std::string&) {};
  int attempts = 0;
  // The third attempt finds the server up again.
  options.backoff.initial = std::chrono::milliseconds(1);
  class Flaky final : public HttpTransport {
   public:
    Flaky(ScriptedTransport* inner, int* attempts) : inner_(inner), attempts_(attempts) {}
    Result<Response> Do(const Request& request, const std::stop_token& stop) override {
      if (Shorthand(request) == "C" && ++*attempts_ == 3) {
        inner_->Always("C", Answer::Json(NamespaceJson("cluster")));
      }
      return inner_->Do(request, stop);
    }
    Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                             const std::stop_token& stop) override {
      return inner_->Open(request, stop);
    }

   private:
    ScriptedTransport* inner_;
    int* attempts_;
  };
  Flaky flaky(&server, &attempts);
  server.Push(Answer::Watch({}));
  auto made = Reflector::Create(options, &flaky, &target);
  (*made)->Run(stop.get_token());
  EXPECT_THAT(server.Requests(), ElementsAre("C", "C", "C", "V", "W 10"));
  EXPECT_EQ((*made)->Status().restarts.at("Unavailable"), 2U);
}

TEST_F(StartTest, StartsAgainWhenTheTargetCannotStart) {
  StoredAt("10");
  target.fail_at = "Start";
  server.Push(Answer::Watch({}));
  Run();
  EXPECT_THAT(target.calls, ElementsAre("failed Start", "Start"));
  EXPECT_EQ(Restarts("target"), 1U);
  EXPECT_EQ(clock.Waits().size(), 1U);
}

TEST_F(StartTest, RefusesOptionsThatCannotWork) {
  auto code = [&](const ReflectorOptions& wrong) {
    return Reflector::Create(wrong, &server, &target).error().code;
  };
  ReflectorOptions wrong = options;
  wrong.resource.resource.clear();
  EXPECT_EQ(code(wrong), ErrorCode::kInvalidArgument);
  wrong = options;
  wrong.resource.namespaced = false;
  wrong.ns = "x";
  EXPECT_EQ(code(wrong), ErrorCode::kInvalidArgument);
  wrong = options;
  wrong.shard_selector = "half";
  EXPECT_EQ(code(wrong), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace larder
