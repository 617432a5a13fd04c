// Any text as a kubeconfig, alone and merged with itself: no crash, and an error names the file and
// fits on a page.
#include <cstdint>
#include <string>

#include "client/kubeconfig.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = larder::ConfigFromKubeconfigs({{"/fuzz/config", text}}, "");
  if (config) {
    LARDER_CHECK(larder::ValidateConfig(*config).has_value());
  } else {
    LARDER_CHECK(config.error().message.find("/fuzz/config") != std::string::npos);
  }
  // The first file wins, so the second one changes nothing.
  const auto merged =
      larder::ConfigFromKubeconfigs({{"/fuzz/config", text}, {"/fuzz/again", text}}, "");
  LARDER_CHECK(merged.has_value() == config.has_value());
  if (config) LARDER_CHECK(merged->server == config->server && merged->token == config->token);
  return 0;
}
