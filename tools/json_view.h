// Reading a document by names without checking every step: what is not there reads as empty.
//
//   JsonDocument document(*pod);
//   document.root()["status"]["phase"].Text();   // "" where it is missing
//   for (JsonView container : document.root()["spec"]["containers"].Items()) ...
//
// Views live as long as their document, and that as long as the object. Not thread-safe.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/object.h"

namespace larder::tools {

class JsonView {
 public:
  JsonView() = default;
  explicit JsonView(simdjson::dom::element element) : element_(element), there_(true) {}

  bool Exists() const { return there_ && !element_.is_null(); }
  JsonView operator[](std::string_view name) const {
    simdjson::dom::element found;
    if (!there_ || element_.at_key(name).get(found)) return {};
    return JsonView(found);
  }

  // A string; a number or boolean as text; empty for the rest.
  std::string Text(std::string_view fallback = {}) const {
    std::string_view text;
    if (!Exists()) return std::string(fallback);
    if (!element_.get(text)) return std::string(text);
    return element_.is_object() || element_.is_array() ? std::string(fallback)
                                                       : simdjson::minify(element_);
  }
  int64_t Number(int64_t fallback = 0) const {
    int64_t number = 0;
    return there_ && !element_.get(number) ? number : fallback;
  }
  bool True() const {
    bool value = false;
    return there_ && !element_.get(value) && value;
  }

  std::vector<JsonView> Items() const {
    std::vector<JsonView> out;
    simdjson::dom::array array;
    if (!there_ || element_.get(array)) return out;
    for (const simdjson::dom::element item : array) out.emplace_back(item);
    return out;
  }
  std::vector<std::pair<std::string_view, JsonView>> Fields() const {
    std::vector<std::pair<std::string_view, JsonView>> out;
    simdjson::dom::object object;
    if (!there_ || element_.get(object)) return out;
    for (const auto field : object) out.emplace_back(field.key, JsonView(field.value));
    return out;
  }
  size_t Size() const {
    if (!there_) return 0;
    if (element_.is_array()) return simdjson::dom::array(element_).size();
    return element_.is_object() ? simdjson::dom::object(element_).size() : 0;
  }
  // The JSON itself.
  std::string Json() const { return there_ ? simdjson::minify(element_) : std::string(); }

 private:
  simdjson::dom::element element_{};
  bool there_ = false;
};

class JsonDocument {
 public:
  explicit JsonDocument(const Object& object) {
    static thread_local std::vector<std::unique_ptr<simdjson::dom::parser>> spare;
    if (spare.empty()) {
      parser_ = std::make_unique<simdjson::dom::parser>();
    } else {
      parser_ = std::move(spare.back());
      spare.pop_back();
    }
    spare_ = &spare;
    simdjson::dom::element element;
    // The object keeps the padding that simdjson reads behind the document.
    if (!parser_->parse(object.json().data(), object.json().size(), false).get(element)) {
      root_ = JsonView(element);
    }
  }
  ~JsonDocument() { spare_->push_back(std::move(parser_)); }
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const JsonView& root() const { return root_; }

 private:
  std::vector<std::unique_ptr<simdjson::dom::parser>>* spare_;
  std::unique_ptr<simdjson::dom::parser> parser_;
  JsonView root_;
};

}  // namespace larder::tools
