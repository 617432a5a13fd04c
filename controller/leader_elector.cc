#include "controller/leader_elector.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "client/timestamp.h"
#include "schema/field_path.h"
#include "schema/json_text.h"

namespace larder {
namespace {

using std::chrono::nanoseconds;

// 0 would be none.
constexpr std::chrono::milliseconds kLeastTimeout{1};
// How often the log repeats what keeps us from the lease.
constexpr std::chrono::seconds kWarnAgain{30};

Resource Leases() { return {"coordination.k8s.io", "v1", "leases", "Lease", true}; }

int64_t Nanos(Clock::Steady time) { return nanoseconds(time.time_since_epoch()).count(); }

int64_t WholeSeconds(nanoseconds duration) {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

// Another one has the lease, or was quicker.
bool IsAnothers(const Error& error) {
  return error.code == ErrorCode::kConflict || error.code == ErrorCode::kAlreadyExists;
}

}  // namespace

Result<Response> LeaderElector::LimitedTransport::Do(const larder::Request& request,
                                                     const std::stop_token& stop) {
  larder::Request limited = request;
  limited.timeout = std::min(limited.timeout, timeout_);
  if (elector_.IsLeader()) {
    const auto left = *elector_.LeadsUntil() - elector_.options_.clock->Now();
    limited.timeout = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(left), kLeastTimeout,
                                 limited.timeout);
  }
  return transport_.Do(limited, stop);
}

Result<std::unique_ptr<BodyStream>> LeaderElector::LimitedTransport::Open(
    const larder::Request& request, const std::stop_token& stop) {
  return transport_.Open(request, stop);
}

LeaderElector::LeaderElector(HttpTransport& transport, LeaderElectionOptions options)
    : options_(std::move(options)),
      transport_(transport,
                 std::chrono::ceil<std::chrono::milliseconds>(options_.renew_deadline / 2), *this),
      client_(transport_),
      resource_(Leases()),
      random_(options_.random_seed ? options_.random_seed : std::random_device{}()) {}

bool LeaderElector::IsLeader() const {
  return Nanos(options_.clock->Now()) < leads_until_.load(std::memory_order_acquire);
}

std::optional<Clock::Steady> LeaderElector::LeadsUntil() const {
  const int64_t until = leads_until_.load(std::memory_order_acquire);
  if (until == 0) return std::nullopt;
  return Clock::Steady(nanoseconds(until));
}

Error LeaderElector::Lost() const {
  const auto error = LastError();
  return {ErrorCode::kUnavailable,
          fmt::format("lost the lease {}/{}: {}", options_.ns, options_.name,
                      error ? error->ToString() : "it was not renewed in time"),
          {},
          {}};
}

std::string LeaderElector::Leader() const {
  MutexLock lock(mutex_);
  return leader_;
}

std::optional<Error> LeaderElector::LastError() const {
  MutexLock lock(mutex_);
  return last_error_;
}

Result<void> LeaderElector::Ready() const {
  const auto error = LastError();
  if (!error || IsAnothers(*error) || error->code == ErrorCode::kCancelled) return {};
  return error->IsRetryable() ? Result<void>() : tl::unexpected(*error);
}

Result<void> LeaderElector::Acquire(const std::stop_token& stop) {
  // Up to a fifth longer each time, so that candidates do not march in step.
  std::uniform_real_distribution<double> jitter(1.0, 1.2);
  while (!stop.stop_requested()) {
    if (TryAcquireOrRenew(stop)) return {};
    const auto pause =
        std::chrono::duration_cast<nanoseconds>(options_.retry_period * jitter(random_));
    if (!options_.clock->SleepFor(pause, stop)) break;
  }
  return MakeError(ErrorCode::kCancelled, "stopped before the lease was ours");
}

Result<void> LeaderElector::Hold(const std::stop_token& stop) {
  while (IsLeader()) {
    if (!options_.clock->SleepFor(options_.retry_period, stop)) {
      return MakeError(ErrorCode::kCancelled, "stopped while leading");
    }
    if (!IsLeader()) break;  // asleep for too long
    TryAcquireOrRenew(stop);
    if (stop.stop_requested()) return MakeError(ErrorCode::kCancelled, "stopped while leading");
  }
  return tl::unexpected(Lost());
}

Leadership LeaderElector::Current() const {
  LARDER_CHECK(observed_.has_value());
  const auto metadata = observed_->object.find("metadata");
  return {metadata == observed_->object.end() ? std::string() : TextAt(*metadata, "uid"),
          observed_->transitions};
}

bool LeaderElector::TryAcquireOrRenew(const std::stop_token& stop) {
  // Others count from when they see the renewal, which is later than this.
  const Clock::Steady asked_at = options_.clock->Now();
  const Result<void> outcome = Try(asked_at, stop);
  {
    MutexLock lock(mutex_);
    last_error_ = outcome ? std::nullopt : std::optional(outcome.error());
  }
  if (!stop.stop_requested()) Warn(outcome);
  return outcome && IsLeader();
}

void LeaderElector::Warn(const Result<void>& outcome) {
  if (outcome || IsAnothers(outcome.error())) {
    warned_.clear();
    return;
  }
  std::string text = outcome.error().ToString();
  const Clock::Steady now = options_.clock->Now();
  if (text == warned_ && now < warned_at_ + kWarnAgain) return;
  warned_ = std::move(text);
  warned_at_ = now;
  spdlog::warn("lease {}/{}: {}; trying again", options_.ns, options_.name, warned_);
}

Result<void> LeaderElector::Try(Clock::Steady asked_at, const std::stop_token& stop) {
  // The leader writes over what it wrote last, without reading: one request, and a conflict says
  // that somebody else did.
  if (IsLeader() && observed_ && observed_->holder == options_.identity) {
    Result<void> renewed = Write(observed_, asked_at, stop);
    if (renewed || renewed.error().code != ErrorCode::kConflict) return renewed;
  }
  Result<Record> current = Read(stop);
  if (!current) {
    if (current.error().code != ErrorCode::kNotFound) {
      return tl::unexpected(std::move(current).error());
    }
    leads_until_ = 0;
    return Write(std::nullopt, asked_at, stop);
  }
  Observe(*current);
  if (current->holder == options_.identity) return Write(*current, asked_at, stop);
  leads_until_ = 0;
  if (!current->holder.empty() && options_.clock->Now() < observed_at_ + LeaseOf(*current)) {
    return MakeError(ErrorCode::kConflict, "{} holds it", Excerpt(current->holder));
  }
  return Write(*current, asked_at, stop);
}

nanoseconds LeaderElector::LeaseOf(const Record& record) const {
  return std::max<nanoseconds>(options_.lease_duration,
                               std::chrono::seconds(record.duration_seconds));
}

void LeaderElector::Observe(const Record& record) {
  if (!observed_ || observed_->version != record.version) observed_at_ = options_.clock->Now();
  observed_ = record;
  {
    MutexLock lock(mutex_);
    if (leader_ == record.holder) return;
    leader_ = record.holder;
  }
  if (record.holder.empty()) return;
  spdlog::info("lease {}/{}: the leader is {}", options_.ns, options_.name, Excerpt(record.holder));
}

Result<LeaderElector::Record> LeaderElector::Read(const std::stop_token& stop) {
  LARDER_ASSIGN_OR_RETURN(const ObjectPtr lease,
                          client_.Get(resource_, {options_.ns, options_.name}, {}, stop));
  Record record;
  record.object = lease->ToMutable();
  const Json& json = record.object;
  record.version = std::string(lease->resource_version());
  const auto spec = json.find("spec");
  if (spec == json.end() || !spec->is_object()) return record;
  const auto text = [&](const char* field) {
    const auto value = spec->find(field);
    return value != spec->end() && value->is_string() ? value->get<std::string>() : std::string();
  };
  const auto number = [&](const char* field) {
    const auto value = spec->find(field);
    if (value == spec->end() || !value->is_number_integer()) return int64_t{0};
    // The API's are int32. More would be more nanoseconds than there are.
    return std::clamp<int64_t>(value->get<int64_t>(), 0, std::numeric_limits<int32_t>::max());
  };
  record.holder = text("holderIdentity");
  record.acquire_time = text("acquireTime");
  record.duration_seconds = number("leaseDurationSeconds");
  record.transitions = number("leaseTransitions");
  return record;
}

Json LeaderElector::MakeLease(const std::optional<Record>& previous) const {
  const bool renewal = previous && previous->holder == options_.identity;
  const std::string now = FormatMicroTime(options_.clock->WallNow());
  // Labels, annotations and owners that others gave it stay.
  Json lease = previous ? previous->object : Json::object();
  lease["metadata"]["name"] = options_.name;
  lease["metadata"]["namespace"] = options_.ns;
  if (previous) lease["metadata"]["resourceVersion"] = previous->version;
  Json& spec = lease["spec"];
  spec["holderIdentity"] = options_.identity;
  spec["leaseDurationSeconds"] = WholeSeconds(options_.lease_duration);
  spec["acquireTime"] = renewal ? previous->acquire_time : now;
  spec["renewTime"] = now;
  spec["leaseTransitions"] = !previous ? 0 : previous->transitions + (renewal ? 0 : 1);
  return lease;
}

Result<void> LeaderElector::Write(const std::optional<Record>& previous, Clock::Steady asked_at,
                                  const std::stop_token& stop) {
  const Json lease = MakeLease(previous);
  const Result<ObjectPtr> written = previous ? client_.Update(resource_, lease, {}, stop)
                                             : client_.Create(resource_, lease, {}, stop);
  if (!written) return tl::unexpected(written.error());
  Record record;
  record.holder = options_.identity;
  record.object = (*written)->ToMutable();
  record.version = std::string((*written)->resource_version());
  record.acquire_time = lease.at("spec").at("acquireTime").get<std::string>();
  record.duration_seconds = WholeSeconds(options_.lease_duration);
  record.transitions = lease.at("spec").at("leaseTransitions").get<int64_t>();
  Observe(record);
  leads_until_.store(Nanos(asked_at + options_.renew_deadline), std::memory_order_release);
  return {};
}

Result<void> LeaderElector::GiveUp(const Record& held) {
  Json lease = MakeLease(held);
  lease["spec"]["holderIdentity"] = "";
  // As client-go: others need not wait for the old duration.
  lease["spec"]["leaseDurationSeconds"] = 1;
  LARDER_RETURN_IF_ERROR(client_.Update(resource_, lease, {}, {}));
  return {};
}

void LeaderElector::Release() {
  if (!IsLeader() || !observed_ || observed_->holder != options_.identity) {
    leads_until_ = 0;
    return;
  }
  leads_until_ = 0;
  Result<void> released = GiveUp(*observed_);
  observed_.reset();
  if (!released && released.error().code == ErrorCode::kConflict) {
    // Our own renewal, whose answer was lost? Or somebody gave it a label.
    const Result<Record> current = Read({});
    if (current && current->holder == options_.identity) released = GiveUp(*current);
  }
  if (!released) {
    spdlog::warn("lease {}/{} is not released, the next leader waits for it: {}", options_.ns,
                 options_.name, released.error().ToString());
  }
}

}  // namespace larder
