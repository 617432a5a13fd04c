// Durations, tables, YAML, JSONPath and columns: what the commands print is made of these.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/age.h"
#include "tools/columns/columns.h"
#include "tools/jsonpath.h"
#include "tools/object_diff.h"
#include "tools/output.h"
#include "tools/yaml.h"

namespace larder::tools {
namespace {

TEST(AgeTest, HasTwoUnitsWhileTheFirstIsSmall) {
  const auto human = [](int64_t seconds) { return HumanDuration(std::chrono::seconds(seconds)); };
  EXPECT_EQ(human(0), "0s");
  EXPECT_EQ(human(119), "119s");
  EXPECT_EQ(human(120), "2m");
  EXPECT_EQ(human(190), "3m10s");
  EXPECT_EQ(human(10 * 60 + 5), "10m");
  EXPECT_EQ(human(3 * 3600), "3h");
  EXPECT_EQ(human(3 * 3600 + 120), "3h2m");
  EXPECT_EQ(human(8 * 3600 + 120), "8h");
  EXPECT_EQ(human(49 * 3600), "2d1h");
  EXPECT_EQ(human(9 * 86400), "9d");
  EXPECT_EQ(human(800 * 86400), "2y70d");
  EXPECT_EQ(human(3000LL * 86400), "8y");
  EXPECT_EQ(human(-5), "<invalid>");
  EXPECT_EQ(ParseTimestamp("1970-01-02T00:00:01Z"), 86401);
  EXPECT_EQ(FormatTimestamp(86401), "1970-01-02T00:00:01Z");
  EXPECT_EQ(AgeOf(0, 100), "<unknown>");
}

TEST(OutputTest, NumbersForPeople) {
  EXPECT_EQ(HumanBytes(7), "7 B");
  EXPECT_EQ(HumanBytes(1500), "1.5 KB");
  EXPECT_EQ(HumanBytes(999'999), "1.0 MB");
  EXPECT_EQ(HumanBytes(12'000'000), "12 MB");
  EXPECT_EQ(HumanCount(1234567), "1,234,567");
  EXPECT_EQ(HumanCount(12), "12");
}

TEST(YamlTest, QuotesWhatWouldReadAsSomethingElse) {
  const auto yaml = [](const char* json) { return ToYaml(nlohmann::json::parse(json)); };
  EXPECT_EQ(yaml(R"({"b":1,"a":"x"})"), "a: x\nb: 1\n");
  EXPECT_EQ(yaml(R"({"a":"true","b":"12","c":"1e3","d":"","e":"null","f":"0x1f"})"),
            "a: \"true\"\nb: \"12\"\nc: \"1e3\"\nd: \"\"\ne: \"null\"\nf: \"0x1f\"\n");
  EXPECT_EQ(yaml(R"({"t":"2024-01-01T00:00:00Z"})"), "t: \"2024-01-01T00:00:00Z\"\n");
  EXPECT_EQ(yaml(R"({"a":"x: y","b":"*z","c":"- q","d":"1.2.3.4","e":"it's"})"),
            "a: 'x: y'\nb: '*z'\nc: '- q'\nd: 1.2.3.4\ne: it's\n");
  EXPECT_EQ(yaml(R"({"a":[{"x":1,"y":2},{"x":3}],"b":[],"c":{}})"),
            "a:\n- x: 1\n  \"y\": 2\n- x: 3\nb: []\nc: {}\n");
  EXPECT_EQ(yaml(R"({"a":"one\ntwo\n","b":"one\ntwo"})"),
            "a: |\n  one\n  two\nb: |-\n  one\n  two\n");
  EXPECT_EQ(yaml(R"({"a":[[1,2],[3]]})"), "a:\n- - 1\n  - 2\n- - 3\n");
}

// YAML's characters are fewer than JSON's: a reader would refuse some, and take others for the end
// of a line.
TEST(YamlTest, EscapesWhatYamlDoesNotTakeAsItIs) {
  const auto yaml = [](const char* json) { return ToYaml(nlohmann::json::parse(json)); };
  for (const char* code : {"007f", "0080", "0085", "009b", "009f", "2028", "2029", "feff"}) {
    const std::string escaped = std::string("\\u") + code;
    EXPECT_EQ(yaml((R"({"a":"x)" + escaped + R"(y"})").c_str()), "a: \"x" + escaped + "y\"\n");
    EXPECT_EQ(yaml((R"({"a":"x\n)" + escaped + R"("})").c_str()), "a: \"x\\n" + escaped + "\"\n");
    EXPECT_EQ(yaml((R"({")" + escaped + R"(":1})").c_str()), "\"" + escaped + "\": 1\n");
  }
  EXPECT_EQ(yaml(R"({"a":"x\u00a0y\u00e9\u2027\u202a\ufefe\ud83d\ude00"})"),
            "a: x\u00a0y\u00e9\u2027\u202a\xef\xbb\xbe\U0001f600\n");
}

std::string Render(const char* text, const char* json) {
  const auto parsed = JsonTemplate::Parse(text);
  return parsed ? parsed->Render(Json::parse(json)) : parsed.error().message;
}

TEST(JsonPathTest, KubectlsGrammar) {
  const char* const doc = R"({"a":{"b.c":1,"list":[{"n":"x","v":1},{"n":"y","v":2},{"n":"z"}]}})";
  EXPECT_EQ(Render("{.a.list[*].n}", doc), "x y z");
  EXPECT_EQ(Render("{.a.list[-1].n}", doc), "z");
  EXPECT_EQ(Render("{.a.list[0:2].n}", doc), "x y");
  EXPECT_EQ(Render("{.a.list[::2].n}", doc), "x z");
  EXPECT_EQ(Render("{.a.list[0,2].n}", doc), "x z");
  EXPECT_EQ(Render("{.a['b.c']}", doc), "1");
  EXPECT_EQ(Render("{.a.b\\.c}", doc), "1");
  EXPECT_EQ(Render("{..n}", doc), "x y z");
  EXPECT_EQ(Render("{.a.list[?(@.v>1)].n}", doc), "y");
  EXPECT_EQ(Render("{.a.list[?(@.v)].n}", doc), "x y");
  EXPECT_EQ(Render("{.a.list[?(@.n!='x')].n}", doc), "y z");
  EXPECT_EQ(Render("a={range .a.list[*]}{.n}:{.v}{\"\\t\"}{end}", doc), "a=x:1\ty:2\tz:\t");
  EXPECT_EQ(Render("{range .a.list[*]}{$.a['b.c']}{end}", doc), "111");
  EXPECT_EQ(Render("{.nothing.here}", doc), "");
  EXPECT_EQ(Render("{.a.list[0]}", doc), R"({"n":"x","v":1})");
  EXPECT_EQ(Render("a.list[0].n", doc), "x");
}

TEST(JsonPathTest, SaysWhatIsWrong) {
  for (const char* text : {"{.a", "{range .a}", "{end}", "{.a[}", "{.a['x}", "{x}"}) {
    EXPECT_FALSE(JsonTemplate::Parse(text)) << text;
  }
}

std::vector<std::string> CellsOf(const char* resource, const std::string& json, bool wide = false) {
  const auto object = Object::Parse(json);
  EXPECT_TRUE(object) << object.error().message;
  const ColumnSet columns = ColumnsFor(*LookupResource(resource), nullptr);
  const Cells cells = columns.Row(**object, ParseTimestamp("2024-01-03T00:00:00Z"));
  EXPECT_EQ(cells.size(), columns.columns.size());
  std::vector<std::string> out;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (columns.columns[i].priority == 0 || wide) out.push_back(cells[i].text);
  }
  return out;
}

using Texts = std::vector<std::string>;

std::string Pod(const std::string& rest) {
  return R"({"metadata":{"name":"p","namespace":"x","creationTimestamp":"2024-01-01T00:00:00Z"},)" +
         rest + "}";
}

TEST(ColumnsTest, PodsThatWaitRestartAndEnd) {
  const std::string spec = R"("spec":{"containers":[{"name":"a"},{"name":"b"}]},)";
  EXPECT_EQ(CellsOf("pods", Pod(spec + R"("status":{"phase":"Pending"})")),
            (Texts{"p", "0/2", "Pending", "0", "2d"}));
  EXPECT_EQ(CellsOf("pods", Pod(spec + R"("status":{"phase":"Running","containerStatuses":[
        {"name":"a","ready":true,"restartCount":1,"state":{"running":{}},
         "lastState":{"terminated":{"finishedAt":"2024-01-02T23:00:00Z"}}},
        {"name":"b","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]})")),
            (Texts{"p", "1/2", "CrashLoopBackOff", "5 (60m ago)", "2d"}));
  EXPECT_EQ(CellsOf("pods", Pod(spec + R"("status":{"phase":"Failed","containerStatuses":[
        {"name":"a","state":{"terminated":{"exitCode":3}}}]})"))[2],
            "ExitCode:3");
  EXPECT_EQ(CellsOf("pods", Pod(R"("spec":{"containers":[{}],"initContainers":[{"name":"i"},
        {"name":"j"}]},"status":{"phase":"Pending","initContainerStatuses":[
        {"name":"i","state":{"terminated":{"exitCode":0}}},{"name":"j","state":{"running":{}}}]})"))
                [2],
            "Init:1/2");
  EXPECT_EQ(CellsOf("pods", Pod(R"("status":{"phase":"Failed","reason":"Evicted"})"))[2],
            "Evicted");
}

TEST(ColumnsTest, RestartsOnTheWayAreOverOnceAPodIsInitialised) {
  const auto restarts = [](const std::string& initialised) {
    return CellsOf("pods",
                   Pod(R"("spec":{"containers":[{"name":"a"}],"initContainers":[{"name":"i"},
        {"name":"s","restartPolicy":"Always"}]},"status":{"phase":"Running","initContainerStatuses":[
        {"name":"i","restartCount":7,"state":)" +
                       initialised + R"(,
         "lastState":{"terminated":{"finishedAt":"2024-01-02T23:00:00Z"}}},
        {"name":"s","restartCount":2,"started":true,"ready":true,"state":{"running":{}},
         "lastState":{"terminated":{"finishedAt":"2024-01-02T22:00:00Z"}}}],"containerStatuses":[
        {"name":"a","ready":true,"restartCount":1,"state":{"running":{}}}]})"))[3];
  };
  EXPECT_EQ(restarts(R"({"running":{}})"), "7 (60m ago)");
  EXPECT_EQ(restarts(R"({"terminated":{"exitCode":0}})"), "3 (120m ago)");
}

TEST(ColumnsTest, OtherKinds) {
  const std::string head =
      R"({"metadata":{"name":"s","creationTimestamp":"2024-01-02T00:00:00Z"},)";
  EXPECT_EQ(CellsOf("services", head + R"("spec":{"type":"NodePort","clusterIP":"10.0.0.9",
        "ports":[{"port":80,"nodePort":30080,"protocol":"TCP"},{"port":53,"protocol":"UDP"}]}})"),
            (Texts{"s", "NodePort", "10.0.0.9", "<none>", "80:30080/TCP,53/UDP", "24h"}));
  EXPECT_EQ(CellsOf("daemonsets", head + R"("spec":{},"status":{"desiredNumberScheduled":3}})"),
            (Texts{"s", "3", "0", "0", "0", "0", "<none>", "24h"}));
  EXPECT_EQ(CellsOf("jobs", head + R"("spec":{"completions":3},"status":{"succeeded":3,
        "startTime":"2024-01-02T00:00:00Z","completionTime":"2024-01-02T00:01:30Z",
        "conditions":[{"type":"Complete","status":"True"}]}})"),
            (Texts{"s", "Complete", "3/3", "90s", "24h"}));
  EXPECT_EQ(CellsOf("configmaps", head + R"("data":{"a":"1","b":"2"}})")[1], "2");
  EXPECT_EQ(CellsOf("nodes", head + R"("spec":{"unschedulable":true},"status":{"conditions":[
        {"type":"Ready","status":"False"}],"nodeInfo":{"kubeletVersion":"v1"}}})"),
            (Texts{"s", "NotReady,SchedulingDisabled", "<none>", "24h", "v1"}));
  EXPECT_EQ(CellsOf("pvc", head + R"("spec":{"volumeName":"v","storageClassName":"fast"},
        "status":{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"}}})"),
            (Texts{"s", "Bound", "v", "1Gi", "RWO", "fast", "<unset>", "24h"}));
  EXPECT_EQ(CellsOf("leases", head + R"("spec":{"holderIdentity":"me"}})"),
            (Texts{"s", "me", "24h"}));
}

// A column that throws or miscounts would show only for the kind that has it.
TEST(ColumnsTest, EveryKindStandsAnEmptyObject) {
  size_t kinds = 0;
  for (auto* all : {&CoreColumns, &WorkloadColumns, &ClusterColumns}) {
    for (const KindColumns& kind : (*all)()) {
      const auto object = Object::Parse(R"({"metadata":{"name":"x"}})");
      EXPECT_EQ(kind.set.Row(**object, 0).size(), kind.set.columns.size()) << kind.resource;
      ++kinds;
    }
  }
  EXPECT_GT(kinds, 35u);
}

TEST(ObjectDiffTest, NamesEveryField) {
  const auto a = Object::Parse(
      R"({"metadata":{"name":"x","labels":{"a.b/c":"1"},"managedFields":[1]},"list":[1,2],"old":1})");
  const auto b = Object::Parse(
      R"({"metadata":{"name":"x","labels":{"a.b/c":"2"},"managedFields":[2]},"list":[1,3,4]})");
  const auto changes = CompareObjects("pods", **a, **b);
  std::string text;
  for (const FieldChange& change : changes) {
    text += change.path + ":" + change.before + ">" + change.now + " ";
  }
  EXPECT_EQ(text, "metadata.labels['a.b/c']:\"1\">\"2\" list[1]:2>3 list[2]:>4 old:1> ");
}

}  // namespace
}  // namespace larder::tools
