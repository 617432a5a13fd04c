#include "reflector/answer.h"

#include <string>
#include <string_view>

#include "base/text.h"

namespace larder {

Result<BodyForm> CheckAnswer(int status, const std::map<std::string, std::string>& headers) {
  if (status != 200) {
    return MakeError(ErrorCode::kProtocol, "the server answered with status {}, 200 was expected",
                     status);
  }
  const auto found = headers.find("content-type");
  const std::string_view type = found == headers.end() ? std::string_view() : found->second;
  if (type.empty() || type.starts_with("application/json")) return BodyForm::kJson;
  if (type.starts_with("application/vnd.kubernetes.protobuf")) return BodyForm::kProtobuf;
  return MakeError(ErrorCode::kProtocol,
                   "the server answered with content type '{}': is this address an API server?",
                   Excerpt(type));
}

}  // namespace larder
