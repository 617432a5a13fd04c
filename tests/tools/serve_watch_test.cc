// Lists and watches of `larder serve` and `larder get -w` while the store's owner writes: lists,
// rewound servers, deletes, versions.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "tests/tools/process.h"
#include "tests/tools/served_store.h"

namespace larder {
namespace {

constexpr const char* kPods = "/api/v1/pods";

class ServeWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Store::Open({.path = Path()});
    ASSERT_TRUE(opened) << opened.error().ToString();
    owner_ = *std::move(opened);
    pods_ = std::make_unique<Written>(owner_.get(), "pods");
    nodes_ = std::make_unique<Written>(owner_.get(), "nodes");
    nodes_->BeginList();
    nodes_->Commit({{"n1", "3"}});
    nodes_->EndList("10");
  }
  void FillPods() {
    pods_->BeginList();
    pods_->Commit({{"a/one", "7"}, {"a/two", "8"}});
    pods_->EndList("10");
  }
  std::string Path() const { return scratch_ / "store"; }

  // Names and versions of the pods, until the options stop it.
  Outcome GetAndWatch(const RunOptions& options) const {
    return RunLarder({"get", "pods", "-A", "-w", "--store", Path(), "-o",
                      R"(jsonpath={.metadata.name}@{.metadata.resourceVersion}{"\n"})"},
                     options);
  }

  // Asks until the list has this version.
  static Json ListAt(ServedStore& served, const std::string& path, const std::string& version) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    Json list;
    do {
      list = served.Get(path);
    } while (list["metadata"].value("resourceVersion", "") != version &&
             std::chrono::steady_clock::now() < end);
    return list;
  }
  static std::string From(const std::string& version) {
    return std::string(kPods) + "?watch=1&timeoutSeconds=15&resourceVersion=" + version;
  }

  ScratchDirectory scratch_;
  std::unique_ptr<Store> owner_;
  std::unique_ptr<Written> pods_, nodes_;
};

TEST_F(ServeWatchTest, WhatWasNeverListedToTheEndIsNotServedInPart) {
  pods_->BeginList();
  pods_->Commit({{"a/one", "7"}});
  ServedStore served(Path());
  for (const char* path :
       {"/api/v1/pods", "/api/v1/namespaces/a/pods", "/api/v1/pods?watch=1&timeoutSeconds=1",
        "/api/v1/namespaces/a/pods/one", "/api/v1/namespaces/a/pods/two"}) {
    const auto answer = served.Ask(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 429) << path << answer->body;
    EXPECT_EQ(answer->get_header_value("Retry-After"), "1") << path;
    EXPECT_EQ(Json::parse(answer->body, nullptr, false)["reason"], "TooManyRequests");
  }
  EXPECT_EQ(served.Get("/api/v1/nodes")["items"].size(), 1u);
  pods_->Commit({{"a/two", "8"}});
  pods_->EndList("10");
  const Json list = ListAt(served, kPods, "10");
  EXPECT_EQ(list["items"].size(), 2u) << list;
}

// The rows of a relist come without a cursor: in a turn in which only another collection's moved
// they became the state before, and nobody was told of them.
TEST_F(ServeWatchTest, ARelistEndsTheWatchesThatBeganBeforeIt) {
  FillPods();
  ServedStore served(Path());
  ASSERT_EQ(served.Get(kPods)["metadata"]["resourceVersion"], "10");
  const auto events = served.Watch(From("10"), 1, [&] {
    pods_->BeginList();
    pods_->Commit({{"a/one", "40"}, {"a/three", "41"}, {"a/two", ""}});
    nodes_->Commit({{"n1", "42"}}, "42");
    ListAt(served, "/api/v1/nodes", "42");
    // Of two times.
    for (const char* path : {kPods, "/api/v1/pods?watch=1&sendInitialEvents=1&timeoutSeconds=1"}) {
      const auto answer = served.Ask(path);
      EXPECT_EQ(answer ? answer->status : 0, 429) << path;
    }
    // One object is of one.
    EXPECT_EQ(served.Get("/api/v1/namespaces/a/pods/one")["metadata"]["name"], "one");
    pods_->EndList("50");
  });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["type"], "ERROR") << events[0];
  EXPECT_EQ(events[0]["object"]["code"], 410) << events[0];
  const Json list = ListAt(served, kPods, "50");
  ASSERT_EQ(list["items"].size(), 2u) << list;
  EXPECT_EQ(list["items"][1]["metadata"]["name"], "three") << list;
  const auto old = served.Watch(From("10"), 1);
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(old[0]["object"]["code"], 410) << old[0];
  const auto next = served.Watch(From("50"), 1, [&] { pods_->Commit({{"a/four", "51"}}, "51"); });
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0]["object"]["metadata"]["name"], "four") << next[0];
}

TEST_F(ServeWatchTest, AVersionFromBeforeAServerWasRewoundIsGone) {
  FillPods();
  pods_->Commit({{"a/one", "1000"}}, "1000");
  ServedStore served(Path());
  const auto open = served.Watch(From("1000"), 1, [&] {
    pods_->BeginRewoundList();
    pods_->Commit({{"a/one", "480"}, {"a/two", ""}});
    pods_->EndList("500");
  });
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0]["object"]["code"], 410) << open[0];
  EXPECT_EQ(ListAt(served, kPods, "500")["items"].size(), 1u);
  // It would take everything up to 1000 for known.
  const auto late = served.Watch(From("1000"), 1, [&] {
    pods_->Commit({{"a/new", "501"}}, "501");
  });
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0]["object"]["code"], 410) << late[0];
}

TEST_F(ServeWatchTest, AClientThatStopsBehindAnyEventCanGoOnFromItsVersion) {
  FillPods();
  pods_->Commit({{"a/zz", "9"}, {"a/y", "9"}}, "12");
  ServedStore served(Path());
  // Both deletes are of some time up to 200, as is the object.
  const auto events = served.Watch(From("12"), 3, [&] {
    pods_->Commit({{"a/zz", ""}, {"a/y", ""}, {"a/z", "200"}}, "200");
  });
  ASSERT_EQ(events.size(), 3u) << Json(events);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(events[i]["type"], "DELETED") << events[i];
    // Not its own, which is long gone, and not one that skips what comes behind it.
    EXPECT_EQ(events[i]["object"]["metadata"]["resourceVersion"], "12") << events[i];
  }
  EXPECT_EQ(events[2]["type"], "ADDED") << events[2];
  for (size_t i = 0; i < 3; ++i) {
    const std::string seen = events[i]["object"]["metadata"].value("resourceVersion", "");
    const auto rest = served.Watch(From(seen), 3 - i, [&] {
      if (i == 2) pods_->Commit({{"a/last", "201"}}, "201");
    });
    ASSERT_FALSE(rest.empty());
    EXPECT_EQ(rest.back()["object"]["metadata"]["name"], i == 2 ? "last" : "z") << Json(rest);
  }
}

// A list that compares may leave an object that is newer than its collection.
TEST_F(ServeWatchTest, ADeletionTellsNoVersionAheadOfWhatWasSent) {
  FillPods();
  pods_->BeginList();
  pods_->Commit({{"a/ahead", "105"}});
  pods_->EndList("100");
  ServedStore served(Path());
  const auto events =
      served.Watch(std::string(kPods) +
                       "?watch=1&timeoutSeconds=15&sendInitialEvents=1&allowWatchBookmarks=1"
                       "&resourceVersionMatch=NotOlderThan",
                   5, [&] {
                     pods_->Commit({{"a/two", ""}}, "103");
                   });
  ASSERT_EQ(events.size(), 5u) << Json(events);
  EXPECT_EQ(events[3]["type"], "BOOKMARK") << events[3];
  EXPECT_EQ(events[4]["type"], "DELETED") << events[4];
  EXPECT_EQ(events[4]["object"]["metadata"]["resourceVersion"], "100") << events[4];
}

TEST_F(ServeWatchTest, LeavingASelectionIsOfTheChangesVersion) {
  FillPods();
  ServedStore served(Path());
  const auto events =
      served.Watch(From("10") + "&fieldSelector=metadata.resourceVersion%3D8", 1, [&] {
        pods_->Commit({{"a/two", "20"}}, "20");
      });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["type"], "DELETED") << events[0];
  EXPECT_EQ(events[0]["object"]["metadata"]["resourceVersion"], "20") << events[0];
}

TEST_F(ServeWatchTest, ListsAndGetsAreNotOlderThanTheyMayBe) {
  FillPods();
  ServedStore served(Path());
  const std::pair<const char*, int> cases[] = {
      {"/api/v1/pods?resourceVersion=0", 200},
      {"/api/v1/pods?resourceVersion=9", 200},
      {"/api/v1/pods?resourceVersion=10", 200},
      {"/api/v1/pods?resourceVersion=11", 504},
      {"/api/v1/pods?resourceVersion=11&resourceVersionMatch=NotOlderThan", 504},
      {"/api/v1/pods?resourceVersion=10&resourceVersionMatch=Exact", 200},
      {"/api/v1/pods?resourceVersion=9&resourceVersionMatch=Exact", 410},
      {"/api/v1/pods?resourceVersion=11&resourceVersionMatch=Exact", 504},
      // How it was before there was a match.
      {"/api/v1/pods?resourceVersion=9&limit=1", 410},
      {"/api/v1/pods?resourceVersion=9&resourceVersionMatch=Later", 422},
      {"/api/v1/pods?watch=1&sendInitialEvents=1&resourceVersion=11&timeoutSeconds=1", 504},
      {"/api/v1/namespaces/a/pods/one?resourceVersion=10", 200},
      {"/api/v1/namespaces/a/pods/one?resourceVersion=11", 504},
  };
  for (const auto& [path, status] : cases) {
    const auto answer = served.Ask(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, status) << path << answer->body;
    if (status != 504) continue;
    const Json body = Json::parse(answer->body, nullptr, false);
    EXPECT_EQ(body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge") << body;
  }
}

TEST_F(ServeWatchTest, APageHasNoMoreBytesThanFitWhateverItsLimit) {
  FillPods();
  constexpr size_t kBig = 12;
  for (size_t i = 0; i < kBig; ++i) {
    const std::string version = std::to_string(20 + i);
    pods_->Commit({{"big/" + version, version, 1'000'000}}, version);
  }
  ServedStore served(Path());
  size_t pages = 0, objects = 0;
  std::string token;
  do {
    const auto answer = served.Ask("/api/v1/namespaces/big/pods?limit=1000000&continue=" + token);
    ASSERT_TRUE(answer);
    EXPECT_LT(answer->body.size(), 9'000'000u);
    const Json page = Json::parse(answer->body, nullptr, false);
    ++pages;
    objects += page["items"].size();
    token = page["metadata"].value("continue", "");
  } while (!token.empty());
  EXPECT_GT(pages, 1u);
  EXPECT_EQ(objects, kBig);
  EXPECT_EQ(served.Get("/api/v1/namespaces/big/pods")["items"].size(), kBig);
}

TEST_F(ServeWatchTest, AWatchThatIsToLastForAgesLastsForAWhile) {
  FillPods();
  ServedStore served(Path());
  const auto events = served.Watch(
      "/api/v1/pods?watch=1&resourceVersion=10&timeoutSeconds=999999999999999999", 1, [&] {
        pods_->Commit({{"a/new", "20"}}, "20");
      });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["type"], "ADDED") << events[0];
}

// The owner has a key for them, and who looks has none.
TEST_F(ServeWatchTest, ASecretThatChangesStopsNoWatchOfPods) {
  const std::string path = scratch_ / "locked";
  WriteKey(scratch_ / "key");
  const auto owner = Store::Open({.path = path, .encryption_key_file = scratch_ / "key"});
  ASSERT_TRUE(owner) << owner.error().ToString();
  Written secrets(owner->get(), "secrets"), pods(owner->get(), "pods");
  for (Written* written : {&secrets, &pods}) {
    written->BeginList();
    written->EndList("10");
  }
  ServedStore served(path);
  const auto events = served.Watch(From("10"), 1, [&] {
    secrets.Commit({{"a/key", "20"}}, "20");
    pods.Commit({{"a/one", "21"}}, "21");
  });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["type"], "ADDED") << events[0];
  const char* const all = "/api/v1/secrets";
  const auto gone =
      served.Watch(std::string(all) + "?watch=1&timeoutSeconds=15&resourceVersion=10", 1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0]["object"]["code"], 410) << gone[0];
  const std::pair<const char*, int> answers[] = {{all, 403}, {kPods, 200}, {"/readyz", 200}};
  for (const auto& [asked, status] : answers) {
    const auto answer = served.Ask(asked);
    ASSERT_TRUE(answer) << asked;
    EXPECT_EQ(answer->status, status) << asked << answer->body;
  }
  RunOptions options;
  options.signal = SIGINT;
  bool written = false;
  options.stop_when = [&](const std::string& out) {
    if (!written && out.find("one") != std::string::npos) {
      written = true;
      secrets.Commit({{"a/key", "30"}}, "30");
      pods.Commit({{"a/two", "31"}}, "31");
    }
    return out.find("two") != std::string::npos;
  };
  const Outcome watch =
      RunLarder({"get", "pods", "-A", "-w", "--store", path, "-o", "name"}, options);
  EXPECT_EQ(watch.exit_code, 0) << watch.err;
  EXPECT_NE(watch.out.find("pod/two"), std::string::npos) << watch.out << watch.err;
}

// `pods` of two transforms: an owner that is rolled back fills the older one again, and nothing
// comes or goes.
class TakeOverTest : public ServeWatchTest {
 protected:
  void SetUp() override {
    ServeWatchTest::SetUp();
    FillPods();
    CollectionSpec spec = pods_->spec();
    spec.transform = "v2";
    second_ = std::make_unique<Written>(owner_.get(), spec);
    second_->PassTime(std::chrono::minutes(10));
    second_->BeginList();
    second_->Commit({{"a/one", "20"}});
    second_->EndList("20");
  }
  void RollBack() {
    pods_->PassTime(std::chrono::minutes(20));
    pods_->Commit({{"a/three", "30"}}, "30");
  }

  std::unique_ptr<Written> second_;
};

TEST_F(TakeOverTest, AWatchEndsWhenAnotherCollectionTakesOver) {
  ServedStore served(Path());
  ASSERT_EQ(served.Get(kPods)["metadata"]["resourceVersion"], "20");
  const auto events = served.Watch(From("20"), 1, [&] { RollBack(); });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["object"]["code"], 410) << events[0];
  EXPECT_EQ(ListAt(served, kPods, "30")["items"].size(), 3u);
  const auto next = served.Watch(From("30"), 1, [&] { pods_->Commit({{"a/four", "31"}}, "31"); });
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0]["object"]["metadata"]["name"], "four") << next[0];
}

TEST_F(TakeOverTest, GetGoesOnWithTheOther) {
  RunOptions options;
  options.signal = SIGINT;
  bool rolled_back = false, went_on = false;
  options.stop_when = [&](const std::string& out) {
    if (!std::exchange(rolled_back, rolled_back || out.find("one@20") != std::string::npos) &&
        rolled_back) {
      RollBack();
    }
    if (!std::exchange(went_on, went_on || out.find("three@30") != std::string::npos) && went_on) {
      pods_->Commit({{"a/four", "31"}}, "31");
    }
    return out.find("four@31") != std::string::npos;
  };
  const Outcome watch = GetAndWatch(options);
  EXPECT_EQ(watch.exit_code, 0) << watch.err;
  EXPECT_NE(watch.out.find("four@31\n"), std::string::npos) << watch.out;
  EXPECT_NE(watch.out.find("two@8\n"), std::string::npos) << watch.out;
  EXPECT_NE(watch.err.find("pods: other collections hold them now"), std::string::npos)
      << watch.err;
}

TEST_F(ServeWatchTest, GetSaysThatAListCameBetweenAndWhatDiffers) {
  FillPods();
  RunOptions options;
  options.signal = SIGINT;
  bool listed = false;
  options.stop_when = [&](const std::string& out) {
    if (!listed && out.find("one") != std::string::npos) {
      listed = true;
      pods_->BeginList();
      pods_->Commit({{"a/one", "40"}, {"a/three", "41"}, {"a/two", ""}});
      nodes_->Commit({{"n1", "42"}}, "42");
    }
    return out.find("one@40") != std::string::npos && out.find("three@41") != std::string::npos &&
           out.find("two@8") != out.rfind("two@8");
  };
  const Outcome watch = GetAndWatch(options);
  EXPECT_EQ(watch.exit_code, 0) << watch.err;
  EXPECT_NE(watch.out.find("one@40\n"), std::string::npos) << watch.out;
  EXPECT_NE(watch.out.find("three@41\n"), std::string::npos) << watch.out;
  EXPECT_NE(watch.out.find("two@8\n"), watch.out.rfind("two@8\n")) << watch.out;
  EXPECT_NE(watch.err.find("pods: listed anew"), std::string::npos) << watch.err;
}

}  // namespace
}  // namespace larder
