#include "apiserver/churn.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace larder::apiserver {
namespace {

constexpr std::chrono::milliseconds kTick{5};

Json Namespace(const std::string& name) { return {{"metadata", {{"name", name}}}}; }

Json Node(const std::string& name) {
  return {{"metadata",
           {{"name", name},
            {"labels", {{"kubernetes.io/hostname", name}, {"kubernetes.io/os", "linux"}}}}},
          {"spec", Json::object()},
          {"status",
           {{"capacity", {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}}},
            {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
}

}  // namespace

Result<ChurnOptions> ChurnOptions::FromJson(const Json& json) {
  ChurnOptions out;
  try {
    out.rate = json.value("rate", out.rate);
    out.create = json.value("create", out.create);
    out.update = json.value("update", out.update);
    out.remove = json.value("delete", out.remove);
    out.seed = json.value("seed", out.seed);
    out.limit = json.value("limit", out.limit);
  } catch (const Json::exception& failure) {
    return MakeError(ErrorCode::kInvalidArgument, "bad churn: {}", failure.what());
  }
  return out;
}

Churn::Churn(State& state, ObjectWriter& writer, ResourceRegistry& registry, Clock& clock,
             WorkloadShape shape)
    : state_(state),
      writer_(writer),
      registry_(registry),
      clock_(clock),
      pods_(shape),
      table_(state.FindTable("pods")) {}

Churn::~Churn() { Stop(); }

Result<void> Churn::EnsurePlaces() {
  WriteOptions trusted;
  trusted.trusted = true;
  const auto ensure = [&](const char* resource, const Json& object) -> Result<void> {
    const ResourceInfoPtr info = registry_.Find("", "v1", resource);
    ApiResult<Written> written = writer_.Create(*info, "", object, trusted);
    if (!written && written.error().reason != "AlreadyExists") {
      return tl::unexpected(written.error().ToError());
    }
    return {};
  };
  for (uint32_t i = 0; i < pods_.shape().namespaces; ++i) {
    LARDER_RETURN_IF_ERROR(ensure("namespaces", Namespace(pods_.NamespaceName(i))));
  }
  for (uint32_t i = 0; i < pods_.shape().nodes; ++i) {
    LARDER_RETURN_IF_ERROR(ensure("nodes", Node(pods_.NodeName(i))));
  }
  return {};
}

Result<void> Churn::Load(uint64_t count) {
  MutexLock lock(change_mutex_);
  if (next_index_ == 0) LARDER_RETURN_IF_ERROR(EnsurePlaces());
  live_.reserve(live_.size() + count);
  for (uint64_t i = 0; i < count; ++i) CreatePod({next_index_++, 0, 0});
  return {};
}

bool Churn::CreatePod(const PodVersion& pod) {
  StoredPtr stored;
  const State::Outcome outcome =
      state_.Put(*table_, pods_.Key(pod.index).ToString(), pods_.Uid(pod.index, pod.incarnation),
                 State::kAbsent, pods_.Make(pod), &stored);
  if (outcome != State::Outcome::kDone) return false;
  live_.push_back({pod, stored->version});
  return true;
}

int64_t Churn::WallSeconds() const {
  return std::chrono::system_clock::to_time_t(clock_.WallNow());
}

void Churn::Forget(size_t at) {
  live_[at] = live_.back();
  live_.pop_back();
}

void Churn::UpdatePod(size_t at) {
  LivePod& live = live_[at];
  const std::string key = pods_.Key(live.pod.index).ToString();
  ++live.pod.revision;
  live.pod.written = WallSeconds();
  StoredPtr stored;
  const State::Outcome outcome =
      state_.Put(*table_, key, pods_.Uid(live.pod.index, live.pod.incarnation), live.version,
                 pods_.Make(live.pod), &stored);
  if (outcome == State::Outcome::kDone) {
    live.version = stored->version;
  } else if (state_.Get(*table_, key)) {
    UpdateForeign(key);
  } else {
    Forget(at);
  }
}

// A status update on top of what somebody else wrote.
void Churn::UpdateForeign(const std::string& key) {
  const size_t slash = key.find('/');
  WriteOptions options;
  options.manager = "kubelet";
  options.subresource = "status";
  const Json patch = {{"status", {{"message", "probe " + writer_.NewUid()}}}};
  // Deleted meanwhile is fine.
  (void)writer_.Patch(*registry_.Find("", "v1", "pods"), key.substr(0, slash),
                      key.substr(slash + 1), PatchType::kMerge, patch, options);
}

void Churn::DeletePod(size_t at) {
  const LivePod live = live_[at];
  const std::string key = pods_.Key(live.pod.index).ToString();
  Forget(at);
  const StoredPtr current = state_.Get(*table_, key);
  if (!current) return;
  state_.Remove(*table_, key, current->version, nullptr, nullptr);
  if (pods_.Stable(live.pod.index)) {
    gone_.push_back({live.pod.index, live.pod.incarnation + 1, 0});
  }
}

void Churn::OneChange(const ChurnOptions& options, std::mt19937_64& random) {
  MutexLock lock(change_mutex_);
  const double total = options.create + options.update + options.remove;
  const double roll = std::uniform_real_distribution<double>(0, total)(random);
  if (live_.empty() || roll < options.create) {
    if (live_.empty() && options.create <= 0) return;
    // A StatefulSet's pod comes back before a new one is made.
    PodVersion pod;
    if (!gone_.empty()) {
      pod = gone_.back();
      gone_.pop_back();
    } else {
      pod.index = next_index_++;
    }
    pod.created = pod.written = WallSeconds();
    const bool made = CreatePod(pod);
    MutexLock counts(mutex_);
    if (made) ++counts_.created;
    return;
  }
  const size_t at = random() % live_.size();
  if (roll < options.create + options.update) {
    UpdatePod(at);
    MutexLock counts(mutex_);
    ++counts_.updated;
  } else {
    DeletePod(at);
    MutexLock counts(mutex_);
    ++counts_.deleted;
  }
}

void Churn::Run(uint64_t changes, const ChurnOptions& options) {
  std::mt19937_64 random(options.seed);
  for (uint64_t i = 0; i < changes; ++i) OneChange(options, random);
}

void Churn::Start(const ChurnOptions& options) {
  MutexLock lock(mutex_);
  options_ = options;
  ++generation_;
  limit_reached_ = false;
  counts_.running = true;
  changed_.notify_all();
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { Loop(stop); });
  }
}

void Churn::Stop() {
  std::jthread thread;
  {
    MutexLock lock(mutex_);
    thread = std::move(thread_);
    counts_.running = false;
  }
  if (thread.joinable()) {
    thread.request_stop();
    thread.join();
  }
  MutexLock lock(mutex_);
  changed_.notify_all();
}

bool Churn::WaitForLimit() {
  MutexLock lock(mutex_);
  changed_.wait(mutex_,
                [&]() LARDER_REQUIRES(mutex_) { return limit_reached_ || !counts_.running; });
  return limit_reached_;
}

void Churn::Loop(const std::stop_token& stop) {
  std::mt19937_64 random;
  ChurnOptions options;
  uint64_t generation = 0;
  uint64_t done = 0;
  Clock::Steady start;
  while (!stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      if (generation != generation_) {
        generation = generation_;
        options = options_;
        random.seed(options.seed);
        done = 0;
        start = clock_.Now();
      }
    }
    const double elapsed = std::chrono::duration<double>(clock_.Now() - start).count();
    auto due = static_cast<uint64_t>(elapsed * options.rate);
    if (options.limit > 0) due = std::min(due, options.limit);
    // At most a tick's work at a time, so that a stop or new options are seen soon.
    const Clock::Steady until = clock_.Now() + kTick;
    while (done < due && !stop.stop_requested()) {
      OneChange(options, random);
      ++done;
      if (clock_.Now() >= until) break;
    }
    if (options.limit > 0 && done >= options.limit) {
      MutexLock lock(mutex_);
      if (generation == generation_) {
        limit_reached_ = true;
        counts_.running = false;
      }
      changed_.notify_all();
      // Nothing more to do until somebody starts it again.
      changed_.wait(mutex_, stop,
                    [&]() LARDER_REQUIRES(mutex_) { return generation != generation_; });
      continue;
    }
    if (done < due) continue;
    if (!clock_.SleepFor(kTick, stop)) break;
  }
}

ChurnCounts Churn::Counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace larder::apiserver
