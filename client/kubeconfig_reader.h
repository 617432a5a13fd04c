// One kubeconfig file as YAML: typed fields, with errors that name the file and the field.
//
// Private to client/: the only header that knows yaml-cpp. Exceptions of yaml-cpp end here.
#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "client/kubeconfig.h"

namespace larder {

// A YAML mapping and where it is. The first error sticks; the getters after it return empty values.
class FieldReader {
 public:
  FieldReader(const YAML::Node& node, std::string file, std::string where)
      : node_(node), file_(std::move(file)), where_(std::move(where)) {}

  std::string Text(const char* field);
  // Base64 in the file, bytes here.
  std::string Data(const char* field);
  // Relative to the file's folder.
  std::string Path(const char* field);
  bool Bool(const char* field);
  std::vector<std::string> Texts(const char* field);
  std::vector<std::pair<std::string, std::string>> NamedValues(const char* field);
  std::map<std::string, std::vector<std::string>> TextLists(const char* field);
  // The extension with that name, as JSON; empty where there is none.
  std::string ExtensionJson(std::string_view name);
  bool Has(const char* field) const;
  FieldReader Child(const char* field);

  std::string ResolvePath(const std::string& path) const;
  void Fail(const char* field, std::string_view what);
  Result<void> status() const { return status_; }

 private:
  YAML::Node Get(const char* field) const;

  YAML::Node node_;
  std::string file_;
  std::string where_;
  Result<void> status_;
};

// The named entries of one file.
struct KubeconfigDocument {
  std::map<std::string, FieldReader> clusters;
  std::map<std::string, FieldReader> users;
  std::map<std::string, FieldReader> contexts;
  std::string current_context;
};

Result<KubeconfigDocument> ReadKubeconfigDocument(const KubeconfigFile& file);

}  // namespace larder
