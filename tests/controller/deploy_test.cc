// The manifests in deploy/: complete, consistent, and accepted by the tools that read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "controller/settings.h"
#include "testing/yaml_to_json.h"

namespace larder {
namespace {

namespace fs = std::filesystem;

const std::string kDeploy = std::string(LARDER_SOURCE_DIR) + "/deploy";

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool Has(const char* program) {
  return std::system((std::string("command -v ") + program + " >/dev/null 2>&1").c_str()) == 0;
}

struct Output {
  int status = 0;
  std::string text;
};

Output RunCommand(const std::string& command) {
  Output output;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.text.append(buffer.data(), size);
  }
  output.status = ::pclose(pipe);
  return output;
}

std::vector<Json> Documents(const std::string& text) {
  auto documents = testing::YamlToJson(text);
  EXPECT_TRUE(documents) << documents.error().ToString();
  return documents ? *documents : std::vector<Json>();
}

TEST(YamlToJson, ReadsWhatHasNoQuotesAsKubectlDoes) {
  const auto value = [](const std::string& text) {
    const auto documents = testing::YamlToJson("value: " + text);
    EXPECT_TRUE(documents) << text;
    return documents ? documents->at(0)["value"].dump() : std::string();
  };
  for (const auto& [text, json] : std::vector<std::pair<std::string, std::string>>{
           {"0400", "256"},
           {"-010", "-8"},
           {"0x1f", "31"},
           {"0", "0"},
           {"1_000", "1000"},
           {"18446744073709551615", "18446744073709551615"},
           {"-9223372036854775808", "-9223372036854775808"},
           {"1.5e3", "1500.0"},
           {"yes", "true"},
           {"Off", "false"},
           {"True", "true"},
           {"~", "null"},
           {"1e999", "\"1e999\""},
           {"nan", "\"nan\""},
           {"inf", "\"inf\""},
           {"1.2.3", "\"1.2.3\""},
           {"10Mi", "\"10Mi\""},
           {"_", "\"_\""},
           {"\"0400\"", "\"0400\""},
           {"'yes'", "\"yes\""}}) {
    EXPECT_EQ(value(text), json) << text;
  }
  for (const char* refused : {".nan", ".inf", "-.Inf"}) {
    const auto documents = testing::YamlToJson("value: " + std::string(refused));
    ASSERT_FALSE(documents) << refused;
    EXPECT_EQ(documents.error().code, ErrorCode::kInvalidArgument);
  }
}

const std::vector<std::string> kOverlays = {"statefulset", "deployment", "ha"};

TEST(Deploy, EveryManifestIsYamlWithKindAndName) {
  for (const auto& entry : fs::recursive_directory_iterator(kDeploy)) {
    if (entry.path().extension() != ".yaml") continue;
    const auto documents = Documents(ReadFile(entry.path()));
    EXPECT_FALSE(documents.empty()) << entry.path();
    for (const Json& document : documents) {
      if (!document.contains("kind")) continue;
      EXPECT_TRUE(document.contains("apiVersion")) << entry.path();
      const std::string kind = document.at("kind");
      if (kind == "Kustomization" || kind == "Component") continue;
      EXPECT_TRUE(document.at("metadata").contains("name")) << entry.path();
    }
  }
}

// A misspelled variable would be ignored in silence: every one must be a setting.
TEST(Deploy, EveryVariableIsASettingWithAValueThatIsAllowed) {
  std::set<std::string> known = {"LARDER_CONFIG", "POD_NAME", "POD_NAMESPACE"};
  for (const internal::Setting& setting : internal::Settings()) known.insert(setting.variable);
  int checked = 0;
  const auto check = [&](const auto& self, const Json& node, const std::string& path) -> void {
    if (node.is_object() && node.contains("name") && node.contains("value") &&
        node.at("name").is_string()) {
      const std::string name = node.at("name");
      if (name.empty() || std::islower(static_cast<unsigned char>(name[0]))) return;
      EXPECT_TRUE(known.contains(name)) << path << ": " << name;
      for (const internal::Setting& setting : internal::Settings()) {
        if (setting.variable != name) continue;
        ManagerConfig config;
        const std::string value = node.at("value");
        if (value.find("$(") != std::string::npos) continue;
        const auto applied = internal::Apply(setting, config, value, name);
        EXPECT_TRUE(applied) << path << ": " << applied.error().message;
        ++checked;
      }
    }
    if (node.is_structured()) {
      for (const auto& child : node) self(self, child, path);
    }
  };
  for (const auto& entry : fs::recursive_directory_iterator(kDeploy)) {
    if (entry.path().extension() != ".yaml") continue;
    for (const Json& document : Documents(ReadFile(entry.path()))) {
      check(check, document, entry.path().string());
    }
  }
  EXPECT_GE(checked, 10);
}

TEST(Docs, ControllersPageListsEverySettingWithItsNames) {
  const std::string page = ReadFile(std::string(LARDER_SOURCE_DIR) + "/docs/controllers.md");
  for (const internal::Setting& setting : internal::Settings()) {
    const std::string row = "| `" + setting.variable + "` | `" + setting.Flag() + "` | ";
    EXPECT_THAT(page, ::testing::HasSubstr(row));
    EXPECT_THAT(page, ::testing::HasSubstr("| " + setting.help + " |"));
  }
}

TEST(Deploy, KustomizeBuildsEveryOverlay) {
  if (!Has("kubectl")) GTEST_SKIP() << "kubectl is not installed";
  for (const std::string& overlay : kOverlays) {
    const Output built = RunCommand("kubectl kustomize " + kDeploy + "/overlays/" + overlay);
    ASSERT_EQ(built.status, 0) << built.text;
    std::set<std::string> kinds;
    for (const Json& document : Documents(built.text)) kinds.insert(document.at("kind"));
    const std::string workload = overlay == "statefulset" ? "StatefulSet" : "Deployment";
    for (const std::string& kind :
         {workload, std::string("ServiceAccount"), std::string("ClusterRole"),
          std::string("ClusterRoleBinding"), std::string("Service")}) {
      EXPECT_TRUE(kinds.contains(kind)) << overlay << " has no " << kind;
    }
  }
}

// The image's second stage installs libraries by name: one that is missing shows only when it
// starts.
TEST(Deploy, TheImageHasEveryLibraryThatTheProgramNeeds) {
  if (!Has("ldd") || !Has("dpkg")) GTEST_SKIP() << "needs ldd and dpkg";
  const std::string dockerfile = ReadFile(kDeploy + "/Dockerfile");
  const std::string image = dockerfile.substr(dockerfile.rfind("FROM "));
  // The packages of all that is linked directly; dpkg -S would take seconds for them.
  const Output owners =
      RunCommand("objdump -p " + std::string(LARDER_EXAMPLES) +
                 "/anomaly_remediator | sed -n 's|^ *NEEDED *|/|p' | "
                 "grep -lF -f - -- /var/lib/dpkg/info/*.list | sed 's|.*/||; s|:.*||; s|.list$||'");
  std::istringstream lines(owners.text);
  std::set<std::string> packages;
  for (std::string package; std::getline(lines, package);) {
    const bool everywhere = package.starts_with("libc6") || package.starts_with("lib32") ||
                            package.starts_with("libgcc") || package.starts_with("libstdc++");
    if (!everywhere && package.find("-dev") == std::string::npos) packages.insert(package);
  }
  for (const std::string& package : packages) EXPECT_THAT(image, ::testing::HasSubstr(package));
  EXPECT_GE(packages.size(), 5u) << owners.text;
}

// A Lease is named after the program: with one name for all of them two controllers would share it.
TEST(Deploy, TheImageRunsTheProgramUnderItsOwnName) {
  const std::string dockerfile = ReadFile(kDeploy + "/Dockerfile");
  const std::string image = dockerfile.substr(dockerfile.rfind("FROM "));
  EXPECT_THAT(image, ::testing::HasSubstr("/usr/bin/${PROGRAM}"));
  const std::string begin = "ENTRYPOINT ";
  std::string command = "PROGRAM=env ";
  for (const auto& word : Json::parse(image.substr(image.find(begin) + begin.size()))) {
    command += "'" + word.get<std::string>() + "' ";
  }
  const Output ran = RunCommand(command + "'--version' 'a b' | head -1");
  EXPECT_THAT(ran.text, ::testing::HasSubstr("env (GNU coreutils)"));
}

TEST(Deploy, PodsRunWithoutPrivileges) {
  if (!Has("kubectl")) GTEST_SKIP() << "kubectl is not installed";
  for (const std::string& overlay : kOverlays) {
    const Output built = RunCommand("kubectl kustomize " + kDeploy + "/overlays/" + overlay);
    for (const Json& document : Documents(built.text)) {
      if (document.at("kind") != "Deployment" && document.at("kind") != "StatefulSet") continue;
      const Json& pod = document.at("spec").at("template").at("spec");
      EXPECT_EQ(pod.at("securityContext").at("runAsNonRoot"), true);
      for (const Json& container : pod.at("containers")) {
        const Json& security = container.at("securityContext");
        EXPECT_EQ(security.at("allowPrivilegeEscalation"), false);
        EXPECT_EQ(security.at("readOnlyRootFilesystem"), true);
        EXPECT_EQ(security.at("capabilities").at("drop"), Json::array({"ALL"}));
        EXPECT_TRUE(container.contains("livenessProbe"));
        EXPECT_TRUE(container.contains("readinessProbe"));
        EXPECT_TRUE(container.at("resources").contains("limits"));
      }
    }
  }
}

TEST(Deploy, AlertRulesPassPromtool) {
  if (!Has("promtool")) GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  // The operator's resource has the rules in its spec; promtool wants them alone.
  const fs::path folder = fs::path(::testing::TempDir()) / "larder-rules";
  fs::create_directories(folder);
  const auto documents = Documents(ReadFile(kDeploy + "/monitoring/prometheus_rule.yaml"));
  std::ofstream(folder / "rules.yaml") << documents.at(0).at("spec").dump(2);
  fs::copy_file(kDeploy + "/monitoring/rules_test.yaml", folder / "rules_test.yaml",
                fs::copy_options::overwrite_existing);
  const Output checked = RunCommand("promtool check rules " + (folder / "rules.yaml").string());
  EXPECT_EQ(checked.status, 0) << checked.text;
  const Output tested = RunCommand("promtool test rules " + (folder / "rules_test.yaml").string());
  EXPECT_EQ(tested.status, 0) << tested.text;
}

TEST(Deploy, TheDashboardIsJsonWithQueries) {
  const Json dashboard = Json::parse(ReadFile(kDeploy + "/monitoring/dashboard.json"));
  size_t queries = 0;
  for (const Json& panel : dashboard.at("panels")) {
    if (!panel.contains("targets")) continue;
    for (const Json& target : panel.at("targets")) {
      EXPECT_FALSE(target.at("expr").get<std::string>().empty());
      ++queries;
    }
  }
  EXPECT_GE(queries, 8u);
}

}  // namespace
}  // namespace larder
