// What a request proves its identity with, kept fresh.
//
// Static data is read once. Files (token, certificate, key, CA) are read again after a minute, and
// after a 401 if we prove ourselves by one of them; while a rotated file cannot be read, what it
// held last goes on being used, with a warning. A plugin is run when nothing was got yet, at the
// credential's expiry, and after a 401.
//
// Thread-safe. One thread at a time reads files or runs the plugin; others that need the result
// wait for it, each with its own stop token. Errors: kUnauthorized (never kNotFound), kTimeout,
// kCancelled. Nothing of a credential is logged.
//
//   Result<std::shared_ptr<const Credential>> credential = source.Get(stop);
//   if (status == 401 && source.Drop(**credential)) ...   // try once more with a new one
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "client/config.h"

namespace larder {

struct Credential {
  std::string authorization;  // the header's value: "Bearer ..."; empty: none
  std::string certificate_pem;
  std::string key_pem;
  std::string ca_pem;
  std::optional<Clock::Wall> expires;
  uint64_t generation = 0;  // of what is proven by it: reading only the CA again keeps it

  // What of the header nobody may be shown.
  std::vector<std::string> Secrets() const;
};

class CredentialSource {
 public:
  CredentialSource(ClientConfig config, Clock* clock);

  Result<std::shared_ptr<const Credential>> Get(const std::stop_token& stop);
  // The server did not accept it. False when another try would send the same again.
  bool Drop(const Credential& refused);

 private:
  bool IsFresh() const LARDER_REQUIRES(mutex_);
  // `renew`: the previous one is of no use any more; otherwise only the files are read again.
  Result<Credential> Load(const std::stop_token& stop, const Credential* previous,
                          bool renew) const;
  Result<void> LoadFiles(Credential& credential, const Credential* previous) const;
  Result<void> LoadPlugin(Credential& credential, const std::stop_token& stop) const;
  Result<void> LoadToken(Credential& credential, const Credential* previous) const;
  bool IsUsable() const LARDER_REQUIRES(mutex_);

  const ClientConfig config_;
  Clock* const clock_;
  const bool has_files_;

  Mutex mutex_;
  std::condition_variable_any loaded_;
  bool loading_ LARDER_GUARDED_BY(mutex_) = false;
  bool dropped_ LARDER_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const Credential> current_ LARDER_GUARDED_BY(mutex_);
  Clock::Steady loaded_at_ LARDER_GUARDED_BY(mutex_);
  uint64_t next_generation_ LARDER_GUARDED_BY(mutex_) = 1;
};

}  // namespace larder
