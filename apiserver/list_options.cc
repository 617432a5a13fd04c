#include "apiserver/list_options.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/base64.h"

namespace larder::apiserver {
namespace {

template <typename T>
ApiResult<std::optional<T>> NumberParameter(const QueryParameters& query, const std::string& name) {
  const std::string text = Parameter(query, name);
  if (text.empty()) return std::optional<T>();
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return tl::unexpected(
        BadRequestStatus(fmt::format("strconv.ParseInt: parsing \"{}\": invalid syntax", text)));
  }
  return std::optional<T>(value);
}

FieldError Forbidden(std::string field, std::string_view why) {
  return {"FieldValueForbidden", std::move(field), fmt::format("Forbidden: {}", why)};
}

FieldError MatchNotSupported(const std::string& value, std::string_view supported) {
  return {"FieldValueNotSupported", "resourceVersionMatch",
          fmt::format("Unsupported value: \"{}\": supported values: {}", value, supported)};
}

// The rules for LIST.
std::vector<FieldError> ValidateList(const ListOptions& options, const std::string& match) {
  std::vector<FieldError> errors;
  if (!match.empty()) {
    if (options.resource_version.empty()) {
      errors.push_back(
          Forbidden("resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if (!options.continue_token.empty()) {
      errors.push_back(Forbidden("resourceVersionMatch",
                                 "resourceVersionMatch is forbidden when continue is provided"));
    }
    if (match != "Exact" && match != "NotOlderThan") {
      errors.push_back(MatchNotSupported(match, R"("Exact", "NotOlderThan", "")"));
    }
    if (match == "Exact" && options.resource_version == "0") {
      errors.push_back(
          Forbidden("resourceVersionMatch",
                    R"(resourceVersionMatch "exact" is forbidden for resourceVersion "0")"));
    }
  }
  if (options.send_initial_events) {
    errors.push_back(Forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
  }
  return errors;
}

// The rules for WATCH.
std::vector<FieldError> ValidateWatch(const ListOptions& options, const std::string& match) {
  std::vector<FieldError> errors;
  if (options.send_initial_events && match != "NotOlderThan") {
    errors.push_back(
        Forbidden("resourceVersionMatch",
                  "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
  }
  if (!match.empty()) {
    if (!options.send_initial_events) {
      errors.push_back(
          Forbidden("resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
                    "provided"));
    }
    if (match != "NotOlderThan") errors.push_back(MatchNotSupported(match, R"("NotOlderThan")"));
    if (!options.continue_token.empty()) {
      errors.push_back(Forbidden("resourceVersionMatch",
                                 "resourceVersionMatch is forbidden when continue is provided"));
    }
  }
  return errors;
}

ApiResult<void> ParseVersion(ListOptions& options) {
  const std::string& text = options.resource_version;
  if (text.empty() || text == "0") return {};
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    ApiStatus malformed = MalformedVersionStatus(text);
    if (options.watch) return tl::unexpected(std::move(malformed));
    return tl::unexpected(BadRequestStatus("invalid resource version: " + malformed.message));
  }
  options.version = value;
  return {};
}

ApiResult<void> CheckSelectable(const ResourceInfo& info, const std::string& path) {
  if (path == "metadata.name" || path == "metadata.namespace") return {};
  for (const SelectableField& field : info.fields) {
    if (field.name == path) return {};
  }
  if (info.fields.empty()) {
    return tl::unexpected(BadRequestStatus(
        fmt::format("\"{}\" is not a known field selector: only \"metadata.name\", "
                    "\"metadata.namespace\"",
                    path)));
  }
  return tl::unexpected(BadRequestStatus(fmt::format("field label not supported: {}", path)));
}

}  // namespace

ApiStatus MalformedVersionStatus(const std::string& text) {
  return PlainErrorStatus(
      fmt::format("resourceVersion: Invalid value: \"{}\": strconv.ParseUint: parsing \"{}\": "
                  "invalid syntax",
                  text, text));
}

std::string Parameter(const QueryParameters& query, const std::string& name) {
  const auto found = query.find(name);
  return found == query.end() ? std::string() : found->second;
}

bool FlagParameter(const QueryParameters& query, const std::string& name) {
  const auto found = query.find(name);
  return found != query.end() && found->second != "0" && found->second != "false" &&
         found->second != "False";
}

ApiResult<ObjectFilter> ObjectFilter::Parse(const QueryParameters& query,
                                            const ResourceInfo& info) {
  ObjectFilter out;
  Result<LabelSelector> labels = LabelSelector::Parse(Parameter(query, "labelSelector"));
  if (!labels) {
    return tl::unexpected(
        BadRequestStatus("unable to parse requirement: " + labels.error().message));
  }
  out.labels_ = *std::move(labels);
  Result<FieldSelector> fields = FieldSelector::Parse(Parameter(query, "fieldSelector"));
  if (!fields) return tl::unexpected(BadRequestStatus(fields.error().message));
  for (const FieldSelector::Requirement& requirement : fields->requirements()) {
    ApiResult<void> selectable = CheckSelectable(info, requirement.path.text());
    if (!selectable) return tl::unexpected(std::move(selectable).error());
  }
  out.fields_ = fields->For(info.resource);
  if (query.contains("shardSelector")) {
    Result<ShardSelector> shard = ShardSelector::Parse(Parameter(query, "shardSelector"));
    if (!shard) {
      return tl::unexpected(PlainErrorStatus("invalid shard selector: " + shard.error().message));
    }
    out.shard_ = *std::move(shard);
  }
  return out;
}

bool ObjectFilter::Matches(const StoredObject& object) const {
  if (Empty()) return true;
  return Matches(object, object.body.Render(""));
}

bool ObjectFilter::Matches(const StoredObject& object, const StoredBody::Rendered& rendered) const {
  if (shard_ && !shard_->Matches(object.Namespace(), object.identity->uid)) return false;
  if (labels_.Empty() && fields_.Empty()) return true;
  const Result<ObjectPtr> parsed = Object::Parse(rendered.text);
  return parsed && labels_.Matches(**parsed) && fields_.Matches(**parsed);
}

ApiResult<ListOptions> ListOptions::Parse(const QueryParameters& query, const ResourceInfo& info) {
  ListOptions out;
  out.watch = FlagParameter(query, "watch");
  out.bookmarks = FlagParameter(query, "allowWatchBookmarks");
  if (query.contains("sendInitialEvents")) {
    out.send_initial_events = FlagParameter(query, "sendInitialEvents");
  }
  out.resource_version = Parameter(query, "resourceVersion");
  out.continue_token = Parameter(query, "continue");
  auto limit = NumberParameter<int64_t>(query, "limit");
  if (!limit) return tl::unexpected(std::move(limit).error());
  out.limit = static_cast<size_t>(std::max<int64_t>(limit->value_or(0), 0));
  auto timeout = NumberParameter<int64_t>(query, "timeoutSeconds");
  if (!timeout) return tl::unexpected(std::move(timeout).error());
  out.timeout_seconds = *timeout;

  std::string match = Parameter(query, "resourceVersionMatch");
  const bool legacy = out.resource_version.empty() || out.resource_version == "0";
  if (out.watch && legacy && !out.send_initial_events && match.empty()) {
    // The old way to say the same: a watch from nothing starts with everything.
    out.send_initial_events = true;
    match = "NotOlderThan";
  }
  const std::vector<FieldError> errors =
      out.watch ? ValidateWatch(out, match) : ValidateList(out, match);
  if (!errors.empty()) {
    return tl::unexpected(InvalidStatus("meta.k8s.io", "ListOptions", "", errors));
  }
  if (match == "Exact") out.match = VersionMatch::kExact;
  if (match == "NotOlderThan") out.match = VersionMatch::kNotOlderThan;
  if (auto parsed = ParseVersion(out); !parsed) return tl::unexpected(std::move(parsed).error());
  auto filter = ObjectFilter::Parse(query, info);
  if (!filter) return tl::unexpected(std::move(filter).error());
  out.filter = *std::move(filter);
  return out;
}

std::string ContinueToken::Encode() const {
  Json json = {{"v", "meta.k8s.io/v1"}, {"rv", version}, {"start", start}};
  if (remaining) json["remaining"] = *remaining;
  return Base64UrlEncode(json.dump());
}

ApiResult<ContinueToken> ContinueToken::Decode(const std::string& text) {
  const auto invalid = [](std::string_view why) {
    return tl::unexpected(BadRequestStatus(
        fmt::format("invalid continue token: continue key is not valid: {}", why)));
  };
  const std::optional<std::string> decoded = Base64UrlDecode(text);
  if (!decoded) return invalid("illegal base64 data");
  const Json json = Json::parse(*decoded, nullptr, false);
  if (!json.is_object()) return invalid("not a JSON object");
  if (json.value("v", "") != "meta.k8s.io/v1") {
    return invalid("server does not recognize this encoded version");
  }
  ContinueToken out;
  if (!json.contains("rv") || !json["rv"].is_number_integer() || json["rv"] == 0) {
    return invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
  }
  out.version = json["rv"].get<int64_t>();
  if (json.contains("start") && json["start"].is_string()) {
    out.start = json["start"].get<std::string>();
  }
  if (out.start.empty()) return invalid("encoded start key empty (version meta.k8s.io/v1)");
  if (json.contains("remaining") && json["remaining"].is_number_integer()) {
    out.remaining = json["remaining"].get<int64_t>();
  }
  return out;
}

}  // namespace larder::apiserver
