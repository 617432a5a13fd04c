#include "reflector/answer.h"

#include <string_view>

namespace larder {

Result<BodyForm> CheckAnswer(const BodyStream& stream) {
  if (stream.status() != 200) {
    return MakeError(ErrorCode::kProtocol, "the server answered with status {}, 200 was expected",
                     stream.status());
  }
  const auto found = stream.headers().find("content-type");
  const std::string_view type =
      found == stream.headers().end() ? std::string_view() : found->second;
  if (type.empty() || type.starts_with("application/json")) return BodyForm::kJson;
  if (type.starts_with("application/vnd.kubernetes.protobuf")) return BodyForm::kProtobuf;
  return MakeError(ErrorCode::kProtocol,
                   "the server answered with content type '{}': is this address an API server?",
                   type.substr(0, 100));
}

}  // namespace larder
