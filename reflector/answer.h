// Is an answer what was asked for? The first look at any list or watch.
#pragma once

#include "base/error.h"
#include "client/transport.h"

namespace larder {

enum class BodyForm { kJson, kProtobuf };

// kProtocol unless the answer has status 200 and a content type that the API speaks: a proxy's
// login page must never be taken for an empty list.
Result<BodyForm> CheckAnswer(const BodyStream& stream);

}  // namespace larder
