#include "client/credential_source.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/base64.h"
#include "base/text.h"
#include "client/exec_credential.h"
#include "client/file_util.h"

namespace larder {
namespace {

constexpr std::string_view kBasic = "Basic ";
constexpr std::chrono::seconds kReadAgainAfter{50};  // with the time for a request under a minute
constexpr std::chrono::seconds kExpiryMargin{10};

// Inline data, else the file, else what the file held before.
Result<std::string> Material(const char* what, const std::string& data, const std::string& file,
                             const std::string* previous) {
  if (!data.empty() || file.empty()) return data;
  Result<std::string> content = ReadSmallFile(file);
  if (content && !Trimmed(*content).empty()) return content;
  const std::string why = content ? fmt::format("{} is empty", file) : content.error().message;
  if (previous != nullptr && !previous->empty()) {
    spdlog::warn("{}: {}; going on with what was read before", what, why);
    return *previous;
  }
  return MakeError(ErrorCode::kUnauthorized, "{}: {}", what, why);
}

Result<std::string> BearerHeader(const std::string& token, const char* from) {
  const std::string trimmed(Trimmed(token));
  const bool clean = std::none_of(trimmed.begin(), trimmed.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
  });
  if (!clean) {
    return MakeError(ErrorCode::kUnauthorized, "the token from {} has spaces or line breaks in it",
                     from);
  }
  return trimmed.empty() ? std::string() : "Bearer " + trimmed;
}

}  // namespace

std::vector<std::string> Credential::Secrets() const {
  const size_t space = authorization.find(' ');
  if (space == std::string::npos) return {};
  std::vector<std::string> secrets = {authorization.substr(space + 1)};
  if (authorization.starts_with(kBasic)) {
    const std::string pair = DecodeBase64(secrets[0]).value_or("");
    secrets.push_back(pair.substr(pair.find(':') + 1));
  }
  return secrets;
}

CredentialSource::CredentialSource(ClientConfig config, Clock* clock)
    : config_(std::move(config)),
      clock_(clock),
      has_files_(!config_.token_file.empty() || !config_.client_certificate_file.empty() ||
                 !config_.client_key_file.empty() || !config_.ca_file.empty()) {}

bool CredentialSource::IsUsable() const {
  if (current_ == nullptr || dropped_) return false;
  return !current_->expires || clock_->WallNow() < *current_->expires;
}

bool CredentialSource::IsFresh() const {
  return IsUsable() && !(has_files_ && clock_->Now() - loaded_at_ >= kReadAgainAfter);
}

Result<std::shared_ptr<const Credential>> CredentialSource::Get(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  for (;;) {
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped by the caller");
    if (IsFresh()) return current_;
    if (loading_) {
      clock_->WaitUntil(mutex_, loaded_, Clock::Steady::max(), stop);
      continue;
    }
    loading_ = true;
    const std::shared_ptr<const Credential> previous = current_;
    const bool renew = !IsUsable();
    lock.unlock();
    Result<Credential> loaded = Load(stop, previous.get(), renew);
    lock.lock();
    loading_ = false;
    loaded_.notify_all();
    if (!loaded) return tl::unexpected(std::move(loaded).error());
    if (loaded->generation == 0) loaded->generation = next_generation_++;
    current_ = std::make_shared<const Credential>(*std::move(loaded));
    loaded_at_ = clock_->Now();
    // Dropped while it was read again, what was read may still be what was refused.
    if (renew) dropped_ = false;
    if (!dropped_) return current_;
  }
}

bool CredentialSource::Drop(const Credential& refused) {
  const bool may_change = config_.exec || !config_.token_file.empty() ||
                          !config_.client_certificate_file.empty() ||
                          !config_.client_key_file.empty();
  if (!may_change) return false;
  MutexLock lock(mutex_);
  // Somebody else may have dropped it already, and the one we have now is newer.
  if (current_ != nullptr && current_->generation == refused.generation) dropped_ = true;
  return true;
}

Result<void> CredentialSource::LoadFiles(Credential& credential, const Credential* previous) const {
  const auto held = [previous](std::string Credential::*field) {
    return previous != nullptr ? &(previous->*field) : nullptr;
  };
  LARDER_ASSIGN_OR_RETURN(credential.ca_pem, Material("certificate authority", config_.ca_data,
                                                      config_.ca_file, held(&Credential::ca_pem)));
  LARDER_ASSIGN_OR_RETURN(
      credential.certificate_pem,
      Material("client certificate", config_.client_certificate_data,
               config_.client_certificate_file, held(&Credential::certificate_pem)));
  LARDER_ASSIGN_OR_RETURN(credential.key_pem,
                          Material("client key", config_.client_key_data, config_.client_key_file,
                                   held(&Credential::key_pem)));
  return {};
}

Result<void> CredentialSource::LoadPlugin(Credential& credential,
                                          const std::stop_token& stop) const {
  LARDER_ASSIGN_OR_RETURN(ExecCredential got,
                          RunExecPlugin(config_, *config_.exec, credential.ca_pem, stop));
  LARDER_ASSIGN_OR_RETURN(credential.authorization,
                          BearerHeader(got.token, "the credential plugin"));
  if (!got.certificate_pem.empty()) {
    credential.certificate_pem = std::move(got.certificate_pem);
    credential.key_pem = std::move(got.key_pem);
  }
  if (got.expires) {
    // A margin, so that it does not expire on its way; a short life is not all margin.
    const auto life = std::max(*got.expires - clock_->WallNow(), Clock::Wall::duration(0));
    credential.expires = *got.expires - std::min<Clock::Wall::duration>(kExpiryMargin, life / 10);
  }
  return {};
}

Result<void> CredentialSource::LoadToken(Credential& credential, const Credential* previous) const {
  if (!config_.token_file.empty()) {
    // The header is what was kept; without its scheme it is the token again.
    static constexpr size_t kScheme = sizeof("Bearer ") - 1;
    const std::string before = previous != nullptr && previous->authorization.size() > kScheme
                                   ? previous->authorization.substr(kScheme)
                                   : config_.token;
    LARDER_ASSIGN_OR_RETURN(const std::string token,
                            Material("token", "", config_.token_file, &before));
    LARDER_ASSIGN_OR_RETURN(credential.authorization, BearerHeader(token, "the token file"));
  } else if (!config_.token.empty()) {
    LARDER_ASSIGN_OR_RETURN(credential.authorization,
                            BearerHeader(config_.token, "the configuration"));
  } else if (!config_.username.empty()) {
    credential.authorization =
        std::string(kBasic) + EncodeBase64(config_.username + ":" + config_.password);
  }
  return {};
}

Result<Credential> CredentialSource::Load(const std::stop_token& stop, const Credential* previous,
                                          bool renew) const {
  Credential credential;
  if (config_.exec && !renew) {
    credential = *previous;
    LARDER_ASSIGN_OR_RETURN(credential.ca_pem, Material("certificate authority", config_.ca_data,
                                                        config_.ca_file, &previous->ca_pem));
    return credential;
  }
  LARDER_RETURN_IF_ERROR(LoadFiles(credential, previous));
  if (config_.exec) {
    LARDER_RETURN_IF_ERROR(LoadPlugin(credential, stop));
  } else {
    LARDER_RETURN_IF_ERROR(LoadToken(credential, previous));
  }
  return credential;
}

}  // namespace larder
