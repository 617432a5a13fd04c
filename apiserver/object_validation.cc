#include "apiserver/object_validation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "schema/json_text.h"

namespace larder::apiserver {
namespace {

bool IsLower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool IsAlphanumeric(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }

// A DNS-1123 subdomain, what most kinds ask of a name.
bool ValidName(std::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  bool start = true;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '.') {
      if (start || !IsLower(name[i - 1])) return false;
      start = true;
    } else {
      if (!IsLower(c) && (c != '-' || start)) return false;
      start = false;
    }
  }
  return IsLower(name.back());
}

// What a label's value and the name part of its key are made of.
bool ValidLabelPart(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  return IsAlphanumeric(text.front()) && IsAlphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool ValidLabelKey(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return ValidLabelPart(key);
  return ValidName(key.substr(0, slash)) && ValidLabelPart(key.substr(slash + 1));
}

tl::unexpected<ApiStatus> Invalid(const ResourceInfo& info, const std::string& name,
                                  FieldError error) {
  return tl::unexpected(
      InvalidStatus(info.resource.group, info.resource.kind, name, {std::move(error)}));
}

}  // namespace

ApiResult<void> ValidateNew(const ResourceInfo& info, const std::string& name) {
  if (name.empty()) {
    return Invalid(info, name,
                   {"FieldValueRequired", "metadata.name",
                    "Required value: name or generateName is required"});
  }
  if (ValidName(name)) return {};
  return Invalid(
      info, name,
      {"FieldValueInvalid", "metadata.name",
       fmt::format("Invalid value: \"{}\": a lowercase RFC 1123 subdomain must consist of lower "
                   "case alphanumeric characters, '-' or '.', and must start and end with an "
                   "alphanumeric character",
                   name)});
}

ApiResult<void> ValidateLabels(const ResourceInfo& info, const std::string& name,
                               const Json& metadata) {
  const Json labels = metadata.value("labels", Json::object());
  if (!labels.is_object()) return {};
  for (const auto& [key, value] : labels.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : std::string();
    const bool bad_key = !ValidLabelKey(key);
    if (!bad_key && (text.empty() || ValidLabelPart(text))) continue;
    return Invalid(
        info, name,
        {"FieldValueInvalid", "metadata.labels",
         fmt::format("Invalid value: \"{}\": {} must consist of alphanumeric characters, '-', '_' "
                     "or '.', and must start and end with an alphanumeric character",
                     bad_key ? key : text, bad_key ? "name part" : "a valid label")});
  }
  return {};
}

ApiResult<void> ValidateType(const ResourceInfo& info, const Json& object) {
  const std::string kind = TextAt(object, "kind");
  const std::string api_version = TextAt(object, "apiVersion");
  if (info.custom && kind.empty()) {
    return tl::unexpected(BadRequestStatus(fmt::format(
        "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing",
        info.resource.kind)));
  }
  if (!kind.empty() && kind != info.resource.kind) {
    if (info.custom) {
      return tl::unexpected(InvalidStatus(
          info.resource.group, kind, TextAt(object.value("metadata", Json::object()), "name"),
          {{"FieldValueInvalid", "kind",
            fmt::format("Invalid value: \"{}\": must be {}", kind, info.resource.kind)}}));
    }
    return tl::unexpected(BadRequestStatus(
        fmt::format("{} in version \"{}\" cannot be handled as a {}: unknown conversion", kind,
                    api_version, info.resource.kind)));
  }
  if (!api_version.empty() && api_version != info.resource.ApiVersion()) {
    return tl::unexpected(BadRequestStatus(fmt::format(
        "{} in version \"{}\" cannot be handled as a {}: no kind \"{}\" is registered for version "
        "\"{}\"",
        info.resource.kind, api_version, info.resource.kind, info.resource.kind, api_version)));
  }
  return {};
}

ApiResult<void> ValidatePatched(const ResourceInfo& info, const std::string& name,
                                const Json& before, const Json& after) {
  const Json metadata = after.value("metadata", Json::object());
  if (!metadata.is_object()) return {};
  if (TextAt(metadata, "name") != name) {
    return tl::unexpected(BadRequestStatus(
        fmt::format("the name of the object ({}) does not match the name on the URL ({})",
                    TextAt(metadata, "name"), name)));
  }
  const std::string uid = TextAt(metadata, "uid");
  if (uid == TextAt(before["metadata"], "uid")) return {};
  return Invalid(info, name,
                 {"FieldValueInvalid", "metadata.uid",
                  fmt::format("Invalid value: \"{}\": field is immutable", uid)});
}

ApiResult<void> ValidateApplied(const ResourceInfo& info, const std::string& name,
                                const Json& applied) {
  if (!applied.is_object()) return tl::unexpected(BadRequestStatus("the patch is not an object"));
  if (TextAt(applied, "kind").empty() || TextAt(applied, "apiVersion").empty()) {
    return tl::unexpected(BadRequestStatus(
        fmt::format("invalid object type: {}, Kind={}",
                    TextAt(applied, "apiVersion").empty() ? "/" : info.resource.ApiVersion(),
                    TextAt(applied, "kind"))));
  }
  const Json metadata = applied.value("metadata", Json::object());
  const std::string given = TextAt(metadata, "name");
  if (!given.empty() && given != name) {
    return tl::unexpected(BadRequestStatus(fmt::format(
        "the name of the object ({}) does not match the name on the URL ({})", given, name)));
  }
  const Json managed = metadata.value("managedFields", Json());
  if (managed.is_array() && !managed.empty()) {
    return tl::unexpected(BadRequestStatus("metadata.managedFields must be nil"));
  }
  return {};
}

}  // namespace larder::apiserver
