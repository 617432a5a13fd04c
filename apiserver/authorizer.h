// Who may do what: bearer tokens, client certificates, and resources that are forbidden to a user.
//
// Without users everybody may do everything. Thread-safe; users can be exchanged while the server
// runs, which is how a token expires.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "schema/object.h"

namespace larder::apiserver {

struct User {
  std::string name = {};
  std::string token = {};  // empty: only by client certificate, whose common name is `name`
  std::vector<std::string> forbidden = {};  // "pods", or with a verb "list:pods"

  static Result<User> FromJson(const Json& json);
};

class Authorizer {
 public:
  explicit Authorizer(std::vector<User> users) : users_(std::move(users)) {}

  void SetUsers(std::vector<User> users);
  // nullopt: 401. Without users everybody is "system:anonymous" and allowed.
  std::optional<User> Authenticate(std::string_view authorization,
                                   std::string_view certificate_user) const;
  static bool Allowed(const User& user, std::string_view verb, std::string_view resource);

 private:
  mutable Mutex mutex_;
  std::vector<User> users_ LARDER_GUARDED_BY(mutex_);
};

}  // namespace larder::apiserver
