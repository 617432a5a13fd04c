// Is an answer what was asked for? The first look at any list, watch or object.
#pragma once

#include <map>
#include <string>

#include "base/error.h"

namespace larder {

enum class BodyForm { kJson, kProtobuf };

// kProtocol unless the answer has status 200 and a content type that the API speaks: a proxy's
// login page must never be taken for an empty list.
Result<BodyForm> CheckAnswer(int status, const std::map<std::string, std::string>& headers);

}  // namespace larder
