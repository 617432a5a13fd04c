#include "tuning/results.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace larder::tuning {
namespace {

Json ToJson(const ResultsHeader& header) {
  return {{"larder_tune", 1},
          {"workload", header.workload},
          {"fingerprint", header.fingerprint},
          {"current", header.current},
          {"memory_limit", header.memory_limit},
          {"disk_budget", header.disk_budget},
          {"rounds", header.rounds},
          {"version", header.version}};
}

Result<ResultsHeader> HeaderFromJson(const Json& json, const std::string& path) {
  ResultsHeader header;
  try {
    header.workload = json.at("workload").get<std::string>();
    header.fingerprint = json.at("fingerprint").get<std::string>();
    header.current = json.at("current").get<std::string>();
    header.memory_limit = json.at("memory_limit").get<uint64_t>();
    header.disk_budget = json.at("disk_budget").get<uint64_t>();
    header.rounds = json.value("rounds", std::string());
    header.version = json.at("version").get<std::string>();
  } catch (const Json::exception&) {
    return MakeError(ErrorCode::kInvalidArgument, "{} holds no results of larder tune", path);
  }
  return header;
}

Result<void> CheckSame(const ResultsHeader& there, const ResultsHeader& now,
                       const std::string& path) {
  const auto differs = [&](const char* what, const auto& a, const auto& b) {
    return MakeError(
        ErrorCode::kInvalidArgument,
        "{} holds results for another {} ({}, now {}); give another --results file, or "
        "remove this one",
        path, what, a, b);
  };
  if (there.fingerprint != now.fingerprint) {
    return differs("workload, or for a store that has changed since",
                   there.workload + " " + there.fingerprint, now.workload + " " + now.fingerprint);
  }
  if (there.current != now.current) return differs("choice of current options", "", "");
  if (there.memory_limit != now.memory_limit) {
    return differs("memory limit", there.memory_limit, now.memory_limit);
  }
  if (there.disk_budget != now.disk_budget) {
    return differs("disk budget", there.disk_budget, now.disk_budget);
  }
  if (there.rounds != now.rounds) return differs("choice of rounds", there.rounds, now.rounds);
  if (there.version != now.version) return differs("version", there.version, now.version);
  return {};
}

}  // namespace

Results::~Results() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> Results::Read(const std::string& path, bool& found) {
  std::ifstream file(path, std::ios::binary);
  found = false;
  if (!file) return {};
  std::string line;
  size_t number = 0;
  while (std::getline(file, line)) {
    ++number;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
      // The last line may have been cut off by a crash; then that run is done again.
      if (number > 1 && file.peek() == std::ifstream::traits_type::eof()) break;
      if (number == 1) {
        return MakeError(ErrorCode::kInvalidArgument, "{} holds no results of larder tune", path);
      }
      return MakeError(ErrorCode::kCorruption, "{} line {} is no JSON", path, number);
    }
    if (number == 1) {
      LARDER_ASSIGN_OR_RETURN(header_, HeaderFromJson(json, path));
      found = true;
      continue;
    }
    RunKey key;
    RunResult result;
    try {
      key.candidate = json.at("candidate").get<std::string>();
      key.round = json.at("round").get<unsigned>();
      key.repeat = json.at("repeat").get<unsigned>();
      result.engine = json.at("options").get<std::string>();
      result.failure = json.value("failure", std::string());
      if (json.contains("measures")) {
        LARDER_ASSIGN_OR_RETURN(result.measures, MeasuresFromJson(json.at("measures")));
      }
    } catch (const Json::exception&) {
      return MakeError(ErrorCode::kCorruption, "{} line {} is no result", path, number);
    }
    results_[key] = std::move(result);
  }
  return {};
}

Result<std::unique_ptr<Results>> Results::Load(const std::string& path) {
  std::unique_ptr<Results> results(new Results());
  bool found = false;
  LARDER_RETURN_IF_ERROR(results->Read(path, found));
  if (!found) return MakeError(ErrorCode::kNotFound, "there are no results in {}", path);
  return results;
}

Result<std::unique_ptr<Results>> Results::Open(const std::string& path,
                                               const ResultsHeader& header) {
  std::unique_ptr<Results> results(new Results());
  if (path.empty()) {
    results->header_ = header;
    return results;
  }
  bool found = false;
  LARDER_RETURN_IF_ERROR(results->Read(path, found));
  if (found) LARDER_RETURN_IF_ERROR(CheckSame(results->header_, header, path));
  results->header_ = header;
  results->resumed_ = results->results_.size();
  results->path_ = path;
  // Written anew: without a line that was cut off.
  const std::string part = path + ".new";
  results->fd_ = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (results->fd_ < 0) {
    return MakeError(ErrorCode::kIo, "cannot write {}: {}", part, std::strerror(errno));
  }
  const auto known = std::move(results->results_);
  results->results_.clear();
  const std::string line = ToJson(header).dump() + "\n";
  if (::write(results->fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return MakeError(ErrorCode::kNoSpace, "cannot write {}: {}", part, std::strerror(errno));
  }
  for (const auto& [key, result] : known) LARDER_RETURN_IF_ERROR(results->Add(key, result));
  if (::rename(part.c_str(), path.c_str()) != 0) {
    return MakeError(ErrorCode::kIo, "cannot write {}: {}", path, std::strerror(errno));
  }
  return results;
}

const RunResult* Results::Find(const RunKey& key) const {
  const auto found = results_.find(key);
  return found == results_.end() ? nullptr : &found->second;
}

Result<void> Results::Add(const RunKey& key, const RunResult& result) {
  results_[key] = result;
  if (fd_ < 0) return {};
  Json json = {{"candidate", key.candidate},
               {"round", key.round},
               {"repeat", key.repeat},
               {"options", result.engine}};
  if (result.measures) json["measures"] = larder::tuning::ToJson(*result.measures);
  if (!result.failure.empty()) json["failure"] = result.failure;
  const std::string line = json.dump() + "\n";
  if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      ::fsync(fd_) != 0) {
    return MakeError(errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
                     "cannot write the results {}: {}", path_, std::strerror(errno));
  }
  return {};
}

}  // namespace larder::tuning
