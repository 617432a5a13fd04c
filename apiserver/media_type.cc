#include "apiserver/media_type.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace larder::apiserver {
namespace {

constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Cuts the text up to the separator off its front.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return Trim(head);
}

bool IsJson(const std::string& type) {
  return type == "application/json" || type == "application/*" || type == "*/*";
}

std::string ParameterOf(const AcceptClause& clause, const std::string& name) {
  const auto found = clause.parameters.find(name);
  return found == clause.parameters.end() ? std::string() : found->second;
}

}  // namespace

std::vector<AcceptClause> ParseAccept(std::string_view header) {
  std::vector<std::pair<double, AcceptClause>> ranked;
  while (!header.empty()) {
    std::string_view rest = TakeUntil(header, ',');
    AcceptClause clause;
    clause.type = TakeUntil(rest, ';');
    double quality = 1.0;
    while (!rest.empty()) {
      std::string_view value = TakeUntil(rest, ';');
      const std::string name(TakeUntil(value, '='));
      if (name == "q") {
        quality = std::atof(std::string(value).c_str());
      } else {
        clause.parameters[name] = Trim(value);
      }
    }
    if (!clause.type.empty()) ranked.emplace_back(quality, std::move(clause));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<AcceptClause> out;
  out.reserve(ranked.size());
  for (auto& [quality, clause] : ranked) out.push_back(std::move(clause));
  return out;
}

std::string MediaType::ContentType(Answer answer) const {
  if (!protobuf) return "application/json";
  return answer == Answer::kWatch ? std::string(kProtobuf) + ";stream=watch"
                                  : std::string(kProtobuf);
}

ApiResult<MediaType> Negotiate(std::string_view accept, Answer answer) {
  const std::vector<AcceptClause> clauses = ParseAccept(accept);
  if (clauses.empty()) return MediaType{};
  const std::string_view partial =
      answer == Answer::kList ? "PartialObjectMetadataList" : "PartialObjectMetadata";
  for (const AcceptClause& clause : clauses) {
    MediaType out;
    out.protobuf = clause.type == kProtobuf;
    if (!out.protobuf && !IsJson(clause.type)) continue;
    const std::string as = ParameterOf(clause, "as");
    if (!as.empty()) {
      if (as != "PartialObjectMetadata" && as != "PartialObjectMetadataList") continue;
      if (ParameterOf(clause, "g") != "meta.k8s.io" || ParameterOf(clause, "v") != "v1") continue;
      if (as != partial) {
        return tl::unexpected(
            NotAcceptableStatus(fmt::format("application/json;as={};g=meta.k8s.io;v=v1", partial)));
      }
      out.partial = true;
    }
    if (out.protobuf && !out.partial) continue;
    return out;
  }
  return tl::unexpected(NotAcceptableStatus("application/json, application/yaml"));
}

bool WantsAggregatedDiscovery(std::string_view accept) {
  for (const AcceptClause& clause : ParseAccept(accept)) {
    if (!IsJson(clause.type)) continue;
    const std::string as = ParameterOf(clause, "as");
    if (as.empty()) return false;
    if (as == "APIGroupDiscoveryList" && ParameterOf(clause, "g") == "apidiscovery.k8s.io" &&
        ParameterOf(clause, "v") == "v2") {
      return true;
    }
  }
  return false;
}

}  // namespace larder::apiserver
