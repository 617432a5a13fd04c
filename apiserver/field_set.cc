#include "apiserver/field_set.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

namespace larder::apiserver {
namespace {

using Leaves = std::map<FieldPathSteps, const Json*>;

// What the server owns in every object, so no manager does.
bool OwnedByServer(const FieldPathSteps& path) {
  static const std::set<std::string> kTop = {"f:apiVersion", "f:kind"};
  static const std::set<std::string> kMetadata = {"f:name",
                                                  "f:namespace",
                                                  "f:uid",
                                                  "f:resourceVersion",
                                                  "f:generation",
                                                  "f:creationTimestamp",
                                                  "f:deletionTimestamp",
                                                  "f:deletionGracePeriodSeconds",
                                                  "f:managedFields",
                                                  "f:selfLink"};
  if (path.size() == 1) return kTop.contains(path[0]);
  return path.size() == 2 && path[0] == "f:metadata" && kMetadata.contains(path[1]);
}

bool IsSet(std::string_view field) { return field == "finalizers"; }

void Collect(const Json& value, std::string_view field, bool merge_lists, FieldPathSteps& path,
             Leaves& out) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, child] : value.items()) {
      path.push_back("f:" + key);
      if (!OwnedByServer(path)) Collect(child, key, merge_lists, path, out);
      path.pop_back();
    }
    return;
  }
  const bool metadata = !path.empty() && path[0] == "f:metadata";
  if (value.is_array() && !value.empty() && (merge_lists || metadata)) {
    const bool keyed = std::all_of(value.begin(), value.end(), [&](const Json& element) {
      return !ElementStep(field, element).empty();
    });
    if (keyed) {
      for (const Json& element : value) {
        path.push_back(ElementStep(field, element));
        Collect(element, field, merge_lists, path, out);
        path.pop_back();
      }
      return;
    }
  }
  if (!path.empty()) out[path] = &value;
}

Json* FindStep(Json& parent, std::string_view field, const std::string& step) {
  if (step.starts_with("f:")) {
    if (!parent.is_object()) return nullptr;
    const auto found = parent.find(step.substr(2));
    return found == parent.end() ? nullptr : &*found;
  }
  if (!parent.is_array()) return nullptr;
  for (Json& element : parent) {
    if (ElementStep(field, element) == step) return &element;
  }
  return nullptr;
}

void EraseStep(Json& parent, std::string_view field, const std::string& step) {
  if (step.starts_with("f:")) {
    parent.erase(step.substr(2));
    return;
  }
  for (auto it = parent.begin(); it != parent.end(); ++it) {
    if (ElementStep(field, *it) == step) {
      parent.erase(it);
      return;
    }
  }
}

// Is the leaf one of the fields that identify the element it is in?
bool IsKeyField(const FieldPathSteps& path) {
  if (path.size() < 2 || !path[path.size() - 2].starts_with("k:")) return false;
  return Json::parse(path[path.size() - 2].substr(2)).contains(path.back().substr(2));
}

void Remove(Json& parent, std::string_view field, std::span<const std::string> steps) {
  if (steps.size() == 1) {
    EraseStep(parent, field, steps[0]);
    return;
  }
  Json* const child = FindStep(parent, field, steps[0]);
  if (!child) return;
  const std::string name = steps[0].starts_with("f:") ? steps[0].substr(2) : std::string(field);
  Remove(*child, name, steps.subspan(1));
  if (child->empty()) EraseStep(parent, field, steps[0]);
}

// Takes out the element that the key field `path` belongs to, if nothing but its key is left of it.
void RemoveBareElement(Json& object, const FieldPathSteps& path) {
  Json* node = &object;
  std::string field;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    node = FindStep(*node, field, path[i]);
    if (!node) return;
    if (path[i].starts_with("f:")) field = path[i].substr(2);
  }
  const Json key = Json::parse(path[path.size() - 2].substr(2));
  for (const auto& [name, value] : node->items()) {
    if (!key.contains(name)) return;
  }
  Remove(object, "", std::span(path).first(path.size() - 1));
}

}  // namespace

std::vector<std::string> MergeKeys(std::string_view field, const Json& element) {
  static const std::map<std::string_view, std::vector<std::string>> kKeys = {
      {"containers", {"name"}},
      {"initContainers", {"name"}},
      {"ephemeralContainers", {"name"}},
      {"volumes", {"name"}},
      {"env", {"name"}},
      {"imagePullSecrets", {"name"}},
      {"secrets", {"name"}},
      {"volumeMounts", {"mountPath"}},
      {"volumeDevices", {"devicePath"}},
      {"conditions", {"type"}},
      {"addresses", {"type"}},
      {"ownerReferences", {"uid"}},
      {"podIPs", {"ip"}},
      {"hostIPs", {"ip"}},
      {"hostAliases", {"ip"}},
      {"taints", {"key", "effect"}}};
  if (field == "ports") {
    // A pod's ports are known by containerPort and protocol, a service's by port and protocol.
    return {element.contains("containerPort") ? "containerPort" : "port", "protocol"};
  }
  const auto found = kKeys.find(field);
  return found == kKeys.end() ? std::vector<std::string>() : found->second;
}

std::string ElementStep(std::string_view field, const Json& element) {
  if (IsSet(field)) return element.is_string() ? "v:" + element.dump() : std::string();
  if (!element.is_object()) return {};
  Json key = Json::object();
  for (const std::string& name : MergeKeys(field, element)) {
    if (element.contains(name)) {
      key[name] = element[name];
    } else if (name == "protocol") {
      key[name] = "TCP";
    } else if (name != "effect") {
      return {};
    }
  }
  return key.empty() ? std::string() : "k:" + key.dump();
}

std::map<FieldPathSteps, const Json*> LeavesOf(const Json& object, bool merge_lists) {
  Leaves out;
  FieldPathSteps path;
  Collect(object, "", merge_lists, path, out);
  return out;
}

Json FieldSetToJson(const FieldSet& fields) {
  Json out = Json::object();
  for (const FieldPathSteps& path : fields) {
    Json* node = &out;
    for (const std::string& step : path) {
      node = &(*node)[step];
      if (node->is_null()) *node = Json::object();
      // An element is owned itself, not only its fields.
      if (step.starts_with("k:")) (*node)["."] = Json::object();
    }
  }
  return out;
}

FieldSet FieldSetFromJson(const Json& fields_v1) {
  FieldSet out;
  FieldPathSteps path;
  const auto walk = [&](const auto& self, const Json& node) -> void {
    bool leaf = true;
    for (const auto& [step, child] : node.items()) {
      if (step == ".") continue;
      leaf = false;
      path.push_back(step);
      self(self, child);
      path.pop_back();
    }
    if (leaf && !path.empty()) out.insert(path);
  };
  if (fields_v1.is_object()) walk(walk, fields_v1);
  return out;
}

std::string ToString(const FieldPathSteps& path) {
  std::string out;
  for (const std::string& step : path) {
    if (step.starts_with("f:")) {
      out += "." + step.substr(2);
    } else if (step.starts_with("v:")) {
      out += "[=" + step.substr(2) + "]";
    } else {
      std::string key;
      const Json fields = Json::parse(step.substr(2));
      for (const auto& [name, value] : fields.items()) {
        if (!key.empty()) key += ",";
        key += name + "=" + value.dump();
      }
      out += "[" + key + "]";
    }
  }
  return out;
}

void RemoveLeaves(Json& object, const FieldSet& paths) {
  for (const FieldPathSteps& path : paths) {
    if (!path.empty() && !IsKeyField(path)) Remove(object, "", path);
  }
  // Keys last: an element is found by them.
  for (const FieldPathSteps& path : paths) {
    if (IsKeyField(path)) RemoveBareElement(object, path);
  }
}

}  // namespace larder::apiserver
