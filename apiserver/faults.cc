#include "apiserver/faults.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace larder::apiserver {
namespace {

constexpr std::pair<FaultType, std::string_view> kNames[] = {
    {FaultType::kDrop, "drop"},         {FaultType::kError, "error"},
    {FaultType::kDelay, "delay"},       {FaultType::kStall, "stall"},
    {FaultType::kCut, "cut"},           {FaultType::kClose, "close"},
    {FaultType::kGarbage, "garbage"},   {FaultType::kInject, "inject"},
    {FaultType::kBody, "body"},         {FaultType::kContentType, "content_type"},
    {FaultType::kSlow, "slow"},         {FaultType::kVersion, "version"},
    {FaultType::kHttpGone, "http_gone"}};

}  // namespace

Result<Fault> Fault::FromJson(const Json& json) {
  Fault out;
  try {
    const std::string type = json.at("type").get<std::string>();
    bool known = false;
    for (const auto& [value, name] : kNames) {
      if (name == type) {
        out.type = value;
        known = true;
      }
    }
    if (!known) return MakeError(ErrorCode::kInvalidArgument, "unknown fault type \"{}\"", type);
    out.resource = json.value("resource", "");
    out.verb = json.value("verb", "");
    out.times = json.value("times", 1);
    out.code = json.value("code", out.type == FaultType::kBody ? 200 : 500);
    out.reason = json.value("reason", "");
    out.message = json.value("message", "");
    if (json.contains("retry_after")) out.retry_after = json["retry_after"].get<int>();
    out.after_events = json.value("after_events", 0);
    out.delay_ms = json.value("delay_ms", 0);
    out.bytes_per_second = json.value("bytes_per_second", uint64_t{0});
    out.mode = json.value("mode", "");
    out.content_type = json.value("content_type", "");
    out.body = json.value("body", "");
    out.repeat = json.value("repeat", int64_t{1});
    const Json headers = json.value("headers", Json::object());
    for (const auto& [name, value] : headers.items()) {
      out.headers[name] = value.get<std::string>();
    }
  } catch (const Json::exception& failure) {
    return MakeError(ErrorCode::kInvalidArgument, "bad fault: {}", failure.what());
  }
  return out;
}

Json Fault::ToJson() const {
  Json out = {{"id", id}};
  for (const auto& [value, name] : kNames) {
    if (value == type) out["type"] = name;
  }
  out["resource"] = resource;
  out["verb"] = verb;
  out["times"] = times;
  out["code"] = code;
  out["after_events"] = after_events;
  out["delay_ms"] = delay_ms;
  out["bytes_per_second"] = bytes_per_second;
  out["mode"] = mode;
  return out;
}

const Fault* FaultPlan::Find(FaultType type) const {
  for (const Fault& fault : faults_) {
    if (fault.type == type) return &fault;
  }
  return nullptr;
}

int Faults::Add(Fault fault) {
  MutexLock lock(mutex_);
  fault.id = next_id_++;
  const int id = fault.id;
  faults_[id] = std::move(fault);
  return id;
}

bool Faults::Remove(int id) {
  MutexLock lock(mutex_);
  const bool found = faults_.erase(id) + stalls_.erase(id) > 0;
  changed_.notify_all();
  return found;
}

void Faults::Clear() {
  MutexLock lock(mutex_);
  faults_.clear();
  stalls_.clear();
  changed_.notify_all();
}

std::vector<Fault> Faults::List() const {
  MutexLock lock(mutex_);
  std::vector<Fault> out;
  for (const auto& [id, fault] : faults_) out.push_back(fault);
  return out;
}

FaultPlan Faults::Take(std::string_view resource, std::string_view verb) {
  MutexLock lock(mutex_);
  std::vector<Fault> taken;
  for (auto it = faults_.begin(); it != faults_.end();) {
    Fault& fault = it->second;
    const bool applies = (fault.resource.empty() || fault.resource == resource) &&
                         (fault.verb.empty() || fault.verb == verb);
    if (!applies) {
      ++it;
      continue;
    }
    taken.push_back(fault);
    if (fault.type == FaultType::kStall) stalls_.insert(fault.id);
    it = fault.times > 0 && --fault.times == 0 ? faults_.erase(it) : std::next(it);
  }
  return FaultPlan(std::move(taken));
}

void Faults::Stall(int id, const std::stop_token& stop, const std::function<bool()>& interrupted) {
  MutexLock lock(mutex_);
  changed_.wait(mutex_, stop,
                [&]() LARDER_REQUIRES(mutex_) { return interrupted() || !stalls_.contains(id); });
}

void Faults::Wake() {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

}  // namespace larder::apiserver
