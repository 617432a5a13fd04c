#include "schema/field_path.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "schema/field_scan.h"
#include "schema/json_number.h"
#include "schema/json_parser.h"
#include "schema/kept_buffer.h"

namespace larder {
namespace {

namespace sj = simdjson::ondemand;
using Step = FieldPath::Step;
using Steps = std::span<const Step>;

// No API nests this deep, and simdjson is undefined from 1024 on.
constexpr int kMaxDepth = 256;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsBareNameChar(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '/' || c == '$' || c == ':';
}

class PathParser {
 public:
  explicit PathParser(std::string_view text) : text_(text) {}

  Result<std::vector<Step>> Run() {
    if (text_.size() >= 2 && text_.front() == '{' && text_.back() == '}') {
      at_ = 1;
      end_ = text_.size() - 1;
    }
    if (at_ < end_ && text_[at_] == '.') ++at_;
    if (at_ == end_) return Fail("expected the name of a field");
    while (at_ < end_) {
      if (steps_.size() == kMaxDepth) return Fail("the path is too deep");
      if (text_[at_] == '[') {
        LARDER_RETURN_IF_ERROR(Bracket());
      } else {
        if (!steps_.empty()) {
          if (text_[at_] != '.') return Fail("expected \".\" or \"[\"");
          ++at_;
        }
        LARDER_RETURN_IF_ERROR(BareName());
      }
    }
    return std::move(steps_);
  }

 private:
  tl::unexpected<Error> Fail(std::string_view what) const {
    return MakeError(ErrorCode::kInvalidArgument, "field path \"{}\": column {}: {}", text_,
                     at_ + 1, what);
  }

  // Takes `\.` for a dot inside a name, as kubectl's jsonpath does.
  Result<void> BareName() {
    std::string name;
    for (; at_ < end_; ++at_) {
      const bool escaped_dot = text_[at_] == '\\' && at_ + 1 < end_ && text_[at_ + 1] == '.';
      if (escaped_dot) ++at_;
      if (!escaped_dot && !IsBareNameChar(text_[at_])) break;
      name += text_[at_];
    }
    if (name.empty()) return Fail("expected the name of a field");
    steps_.push_back({Step::Kind::kField, std::move(name), 0});
    return {};
  }

  Result<void> Bracket() {
    ++at_;
    if (at_ == end_) return Fail("\"[\" is not closed");
    const char c = text_[at_];
    if (c == '\'' || c == '"') {
      LARDER_RETURN_IF_ERROR(QuotedName(c));
    } else if (c == '*') {
      ++at_;
      steps_.push_back({Step::Kind::kAll, {}, 0});
    } else if (IsDigit(c)) {
      LARDER_RETURN_IF_ERROR(Index());
    } else {
      return Fail("expected a quoted name, a number or \"*\"");
    }
    if (at_ == end_ || text_[at_] != ']') return Fail("expected \"]\"");
    ++at_;
    return {};
  }

  Result<void> QuotedName(char quote) {
    std::string name;
    for (++at_; at_ < end_ && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < end_) ++at_;
      name += text_[at_];
    }
    if (at_ == end_) return Fail("the quoted name is not closed");
    if (name.empty()) return Fail("the quoted name is empty");
    ++at_;
    steps_.push_back({Step::Kind::kField, std::move(name), 0});
    return {};
  }

  Result<void> Index() {
    constexpr size_t kMaxIndex = 1'000'000'000;
    size_t index = 0;
    for (; at_ < end_ && IsDigit(text_[at_]); ++at_) {
      index = index * 10 + static_cast<size_t>(text_[at_] - '0');
      if (index > kMaxIndex) return Fail("the index is too large");
    }
    steps_.push_back({Step::Kind::kIndex, {}, index});
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t end_ = text_.size();
  std::vector<Step> steps_;
};

// The name of a member, compared without unescaping unless it has an escape. simdjson gives the
// unescaped one only once, and each path asks.
class MemberName {
 public:
  explicit MemberName(sj::field& field) : field_(field), raw_(field.key().raw()) {}

  bool Is(std::string_view name) {
    size_t i = 0;
    for (; raw_[i] != '"' && raw_[i] != '\\'; ++i) {
      if (i == name.size() || raw_[i] != name[i]) return false;
    }
    if (raw_[i] == '"') return i == name.size();
    if (!std::exchange(unescaped_, true)) readable_ = !field_.unescaped_key().get(key_);
    return readable_ && key_ == name;
  }

 private:
  sj::field& field_;
  const char* const raw_;
  bool unescaped_ = false, readable_ = false;
  std::string_view key_;
};

std::string_view TrimEnd(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

enum class Walk { kGoOn, kEnough, kBroken };

// One path on its way down: the steps that are left, and where its values go.
struct Target {
  Steps steps;
  std::vector<std::string>* out = nullptr;
};
using Targets = std::span<Target>;

// Goes down the document once, in order, and collects what is at the end of each path.
class Walker {
 public:
  enum class Mode { kScalars, kRaw };
  Walker(Mode mode, size_t limit) : mode_(mode), limit_(limit) {}

  // Reorders `targets`. The first member with a name is the one that counts, as in a lookup.
  Walk Object(sj::object& object, Targets targets, int depth) {
    if (depth > kMaxDepth) return Walk::kBroken;
    targets = Front(targets, [](const Target& target) {
      return target.steps.front().kind == Step::Kind::kField;
    });
    if (targets.empty()) return Walk::kGoOn;
    for (auto result : object) {
      sj::field field;
      if (std::move(result).get(field)) return Walk::kBroken;
      MemberName name(field);
      const Targets here =
          Front(targets, [&](const Target& target) { return name.Is(target.steps.front().name); });
      if (here.empty()) continue;
      targets = targets.subspan(here.size());
      for (Target& target : here) target.steps = target.steps.subspan(1);
      const Walk walk = Value(field.value(), here, depth);
      if (walk != Walk::kGoOn || targets.empty()) return walk;
    }
    return Walk::kGoOn;
  }

 private:
  // Moves those for which `holds` to the front and returns them. One target, the usual case, costs
  // a test.
  template <typename Holds>
  static Targets Front(Targets targets, const Holds& holds) {
    const auto end = std::partition(targets.begin(), targets.end(), holds);
    return targets.first(static_cast<size_t>(end - targets.begin()));
  }

  Walk Value(sj::value value, Targets targets, int depth) {
    if (depth > kMaxDepth) return Walk::kBroken;
    if (mode_ == Mode::kRaw && targets.front().steps.empty()) return Raw(value, targets.front());
    sj::json_type type;
    if (value.type().get(type)) return Walk::kBroken;
    if (type == sj::json_type::array) return Array(value, targets, depth + 1);
    const Targets ends = Front(targets, [](const Target& target) { return target.steps.empty(); });
    if (type != sj::json_type::object) {
      return ends.empty() ? Walk::kGoOn : Scalar(value, type, ends);
    }
    const Targets deeper = targets.subspan(ends.size());
    if (deeper.empty()) return Walk::kGoOn;
    sj::object object;
    if (value.get_object().get(object)) return Walk::kBroken;
    return Object(object, deeper, depth + 1);
  }

  // Without a step of its own, a list stands for every element.
  Walk Array(sj::value value, Targets targets, int depth) {
    sj::array array;
    if (value.get_array().get(array)) return Walk::kBroken;
    std::vector<Target> here;
    size_t position = 0;
    for (auto result : array) {
      sj::value element;
      if (std::move(result).get(element)) return Walk::kBroken;
      here.clear();
      bool later = false;
      for (const Target& target : targets) later |= ForElement(target, position, here);
      ++position;
      if (!here.empty()) {
        const Walk walk = Value(element, here, depth);
        if (walk != Walk::kGoOn) return walk;
      }
      if (!later) return Walk::kGoOn;
    }
    return Walk::kGoOn;
  }

  // Adds the target to `here` where it wants this element; true when it may want a later one.
  static bool ForElement(const Target& target, size_t position, std::vector<Target>& here) {
    if (target.steps.empty() || target.steps.front().kind == Step::Kind::kField) {
      here.push_back(target);
      return true;
    }
    if (target.steps.front().kind == Step::Kind::kAll || target.steps.front().index == position) {
      here.push_back({target.steps.subspan(1), target.out});
    }
    return target.steps.front().kind == Step::Kind::kAll || target.steps.front().index > position;
  }

  Walk Scalar(sj::value& value, sj::json_type type, Targets targets) {
    std::string_view text;
    if (type == sj::json_type::string) {
      if (value.get_string().get(text)) return Walk::kBroken;
    } else {
      text = TrimEnd(value.raw_json_token());
      if (text == "null") return Walk::kGoOn;
      if (text != "true" && text != "false" && !IsJsonNumber(text)) return Walk::kBroken;
    }
    Walk walk = Walk::kGoOn;
    for (const Target& target : targets) walk = Add(target, text);
    return walk;
  }

  Walk Raw(sj::value& value, const Target& target) {
    sj::json_type type;
    if (value.type().get(type)) return Walk::kBroken;
    std::string_view text;
    if (type == sj::json_type::object) {
      sj::object object;
      if (value.get_object().get(object) || object.raw_json().get(text)) return Walk::kBroken;
    } else if (type == sj::json_type::array) {
      sj::array array;
      if (value.get_array().get(array) || array.raw_json().get(text)) return Walk::kBroken;
    } else {
      text = value.raw_json_token();
    }
    return Add(target, TrimEnd(text));
  }

  Walk Add(const Target& target, std::string_view text) {
    target.out->emplace_back(text);
    return target.out->size() < limit_ ? Walk::kGoOn : Walk::kEnough;
  }

  const Mode mode_;
  const size_t limit_;
};

// False where the document is broken on the way; what was collected is then worth nothing. `json`
// has Object::kJsonPadding bytes behind it.
bool Collect(std::string_view json, Targets targets, Walker::Mode mode, size_t limit) {
  static_assert(Object::kJsonPadding >= simdjson::SIMDJSON_PADDING);
  ParserLease parser(json.size());
  sj::document document;
  sj::object root;
  if (parser->iterate(json.data(), json.size(), json.size() + Object::kJsonPadding).get(document) ||
      document.get_object().get(root)) {
    return false;
  }
  return Walker(mode, limit).Object(root, targets, 0) != Walk::kBroken;
}

bool IsInBody(const Target& target) {
  const Step& first = target.steps.front();
  return first.kind == Step::Kind::kField && first.name != "metadata" && first.name != "kind" &&
         first.name != "apiVersion";
}

bool Collect(const Object& object, Targets targets, Walker::Mode mode, size_t limit) {
  const std::string_view body = object.Body();
  if (body.empty() || !std::all_of(targets.begin(), targets.end(), IsInBody)) {
    return Collect(object.json(), targets, mode, limit);
  }
  // Metadata is half of most documents: a copy of the rest is read in less time than all of it.
  thread_local std::string rest;
  rest = "{";
  rest += body;
  const size_t size = rest.size();
  rest.append(Object::kJsonPadding, '\0');
  const bool whole = Collect(std::string_view(rest).substr(0, size), targets, mode, limit);
  DropLarge(rest);
  return whole;
}

std::vector<std::string> Collect(const Object& object, Steps steps, Walker::Mode mode,
                                 size_t limit) {
  std::vector<std::string> out;
  Target target{steps, &out};
  if (mode == Walker::Mode::kScalars && IsInBody(target) && !object.Body().empty()) {
    const ScannedField field = ScanField(object.Body(), steps);
    if (field.outcome == ScannedField::Outcome::kValue) out.emplace_back(field.value);
    if (field.outcome != ScannedField::Outcome::kAskParser) return out;
  }
  if (!Collect(object, Targets(&target, 1), mode, limit)) out.clear();
  return out;
}

// The fields that the envelope holds exactly as the JSON has them. An empty one may be absent or
// "": that is for the JSON to say.
std::optional<std::string_view> FromEnvelope(const Object& object, Steps steps) {
  for (const Step& step : steps) {
    if (step.kind != Step::Kind::kField) return std::nullopt;
  }
  const auto given = [](std::string_view text) -> std::optional<std::string_view> {
    if (text.empty()) return std::nullopt;
    return text;
  };
  if (steps.size() == 1) {
    if (steps[0].name == "kind") return given(object.kind());
    if (steps[0].name == "apiVersion") return given(object.api_version());
    return std::nullopt;
  }
  if (steps[0].name != "metadata") return std::nullopt;
  const std::string_view field = steps[1].name;
  if (steps.size() == 2) {
    if (field == "name") return given(object.name());
    if (field == "namespace") return given(object.ns());
    if (field == "uid") return given(object.uid());
    if (field == "resourceVersion") return given(object.resource_version());
    if (field == "generateName") return given(object.generate_name());
  } else if (steps.size() == 3) {
    if (field == "labels") return object.Label(steps[2].name);
    if (field == "annotations") return object.Annotation(steps[2].name);
  }
  return std::nullopt;
}

// True where the envelope has the last word, so that a label that is not there costs no parsing.
bool OnlyInEnvelope(Steps steps) {
  return steps.size() == 3 && steps[0].name == "metadata" &&
         (steps[1].name == "labels" || steps[1].name == "annotations") &&
         steps[2].kind == Step::Kind::kField;
}

}  // namespace

Result<FieldPath> FieldPath::Parse(std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(std::vector<Step> steps, PathParser(text).Run());
  FieldPath path;
  path.text_ = text;
  path.steps_ = std::move(steps);
  return path;
}

std::vector<std::string> FieldPath::Values(const Object& object) const {
  if (steps_.empty()) return {};
  if (const auto value = FromEnvelope(object, steps_)) return {std::string(*value)};
  if (OnlyInEnvelope(steps_)) return {};
  return Collect(object, steps_, Walker::Mode::kScalars, SIZE_MAX);
}

std::vector<std::vector<std::string>> FieldPath::ValuesOf(std::span<const FieldPath> paths,
                                                          const Object& object) {
  std::vector<std::vector<std::string>> out(paths.size());
  std::vector<Target> targets;
  for (size_t i = 0; i < paths.size(); ++i) {
    const Steps steps = paths[i].steps_;
    if (steps.empty() || OnlyInEnvelope(steps) || FromEnvelope(object, steps)) {
      out[i] = paths[i].Values(object);
    } else {
      targets.push_back({steps, &out[i]});
    }
  }
  if (targets.empty()) return out;
  // One alone has a shorter way.
  if (targets.size() > 1 && Collect(object, targets, Walker::Mode::kScalars, SIZE_MAX)) return out;
  // What one path trips over another may not even look at.
  for (size_t i = 0; i < paths.size(); ++i) out[i] = paths[i].Values(object);
  return out;
}

std::optional<std::string> FieldPath::Value(const Object& object) const {
  if (steps_.empty()) return std::nullopt;
  if (const auto value = FromEnvelope(object, steps_)) return std::string(*value);
  if (OnlyInEnvelope(steps_)) return std::nullopt;
  std::vector<std::string> values = Collect(object, steps_, Walker::Mode::kScalars, 1);
  if (values.empty()) return std::nullopt;
  return std::move(values.front());
}

std::vector<std::string> FieldPath::Raw(const Object& object) const {
  if (steps_.empty()) return {};
  return Collect(object, steps_, Walker::Mode::kRaw, SIZE_MAX);
}

}  // namespace larder
