#include "apiserver/object_writer.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/object_validation.h"
#include "base/base64.h"
#include "schema/json_text.h"

namespace larder::apiserver {
namespace {

// What a change of the spec is: everything but metadata and status.
bool SpecDiffers(const Json& a, const Json& b) {
  const auto rest = [](const Json& object) {
    Json out = object;
    for (const char* key : {"metadata", "status", "kind", "apiVersion"}) out.erase(key);
    return out;
  };
  return rest(a) != rest(b);
}

void SetOrErase(Json& target, const char* key, const Json& source) {
  if (source.contains(key)) {
    target[key] = source[key];
  } else {
    target.erase(key);
  }
}

// A secret's stringData is a way to write its data, and is never stored.
void TakeStringData(Json& secret) {
  const Json text = secret.value("stringData", Json::object());
  secret.erase("stringData");
  for (const auto& [key, value] : text.items()) {
    if (value.is_string()) secret["data"][key] = EncodeBase64(value.get<std::string>());
  }
}

// Metadata in the order in which the real server prints it.
Json OrderMetadata(const Json& metadata) {
  static const char* const kOrder[] = {"name",
                                       "generateName",
                                       "namespace",
                                       "selfLink",
                                       "uid",
                                       "resourceVersion",
                                       "generation",
                                       "creationTimestamp",
                                       "deletionTimestamp",
                                       "deletionGracePeriodSeconds",
                                       "labels",
                                       "annotations",
                                       "ownerReferences",
                                       "finalizers",
                                       "managedFields"};
  Json out = Json::object();
  for (const char* key : kOrder) {
    if (metadata.contains(key) && !metadata[key].is_null()) out[key] = metadata[key];
  }
  return out;
}

bool HasFinalizers(const Json& object) {
  const Json finalizers = object["metadata"].value("finalizers", Json::array());
  return finalizers.is_array() && !finalizers.empty();
}

bool IsDeleting(const Json& object) { return object["metadata"].contains("deletionTimestamp"); }

}  // namespace

ObjectWriter::ObjectWriter(State& state, ResourceRegistry& registry, Clock& clock, uint64_t seed)
    : state_(state), registry_(registry), clock_(clock), random_(seed) {}

Json ObjectWriter::Read(const StoredObject& object) {
  return Json::parse(object.Render().text, nullptr, false);
}

std::string ObjectWriter::KeyOf(const std::string& ns, std::string_view name) {
  return ns.empty() ? std::string(name) : fmt::format("{}/{}", ns, name);
}

std::string ObjectWriter::NewUid() {
  MutexLock lock(random_mutex_);
  const uint64_t high = (random_() & 0xffffffffffff0fffULL) | 0x4000;
  const uint64_t low = (random_() & 0x3fffffffffffffffULL) | 0x8000000000000000ULL;
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff,
                     high & 0xffff, low >> 48, low & 0xffffffffffffULL);
}

std::string ObjectWriter::RandomSuffix() {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  MutexLock lock(random_mutex_);
  std::string out;
  for (int i = 0; i < 5; ++i) out += kLetters[random_() % kLetters.size()];
  return out;
}

std::string ObjectWriter::Now() const {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(clock_.WallNow())));
}

FieldManager ObjectWriter::ManagerOf(const ResourceInfo& info, const WriteOptions& options) const {
  return {options.manager, info.resource.ApiVersion(),
          options.subresource == "status" ? "status" : "", Now()};
}

ApiResult<void> ObjectWriter::CheckMetadata(const ResourceInfo& info, const std::string& ns,
                                            Json& object) const {
  if (!object.is_object()) return tl::unexpected(BadRequestStatus("the body is not a JSON object"));
  if (auto valid = ValidateType(info, object); !valid) return valid;
  if (!object.contains("metadata")) object["metadata"] = Json::object();
  Json& metadata = object["metadata"];
  if (!metadata.is_object()) return tl::unexpected(BadRequestStatus("metadata is not an object"));
  const std::string given = TextAt(metadata, "namespace");
  if (info.resource.namespaced) {
    if (!given.empty() && given != ns) {
      return tl::unexpected(
          BadRequestStatus("the namespace of the provided object does not match the namespace sent "
                           "on the request"));
    }
    metadata["namespace"] = ns;
  } else {
    metadata.erase("namespace");
  }
  return {};
}

void ObjectWriter::PrepareNew(const ResourceInfo& info, Json& object, const WriteOptions& options) {
  // The object first: a reference to its metadata would not survive what is added or taken away.
  const std::string& resource = info.resource.resource;
  if (info.status && !options.trusted) object.erase("status");
  if (resource == "pods" && !object.contains("status")) {
    object["status"] = {{"phase", "Pending"}, {"qosClass", "BestEffort"}};
  }
  if (resource == "secrets" && !object.contains("type")) object["type"] = "Opaque";
  if (resource == "namespaces") {
    object["spec"]["finalizers"] = Json::array({"kubernetes"});
    object["status"]["phase"] = "Active";
  }
  Json& metadata = object["metadata"];
  if (resource == "namespaces") {
    metadata["labels"]["kubernetes.io/metadata.name"] = TextAt(metadata, "name");
  }
  if (!options.trusted || TextAt(metadata, "uid").empty()) metadata["uid"] = NewUid();
  if (!options.trusted || TextAt(metadata, "creationTimestamp").empty()) {
    metadata["creationTimestamp"] = Now();
  }
  metadata["resourceVersion"] = "";
  for (const char* key : {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}) {
    metadata.erase(key);
  }
  if (info.generation) {
    metadata["generation"] = 1;
  } else {
    metadata.erase("generation");
  }
}

void ObjectWriter::PrepareUpdate(const ResourceInfo& info, const Json& current, Json& updated,
                                 const WriteOptions& options) const {
  // Only a status update may change the status, and it changes nothing else.
  if (options.subresource == "status") {
    Json status = updated.value("status", Json());
    Json managers = updated["metadata"].value("managedFields", Json());
    updated = current;
    if (!managers.is_null()) updated["metadata"]["managedFields"] = std::move(managers);
    if (status.is_null()) {
      updated.erase("status");
    } else {
      updated["status"] = std::move(status);
    }
  } else if (info.status && !options.trusted) {
    SetOrErase(updated, "status", current);
  }
  Json& metadata = updated["metadata"];
  const Json& old = current["metadata"];
  for (const char* key : {"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
                          "deletionGracePeriodSeconds", "generateName", "generation"}) {
    SetOrErase(metadata, key, old);
  }
  if (info.generation && SpecDiffers(current, updated)) {
    metadata["generation"] = old.value("generation", int64_t{0}) + 1;
  }
}

ApiResult<void> ObjectWriter::CheckVersion(const ResourceInfo& info, const StoredObject& current,
                                           const std::string& name, const Json& updated) const {
  const Json& metadata = updated["metadata"];
  const std::string uid = TextAt(metadata, "uid");
  if (!uid.empty() && uid != current.identity->uid) {
    return tl::unexpected(
        ConflictStatus(info, name,
                       fmt::format("Precondition failed: UID in precondition: {}, UID in object "
                                   "meta: {}",
                                   uid, current.identity->uid)));
  }
  const std::string version = TextAt(metadata, "resourceVersion");
  if (version.find_first_not_of("0123456789") != std::string::npos) {
    return tl::unexpected(PlainErrorStatus(
        fmt::format("strconv.ParseUint: parsing \"{}\": invalid syntax", version)));
  }
  if (!version.empty() && version != std::to_string(current.version)) {
    return tl::unexpected(ModifiedStatus(info, name));
  }
  return {};
}

ApiResult<Written> ObjectWriter::Create(const ResourceInfo& info, const std::string& ns,
                                        Json object, const WriteOptions& options) {
  if (auto checked = CheckMetadata(info, ns, object); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  if (!TextAt(object["metadata"], "resourceVersion").empty() && !options.trusted) {
    ApiStatus status;
    status.message = "resourceVersion should not be set on objects to be created";
    return tl::unexpected(std::move(status));
  }
  const std::string prefix = TextAt(object["metadata"], "generateName");
  const bool generate = TextAt(object["metadata"], "name").empty() && !prefix.empty();
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (generate) object["metadata"]["name"] = prefix + RandomSuffix();
    const std::string name = TextAt(object["metadata"], "name");
    auto made = Mutate(info, ns, name, options, /*may_create=*/true, /*tracked=*/true,
                       [&](const Json* current) -> ApiResult<Json> {
                         if (current) return tl::unexpected(AlreadyExistsStatus(info, name));
                         return object;
                       });
    if (made || !generate || made.error().reason != "AlreadyExists") return made;
  }
  return tl::unexpected(AlreadyExistsStatus(info, prefix));
}

ApiResult<Written> ObjectWriter::Update(const ResourceInfo& info, const std::string& ns,
                                        const std::string& name, Json object,
                                        const WriteOptions& options) {
  if (options.subresource == "scale") {
    return Mutate(info, ns, name, options, false, true,
                  [&](const Json* current) { return ScaleChange(*current, object); });
  }
  if (auto checked = CheckMetadata(info, ns, object); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  const std::string given = TextAt(object["metadata"], "name");
  if (given != name) {
    return tl::unexpected(BadRequestStatus(
        given.empty()
            ? fmt::format("the name of the object ({} based on URL) was undeterminable: name must "
                          "be provided",
                          name)
            : fmt::format("the name of the object ({}) does not match the name on the URL "
                          "({})",
                          given, name)));
  }
  return Mutate(info, ns, name, options, info.create_on_update && options.subresource.empty(), true,
                [&](const Json* current) -> ApiResult<Json> {
                  if (current && !info.unconditional_update && !options.trusted &&
                      TextAt(object["metadata"], "resourceVersion").empty()) {
                    return tl::unexpected(
                        InvalidStatus(info.resource.group, info.resource.resource, name,
                                      {{"FieldValueInvalid", "metadata.resourceVersion",
                                        "Invalid value: 0: must be specified for an update"}}));
                  }
                  return object;
                });
}

ApiResult<Written> ObjectWriter::Patch(const ResourceInfo& info, const std::string& ns,
                                       const std::string& name, PatchType type, const Json& patch,
                                       const WriteOptions& options) {
  const bool apply = type == PatchType::kApply;
  return Mutate(info, ns, name, options, apply && options.subresource.empty(), !apply,
                [&](const Json* current) -> ApiResult<Json> {
                  if (options.subresource == "scale") {
                    auto scale = ApplyPatch(type, Json::parse(R"({"spec":{}})"), patch);
                    if (!scale) return scale;
                    return ScaleChange(*current, *scale);
                  }
                  if (!apply) {
                    auto patched = ApplyPatch(type, *current, patch);
                    if (!patched) return patched;
                    if (auto valid = ValidatePatched(info, name, *current, *patched); !valid) {
                      return tl::unexpected(std::move(valid).error());
                    }
                    return patched;
                  }
                  if (auto valid = ValidateApplied(info, name, patch); !valid) {
                    return tl::unexpected(std::move(valid).error());
                  }
                  Json applied = patch;
                  if (auto checked = CheckMetadata(info, ns, applied); !checked) {
                    return tl::unexpected(std::move(checked).error());
                  }
                  applied["metadata"]["name"] = name;
                  applied.erase("kind");
                  applied.erase("apiVersion");
                  return ServerSideApply(current, applied, ManagerOf(info, options), options.force,
                                         !info.custom);
                });
}

ApiResult<Json> ObjectWriter::ScaleChange(const Json& current, const Json& scale) {
  const Json replicas = scale.value("spec", Json::object()).value("replicas", Json(0));
  if (!replicas.is_number_integer() || replicas.get<int64_t>() < 0) {
    return tl::unexpected(InvalidStatus(
        "autoscaling", "Scale", TextAt(current["metadata"], "name"),
        {{"FieldValueInvalid", "spec.replicas",
          fmt::format("Invalid value: {}: should be a non-negative integer", replicas.dump())}}));
  }
  Json out = current;
  out["spec"]["replicas"] = replicas;
  const std::string version = TextAt(scale.value("metadata", Json::object()), "resourceVersion");
  out["metadata"]["resourceVersion"] = version;
  return out;
}

ApiResult<Written> ObjectWriter::Mutate(const ResourceInfo& info, const std::string& ns,
                                        const std::string& name, const WriteOptions& options,
                                        bool may_create, bool tracked, const Change& change) try {
  const TablePtr table = state_.FindTable(info.resource.ToString());
  if (!table) return tl::unexpected(NoSuchPathStatus());
  const std::string key = KeyOf(ns, name);
  while (true) {
    const StoredPtr current = state_.Get(*table, key);
    if (!current && !may_create) return tl::unexpected(NotFoundStatus(info, name));
    Json before;
    if (current) before = Read(*current);
    ApiResult<Json> changed = change(current ? &before : nullptr);
    if (!changed) return tl::unexpected(std::move(changed).error());
    Json& object = *changed;
    if (!object.is_object() || !object.contains("metadata") || !object["metadata"].is_object()) {
      return tl::unexpected(BadRequestStatus("the object would be left without metadata"));
    }
    std::string uid;
    if (current) {
      if (auto checked = CheckVersion(info, *current, name, object); !checked) {
        return tl::unexpected(std::move(checked).error());
      }
      PrepareUpdate(info, before, object, options);
      uid = current->identity->uid;
    } else {
      if (auto valid = ValidateNew(info, name); !valid) {
        return tl::unexpected(std::move(valid).error());
      }
      PrepareNew(info, object, options);
      uid = TextAt(object["metadata"], "uid");
    }
    if (info.resource.resource == "secrets") TakeStringData(object);
    if (auto valid = ValidateLabels(info, name, object["metadata"]); !valid) {
      return tl::unexpected(std::move(valid).error());
    }
    object.erase("kind");
    object.erase("apiVersion");
    if (tracked) {
      TrackUpdate(current ? &before : nullptr, object, ManagerOf(info, options), !info.custom);
    }
    object["metadata"] = OrderMetadata(object["metadata"]);
    object["metadata"]["resourceVersion"] = current ? std::to_string(current->version) : "";
    // A write that changes nothing is not written.
    if (current && object == before) return Written{current, false};

    const PreparedBody body = PrepareBody(object);
    StoredPtr stored;
    if (options.dry_run) {
      auto unstored = std::make_shared<StoredObject>();
      unstored->identity = std::make_shared<Identity>(Identity{key, uid});
      unstored->version = current ? current->version : 0;
      unstored->body = table->codec().Encode(body);
      return Written{unstored, !current};
    }
    const bool finished = current && IsDeleting(object) && !HasFinalizers(object);
    const State::Outcome outcome =
        finished ? state_.Remove(*table, key, current->version, &body, &stored)
                 : state_.Put(*table, key, uid, current ? current->version : State::kAbsent, body,
                              &stored);
    switch (outcome) {
      case State::Outcome::kDone:
        if (finished) {
          AfterRemove(info, *stored);
        } else if (auto after = AfterWrite(info, stored, !current); !after) {
          return tl::unexpected(std::move(after).error());
        }
        return Written{stored, !current};
      case State::Outcome::kNoNamespace: {
        const ResourceInfoPtr namespaces = registry_.Find("", "v1", "namespaces");
        return tl::unexpected(NotFoundStatus(*namespaces, ns));
      }
      case State::Outcome::kNamespaceTerminating:
        return tl::unexpected(ForbiddenStatus(
            info, name,
            fmt::format(
                "unable to create new content in namespace {} because it is being terminated",
                ns)));
      case State::Outcome::kNoTable:
        return tl::unexpected(NoSuchPathStatus());
      case State::Outcome::kMismatch:
        break;  // again; CheckVersion refuses a version that the request itself names
    }
  }
} catch (const Json::exception& failure) {
  // A field of another type than it must have, found in the middle of it.
  return tl::unexpected(
      BadRequestStatus(fmt::format("the object is malformed: {}", failure.what())));
}

std::string ScaleJson(const StoredObject& object) {
  const Json json = ObjectWriter::Read(object);
  const Json& metadata = json["metadata"];
  const Json spec = json.value("spec", Json::object());
  Json out = {{"kind", "Scale"}, {"apiVersion", "autoscaling/v1"}, {"metadata", Json::object()}};
  for (const char* key : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
    if (metadata.contains(key)) out["metadata"][key] = metadata[key];
  }
  out["spec"]["replicas"] = spec.value("replicas", Json(0));
  out["status"]["replicas"] = json.value("status", Json::object()).value("replicas", Json(0));
  std::string selector;
  const Json labels = spec.value("selector", Json::object()).value("matchLabels", Json::object());
  for (const auto& [key, value] : labels.items()) {
    if (!value.is_string()) continue;
    if (!selector.empty()) selector += ",";
    selector += key + "=" + value.get<std::string>();
  }
  if (!selector.empty()) out["status"]["selector"] = selector;
  return out.dump();
}

}  // namespace larder::apiserver
