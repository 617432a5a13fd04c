// The table of a manager's settings: one row has a setting's names, what it is for, what is
// allowed, and how a text becomes its value. Flags, environment, file and --help are all made from
// it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "controller/config.h"

namespace larder::internal {

struct Setting {
  std::string variable;  // "INFORMER_RESYNC_PERIOD"
  std::string help;
  std::string allowed;  // "a duration of at least 0, like 10m"
  // False: the text is not what is allowed.
  std::function<bool(ManagerConfig&, const std::string& text)> set;
  std::string default_text;
  bool is_switch = false;  // on the command line it may stand without a value

  std::string Flag() const;     // "--informer-resync-period"
  std::string FileKey() const;  // "informerResyncPeriod"
};

const std::vector<Setting>& Settings();

// `where` is how the user spelled it: "INFORMER_RESYNC_PERIOD", "--informer-resync-period".
Result<void> Apply(const Setting& setting, ManagerConfig& config, const std::string& text,
                   std::string_view where);

}  // namespace larder::internal
