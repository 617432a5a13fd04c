#include "tests/simulation/deliveries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace larder::simulation {
namespace {

uint64_t VersionOf(const Object& object) {
  return std::stoull(std::string(object.resource_version()));
}

std::string StateOf(const Object& object) {
  return fmt::format("{}@{}", object.uid(), object.resource_version());
}

}  // namespace

std::string Deliveries::Begin(bool known) {
  const bool forgotten = known_ && !known && !power_lost_;
  known_ = known;
  // Then it is told everything, and nothing of what came and went.
  if (!known) keys_.clear();
  return forgotten ? "the name of the handler was forgotten" : "";
}

std::string Deliveries::Hear(const Object& object, const Object* old) {
  const std::string key = object.key().ToString();
  const std::string state = StateOf(object);
  Heard& heard = keys_[key];
  std::string wrong;
  const std::string from = old == nullptr ? std::string() : StateOf(*old);
  if (heard.fresh ? from != heard.state : heard.may_be_known.count(from) == 0) {
    wrong = fmt::format(
        "the handler heard of {} from [{}] to {}, and knew [{}]", key, from, state,
        heard.fresh ? heard.state : fmt::format("{}", fmt::join(heard.may_be_known, " or ")));
  }
  if (!restored_ && VersionOf(object) < heard.version) {
    wrong = fmt::format("the handler heard of {} at {} after {}", key, state, heard.version);
  }
  if (!restored_ && heard.ends.count(state) != 0) {
    wrong = fmt::format("the handler heard of {} at {} after its end", key, state);
  }
  if (known_ && !restored_ && heard.acknowledged && !heard.fresh && heard.state == state) {
    wrong = fmt::format("{} at {} was acknowledged and came again", key, state);
  }
  heard.state = state;
  heard.ever.insert(state);
  heard.may_be_known.insert(state);
  heard.version = std::max(heard.version, VersionOf(object));
  heard.acknowledged = heard.unknown = false;
  heard.fresh = true;
  return wrong;
}

std::string Deliveries::HearDelete(const Object& last) {
  const std::string key = last.key().ToString();
  const std::string state = StateOf(last);
  Heard& heard = keys_[key];
  std::string wrong;
  const bool added_since = heard.fresh && !heard.state.empty();
  const bool again = !heard.acknowledged && !added_since && heard.ends.count(state) != 0;
  if (!restored_ && VersionOf(last) < heard.version && !again) {
    wrong =
        fmt::format("the handler heard of the end of {} at {} after {}", key, state, heard.version);
  }
  if (known_ && !restored_ && heard.acknowledged && !heard.fresh && heard.state.empty() &&
      heard.gone == last.uid()) {
    wrong = fmt::format("the end of {} was acknowledged and came again", key);
  }
  heard.state.clear();
  heard.may_be_known.insert("");
  heard.gone = last.uid();
  heard.ends.insert(state);
  heard.version = std::max(heard.version, VersionOf(last));
  heard.acknowledged = heard.unknown = false;
  heard.fresh = true;
  return wrong;
}

std::string Deliveries::Check(const States& stored, const std::set<std::string>& rows) {
  // What was heard and is lost is told again, or never was.
  if (std::exchange(power_lost_, false) && known_) {
    for (auto& [key, heard] : keys_) {
      std::set<std::string> ever = std::move(heard.ever);
      heard = {};
      heard.ever = std::move(ever);
    }
    for (const auto& [key, state] : stored) {
      keys_[key].state = state;
      keys_[key].may_be_known = {state};
    }
    for (const std::string& key : rows) {
      keys_[key].unknown = true;
      keys_[key].may_be_known = keys_[key].ever;
    }
  }
  if (!known_) return {};
  for (const auto& [key, state] : stored) {
    if (rows.count(key) == 0 && !keys_[key].unknown && keys_[key].state != state) {
      return fmt::format("the handler heard of {} at {}, it is at {}, and nothing is pending", key,
                         keys_[key].state, state);
    }
  }
  for (const auto& [key, heard] : keys_) {
    const bool pending = rows.count(key) != 0 || heard.unknown;
    if (!pending && stored.count(key) == 0 && !heard.state.empty()) {
      return fmt::format("the handler will not hear that {} is gone", key);
    }
  }
  return {};
}

void Deliveries::Acknowledged(const std::set<std::string>& rows) {
  for (auto& [key, heard] : keys_) {
    if (!heard.fresh) continue;
    heard.acknowledged = rows.count(key) == 0;
    heard.may_be_known = {heard.state};
  }
}

void Deliveries::Crash(bool power) {
  for (auto& [key, heard] : keys_) heard.fresh = false;
  if (!power) return;
  power_lost_ = true;
  for (auto& [key, heard] : keys_) heard.acknowledged = false;
}

}  // namespace larder::simulation
