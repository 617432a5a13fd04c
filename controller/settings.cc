#include "controller/settings.h"

#include <charconv>
#include <cmath>
#include <set>

#include "base/duration.h"
#include "informer/informer_config.h"
#include "schema/selector.h"

namespace larder::internal {
namespace {

using Duration = ManagerConfig::Duration;
using Text = const std::string&;

template <typename Number>
bool ReadNumber(Text text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Setting TextSetting(std::string variable, std::string help, std::string ManagerConfig::*member,
                    std::string default_text = {}) {
  return {std::move(variable), std::move(help), "any text",
          [member](ManagerConfig& config, Text text) {
            config.*member = text;
            return true;
          },
          std::move(default_text)};
}

Setting DurationSetting(std::string variable, std::string help, Duration ManagerConfig::*member,
                        bool zero_allowed) {
  return {std::move(variable), std::move(help),
          zero_allowed ? "a duration like 500ms, 10m or 1h30m, or 0"
                       : "a duration above 0, like 500ms, 10m or 1h30m",
          [member, zero_allowed](ManagerConfig& config, Text text) {
            const auto duration = ParseDuration(text);
            if (!duration || duration->count() < (zero_allowed ? 0 : 1)) return false;
            config.*member = *duration;
            return true;
          },
          FormatDuration(ManagerConfig().*member)};
}

Setting SwitchSetting(std::string variable, std::string help, bool ManagerConfig::*member) {
  return {std::move(variable),
          std::move(help),
          "true or false",
          [member](ManagerConfig& config, Text text) {
            static const std::set<std::string> kTrue = {"true", "True", "TRUE", "1", "t", "T"};
            static const std::set<std::string> kFalse = {"false", "False", "FALSE", "0", "f", "F"};
            if (!kTrue.contains(text) && !kFalse.contains(text)) return false;
            config.*member = kTrue.contains(text);
            return true;
          },
          ManagerConfig().*member ? "true" : "false",
          true};
}

Setting BytesSetting(std::string variable, std::string help, uint64_t ManagerConfig::*member,
                     std::string default_text) {
  return {std::move(variable), std::move(help), "a size like 64Mi or 1Gi",
          [member](ManagerConfig& config, Text text) {
            const auto size = ParseSize(text);
            if (!size) return false;
            config.*member = size->value;
            return true;
          },
          std::move(default_text)};
}

Setting CountSetting(std::string variable, std::string help, uint32_t ManagerConfig::*member) {
  return {std::move(variable), std::move(help), "a whole number of at least 1",
          [member](ManagerConfig& config, Text text) {
            uint32_t value = 0;
            if (!ReadNumber(text, value) || value < 1) return false;
            config.*member = value;
            return true;
          },
          std::to_string(ManagerConfig().*member)};
}

template <typename Selector>
Setting SelectorSetting(std::string variable, std::string help, std::string allowed,
                        std::string ManagerConfig::*member) {
  return {std::move(variable),
          std::move(help),
          std::move(allowed),
          [member](ManagerConfig& config, Text text) {
            if (!Selector::Parse(text)) return false;
            config.*member = text;
            return true;
          },
          {}};
}

Setting MaxRetries() {
  return {"WORKQUEUE_MAX_RETRIES",
          "retries in a row before a key becomes a dead letter with its next failure; 0: it is "
          "tried for ever",
          "a whole number of at least 0",
          [](ManagerConfig& config, Text text) {
            uint32_t value = 0;
            if (!ReadNumber(text, value)) return false;
            config.max_retries = value == 0 ? std::nullopt : std::optional(value);
            return true;
          },
          "0"};
}

Setting QpsLimit() {
  return {"WORKQUEUE_QPS_LIMIT", "retries a second over all keys; 0: no such limit",
          "a number of at least 0",
          [](ManagerConfig& config, Text text) {
            double value = 0;
            if (!ReadNumber(text, value) || !std::isfinite(value) || value < 0) return false;
            config.qps_limit = value;
            return true;
          },
          "10"};
}

Setting CacheSizeLimit() {
  return {"CACHE_SIZE_LIMIT",
          "decoded objects kept in memory: a number of objects, or of bytes with a unit (256Mi)",
          "a number of objects like 10000, or a size like 256Mi",
          [](ManagerConfig& config, Text text) {
            const auto size = ParseSize(text);
            if (!size) return false;
            (size->has_unit ? config.cache_bytes : config.cache_objects) = size->value;
            (size->has_unit ? config.cache_objects : config.cache_bytes) = 0;
            return true;
          },
          "by the memory limit"};
}

Setting Listen() {
  return {"LARDER_LISTEN", "where /metrics, /healthz and /readyz are served; 0: nowhere",
          "host:port, :port or 0",
          [](ManagerConfig& config, Text text) {
            const size_t colon = text.rfind(':');
            uint16_t port = 0;
            if (text != "0" &&
                (colon == std::string::npos || !ReadNumber(text.substr(colon + 1), port))) {
              return false;
            }
            config.listen = text;
            return true;
          },
          ManagerConfig().listen};
}

Setting MemoryLimit() {
  return {"LARDER_MEMORY_LIMIT", "what the store may use of memory",
          "a size of at least 1Mi, like 64Mi",
          [](ManagerConfig& config, Text text) {
            // Without a unit it is bytes, which is mostly a unit that was forgotten.
            constexpr uint64_t kLeast = uint64_t{1} << 20;
            const auto size = ParseSize(text);
            if (!size || size->value < kLeast) return false;
            config.memory_limit = size->value;
            return true;
          },
          "64Mi"};
}

Setting Namespaces() {
  return {"INFORMER_NAMESPACE",
          "one namespace, or several with commas between them; empty: all",
          "one or more namespaces with commas between them",
          [](ManagerConfig& config, Text text) {
            InformerConfig informer;
            informer.ns = text;
            config.ns = text;
            return informer.Validate().has_value();
          },
          {}};
}

Setting LogLevel() {
  return {"LARDER_LOG_LEVEL", "how much is logged", "trace, debug, info, warn, error or off",
          [](ManagerConfig& config, Text text) {
            static const std::set<std::string> kLevels = {"trace", "debug", "info",
                                                          "warn",  "error", "off"};
            config.log_level = text;
            return kLevels.contains(text);
          },
          "info"};
}

std::vector<Setting> MakeSettings() {
  using C = ManagerConfig;
  return {
      TextSetting("LARDER_KUBECONFIG", "a kubeconfig; empty: as kubectl, then the service account",
                  &C::kubeconfig),
      TextSetting("LARDER_CONTEXT", "the kubeconfig's context", &C::context),
      TextSetting("LARDER_STORE", "the store's directory", &C::store, C().store),
      MemoryLimit(),
      BytesSetting("LARDER_DISK_LIMIT", "what the store may use of the disk; 0: no bound",
                   &C::disk_limit, "0"),
      TextSetting("LARDER_ENCRYPTION_KEY_FILE", "the file with the key for secrets on disk",
                  &C::encryption_key_file),
      TextSetting("LARDER_ENCRYPTION_KEY_VARIABLE",
                  "instead of that file: the environment variable that holds the key",
                  &C::encryption_key_variable),
      SwitchSetting("ENABLE_COMPRESSION", "compress stored objects", &C::compression),
      DurationSetting("INFORMER_RESYNC_PERIOD", "every key again, this often; 0: never",
                      &C::resync_period, true),
      Namespaces(),
      SelectorSetting<LabelSelector>(
          "INFORMER_LABEL_SELECTOR", "which objects of the controller's own resource",
          "a label selector like app=web,tier in (a,b)", &C::label_selector),
      SelectorSetting<FieldSelector>("INFORMER_FIELD_SELECTOR",
                                     "which objects of the controller's own resource",
                                     "a field selector like spec.nodeName=n1", &C::field_selector),
      MaxRetries(),
      DurationSetting("WORKQUEUE_BASE_DELAY", "wait after the first failure, doubled after each",
                      &C::base_delay, false),
      DurationSetting("WORKQUEUE_MAX_DELAY", "the longest such wait", &C::max_delay, false),
      QpsLimit(),
      CountSetting("WORKQUEUE_BURST", "retries at once over all keys", &C::burst),
      CountSetting("MAX_CONCURRENT_RECONCILES", "workers of a controller that names no number",
                   &C::max_concurrent_reconciles),
      CacheSizeLimit(),
      DurationSetting("CACHE_TTL", "how long a decoded object stays in memory; 0: while it fits",
                      &C::cache_ttl, true),
      SwitchSetting("LEADER_ELECTION_ENABLED", "only the holder of a Lease reconciles",
                    &C::leader_election),
      TextSetting("LEADER_ELECTION_NAME", "the Lease; empty: the program's name",
                  &C::leader_election_name),
      TextSetting("LEADER_ELECTION_NAMESPACE", "the Lease's namespace; empty: our own",
                  &C::leader_election_namespace),
      TextSetting("LEADER_ELECTION_ID",
                  "who we are in the Lease, before a random part; empty: the host",
                  &C::leader_election_id),
      DurationSetting("LEASE_DURATION", "how long others leave a silent leader alone",
                      &C::lease_duration, false),
      DurationSetting("RENEW_DEADLINE", "a leader that could not renew for so long stops",
                      &C::renew_deadline, false),
      DurationSetting("RETRY_PERIOD", "how often to renew, or to try", &C::retry_period, false),
      Listen(),
      TextSetting("LARDER_TLS_CERT_FILE", "serve with TLS: the certificate", &C::tls_cert_file),
      TextSetting("LARDER_TLS_KEY_FILE", "serve with TLS: the key", &C::tls_key_file),
      DurationSetting("SHUTDOWN_TIMEOUT", "how long running reconciles may take after SIGTERM",
                      &C::shutdown_timeout, true),
      LogLevel(),
  };
}

// The words of a variable, in lower case; our own prefix is for the environment only.
std::vector<std::string> Words(const std::string& variable) {
  std::vector<std::string> words(1);
  const size_t begin = variable.starts_with("LARDER_") ? 7 : 0;
  for (const char c : variable.substr(begin)) {
    if (c == '_') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return words;
}

}  // namespace

std::string Setting::Flag() const {
  std::string flag = "-";
  for (const std::string& word : Words(variable)) flag += "-" + word;
  return flag;
}

std::string Setting::FileKey() const {
  std::string key;
  for (std::string word : Words(variable)) {
    if (!key.empty())
      word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
    key += word;
  }
  return key;
}

const std::vector<Setting>& Settings() {
  static const std::vector<Setting> settings = MakeSettings();
  return settings;
}

Result<void> Apply(const Setting& setting, ManagerConfig& config, const std::string& text,
                   std::string_view where) {
  if (setting.set(config, text)) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{}: \"{}\" is not {}", where, text,
                   setting.allowed);
}

}  // namespace larder::internal
