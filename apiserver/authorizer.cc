#include "apiserver/authorizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace larder::apiserver {

Result<User> User::FromJson(const Json& json) {
  try {
    return User{json.value("name", ""), json.value("token", ""),
                json.value("forbidden", std::vector<std::string>())};
  } catch (const Json::exception& failure) {
    return MakeError(ErrorCode::kInvalidArgument, "bad user: {}", failure.what());
  }
}

void Authorizer::SetUsers(std::vector<User> users) {
  MutexLock lock(mutex_);
  users_ = std::move(users);
}

std::optional<User> Authorizer::Authenticate(std::string_view authorization,
                                             std::string_view certificate_user) const {
  MutexLock lock(mutex_);
  if (users_.empty()) return User{"system:anonymous", "", {}};
  constexpr std::string_view kBearer = "Bearer ";
  if (authorization.starts_with(kBearer)) {
    const std::string_view token = authorization.substr(kBearer.size());
    for (const User& user : users_) {
      if (!user.token.empty() && user.token == token) return user;
    }
    return std::nullopt;
  }
  for (const User& user : users_) {
    if (!certificate_user.empty() && user.name == certificate_user) return user;
  }
  return std::nullopt;
}

bool Authorizer::Allowed(const User& user, std::string_view verb, std::string_view resource) {
  const std::string both = fmt::format("{}:{}", verb, resource);
  return std::none_of(user.forbidden.begin(), user.forbidden.end(),
                      [&](const std::string& entry) { return entry == resource || entry == both; });
}

}  // namespace larder::apiserver
