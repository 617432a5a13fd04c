// POST, PUT, PATCH and DELETE.
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/api_handler.h"
#include "apiserver/list_body.h"
#include "apiserver/list_options.h"
#include "apiserver/list_reader.h"
#include "apiserver/patch.h"

namespace larder::apiserver {
namespace {

ApiResult<Json> ParseBody(const httplib::Request& request) {
  Json json = Json::parse(request.body, nullptr, false);
  if (json.is_discarded()) {
    return tl::unexpected(
        BadRequestStatus("the object provided is unrecognized: the body is not valid JSON"));
  }
  return json;
}

// The object in the body of a create or an update.
ApiResult<Json> ParseObject(const httplib::Request& request) {
  const std::string type = request.get_header_value("Content-Type");
  if (!type.empty() && !type.starts_with("application/json")) {
    return tl::unexpected(UnsupportedMediaTypeStatus(
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"));
  }
  ApiResult<Json> json = ParseBody(request);
  if (json && !json->is_object()) {
    return tl::unexpected(BadRequestStatus("the body is not a JSON object"));
  }
  return json;
}

// `kind` is CreateOptions, UpdateOptions, PatchOptions or DeleteOptions.
ApiStatus InvalidOption(const char* kind, FieldError error) {
  return InvalidStatus("meta.k8s.io", kind, "", {std::move(error)});
}

ApiResult<bool> DryRunOf(const httplib::Request& request, const char* kind) {
  const std::string given = Parameter(request.params, "dryRun");
  if (given.empty() || given == "All") return !given.empty();
  return tl::unexpected(InvalidOption(
      kind, {"FieldValueNotSupported", "dryRun",
             fmt::format("Unsupported value: [\"{}\"]: supported values: \"All\"", given)}));
}

ApiResult<WriteOptions> OptionsOf(const httplib::Request& request, const std::string& subresource,
                                  const char* kind) {
  WriteOptions out;
  out.manager = Parameter(request.params, "fieldManager");
  if (out.manager.empty()) {
    // As the real server: the first part of the client's name.
    const std::string agent = request.get_header_value("User-Agent");
    out.manager = agent.substr(0, agent.find('/'));
  }
  if (out.manager.empty()) out.manager = "unknown";
  out.subresource = subresource;
  out.force = FlagParameter(request.params, "force");
  ApiResult<bool> dry_run = DryRunOf(request, kind);
  if (!dry_run) return tl::unexpected(std::move(dry_run).error());
  out.dry_run = *dry_run;
  return out;
}

ApiResult<DeleteOptions> DeleteOptionsOf(const httplib::Request& request) {
  DeleteOptions out;
  ApiResult<bool> asked = DryRunOf(request, "DeleteOptions");
  if (!asked) return tl::unexpected(std::move(asked).error());
  out.dry_run = *asked;
  if (request.body.empty()) return out;
  ApiResult<Json> body = ParseBody(request);
  if (!body) return tl::unexpected(std::move(body).error());
  if (!body->is_object()) return tl::unexpected(BadRequestStatus("DeleteOptions is not an object"));
  const Json preconditions = body->value("preconditions", Json::object());
  if (preconditions.is_object()) {
    out.uid = preconditions.value("uid", "");
    out.resource_version = preconditions.value("resourceVersion", "");
  }
  const std::string policy = body->value("propagationPolicy", "Background");
  if (policy != "Background" && policy != "Foreground" && policy != "Orphan") {
    return tl::unexpected(
        InvalidOption("DeleteOptions",
                      {"FieldValueNotSupported", "propagationPolicy",
                       fmt::format("Unsupported value: \"{}\": supported values: \"Foreground\", "
                                   "\"Background\", \"Orphan\", \"nil\"",
                                   policy)}));
  }
  const Json dry_run = body->value("dryRun", Json::array());
  if (dry_run.is_array() && !dry_run.empty()) out.dry_run = true;
  return out;
}

}  // namespace

ApiResult<void> ApiHandler::Create(Call& call) {
  ApiResult<Json> object = ParseObject(call.request);
  if (!object) return tl::unexpected(std::move(object).error());
  ApiResult<WriteOptions> options = OptionsOf(call.request, "", "CreateOptions");
  if (!options) return tl::unexpected(std::move(options).error());
  ApiResult<Written> written =
      parts_.writer.Create(*call.target.info, call.target.ns, *std::move(object), *options);
  if (!written) return tl::unexpected(std::move(written).error());
  return AnswerObject(call, written->object, 201);
}

ApiResult<void> ApiHandler::Update(Call& call) {
  const Target& target = call.target;
  if (target.name.empty()) return tl::unexpected(MethodNotAllowedStatus());
  ApiResult<Json> object = ParseObject(call.request);
  if (!object) return tl::unexpected(std::move(object).error());
  ApiResult<WriteOptions> options = OptionsOf(call.request, target.subresource, "UpdateOptions");
  if (!options) return tl::unexpected(std::move(options).error());
  ApiResult<Written> written =
      parts_.writer.Update(*target.info, target.ns, target.name, *std::move(object), *options);
  if (!written) return tl::unexpected(std::move(written).error());
  if (target.subresource == "scale") {
    AnswerJson(200, ScaleJson(*written->object), call.response);
    return {};
  }
  return AnswerObject(call, written->object, written->created ? 201 : 200);
}

ApiResult<void> ApiHandler::Patch(Call& call) {
  const Target& target = call.target;
  if (target.name.empty()) return tl::unexpected(MethodNotAllowedStatus());
  const std::optional<PatchType> type = PatchTypeOf(call.request.get_header_value("Content-Type"));
  if (!type || (target.info->custom && type == PatchType::kStrategic)) {
    return tl::unexpected(UnsupportedMediaTypeStatus(
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"));
  }
  if (type == PatchType::kApply && Parameter(call.request.params, "fieldManager").empty()) {
    return tl::unexpected(InvalidOption(
        "PatchOptions",
        {"FieldValueRequired", "fieldManager", "Required value: is required for apply patch"}));
  }
  if (type != PatchType::kApply && call.request.has_param("force")) {
    return tl::unexpected(InvalidOption(
        "PatchOptions",
        {"FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch"}));
  }
  ApiResult<Json> patch = ParseBody(call.request);
  if (!patch) return tl::unexpected(std::move(patch).error());
  ApiResult<WriteOptions> options = OptionsOf(call.request, target.subresource, "PatchOptions");
  if (!options) return tl::unexpected(std::move(options).error());
  ApiResult<Written> written =
      parts_.writer.Patch(*target.info, target.ns, target.name, *type, *patch, *options);
  if (!written) return tl::unexpected(std::move(written).error());
  if (target.subresource == "scale") {
    AnswerJson(200, ScaleJson(*written->object), call.response);
    return {};
  }
  return AnswerObject(call, written->object, written->created ? 201 : 200);
}

ApiResult<void> ApiHandler::Delete(Call& call) {
  const Target& target = call.target;
  if (!target.subresource.empty()) return tl::unexpected(MethodNotAllowedStatus());
  ApiResult<DeleteOptions> options = DeleteOptionsOf(call.request);
  if (!options) return tl::unexpected(std::move(options).error());
  ApiResult<Deleted> deleted = parts_.writer.Delete(*target.info, target.ns, target.name, *options);
  if (!deleted) return tl::unexpected(std::move(deleted).error());
  const bool whole = !deleted->gone || target.info->returns_deleted ||
                     target.info->resource.resource == "namespaces";
  if (whole) return AnswerObject(call, deleted->object, 200);
  AnswerJson(200, SuccessJson(*target.info, target.name, deleted->object->identity->uid),
             call.response);
  return {};
}

ApiResult<void> ApiHandler::DeleteCollection(Call& call) {
  const Target& target = call.target;
  ApiResult<ListOptions> options = ListOptions::Parse(call.request.params, *target.info);
  if (!options) return tl::unexpected(std::move(options).error());
  ApiResult<DeleteOptions> delete_options = DeleteOptionsOf(call.request);
  if (!delete_options) return tl::unexpected(std::move(delete_options).error());
  ApiResult<ListPage> page =
      ReadPage(parts_.state, *target.table, target.ns, *options, settings_.version_patience, stop_);
  if (!page) return tl::unexpected(std::move(page).error());
  for (const StoredPtr& object : page->objects) {
    // An object that went away by itself is as good as deleted.
    (void)parts_.writer.Delete(*target.info, target.ns, std::string(object->Name()),
                               *delete_options);
  }
  ListBody body(*target.info, MediaType{}, {page->meta, ""}, std::move(page->objects));
  std::string text;
  while (body.Fill(text, std::string::npos)) continue;
  AnswerJson(200, text, call.response);
  return {};
}

}  // namespace larder::apiserver
