#include "tools/jsonpath.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

namespace larder::tools {

struct JsonPath::Step {
  enum class Kind { kField, kAll, kSlices, kRecursive, kFilter, kFields } kind = Kind::kField;
  struct Slice {
    std::optional<long> begin, end;
    long step = 1;
    bool single = false;
  };
  std::vector<std::string> names;
  std::vector<Slice> slices;
  // A filter: left op right; op empty: left exists.
  struct Side {
    std::optional<JsonPath> path;
    Json literal;
  };
  Side left, right;
  std::string op;
};

namespace {

using Step = JsonPath::Step;

tl::unexpected<Error> Bad(std::string_view what, std::string_view text) {
  if (text.empty()) return MakeError(ErrorCode::kInvalidArgument, "jsonpath: {} at the end", what);
  return MakeError(ErrorCode::kInvalidArgument, "jsonpath: {} at \"{}\"", what, text);
}

// 'a\'b' or "a": the text between the quotes; `rest` goes behind it.
Result<std::string> TakeQuoted(std::string_view& rest) {
  const char quote = rest.front();
  std::string out;
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size()) {
      const char next = rest[++i];
      out += next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next;
    } else if (rest[i] == quote) {
      rest.remove_prefix(i + 1);
      return out;
    } else {
      out += rest[i];
    }
  }
  return Bad("a quote is not closed", rest);
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Up to the bracket that closes the one before `rest`.
Result<std::string_view> TakeBracket(std::string_view& rest) {
  int depth = 1;
  char quote = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']' && --depth == 0) {
      const std::string_view inside = rest.substr(0, i);
      rest.remove_prefix(i + 1);
      return inside;
    }
  }
  return Bad("a bracket is not closed", rest);
}

Result<std::optional<long>> TakeNumber(std::string_view text) {
  text = Trim(text);
  if (text.empty()) return std::optional<long>();
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return Bad("no number", text);
  return std::optional<long>(value);
}

Result<Step::Slice> ParseSlice(std::string_view text) {
  Step::Slice slice;
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  if (parts.size() > 3) return Bad("too many colons", text);
  LARDER_ASSIGN_OR_RETURN(slice.begin, TakeNumber(parts[0]));
  slice.single = parts.size() == 1;
  if (slice.single && !slice.begin) return Bad("empty brackets", text);
  if (parts.size() > 1) {
    LARDER_ASSIGN_OR_RETURN(slice.end, TakeNumber(parts[1]));
  }
  if (parts.size() > 2) {
    LARDER_ASSIGN_OR_RETURN(const auto step, TakeNumber(parts[2]));
    slice.step = step.value_or(1);
    if (slice.step <= 0) return Bad("a step must be positive", text);
  }
  return slice;
}

Result<Step::Side> ParseSide(std::string_view text) {
  Step::Side side;
  text = Trim(text);
  if (text.empty()) return Bad("an empty side of a filter", text);
  if (text.front() == '\'' || text.front() == '"') {
    LARDER_ASSIGN_OR_RETURN(side.literal, TakeQuoted(text));
  } else if (text.front() == '@' || text.front() == '.' || text.front() == '$') {
    LARDER_ASSIGN_OR_RETURN(side.path, JsonPath::Parse(text));
  } else {
    side.literal = Json::parse(text, nullptr, false);
    if (side.literal.is_discarded()) side.literal = std::string(text);
  }
  return side;
}

Result<Step> ParseFilter(std::string_view text) {
  Step step;
  step.kind = Step::Kind::kFilter;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
      continue;
    }
    if (c == '\'' || c == '"') quote = c;
    if (c != '=' && c != '!' && c != '<' && c != '>') continue;
    const size_t length = i + 1 < text.size() && text[i + 1] == '=' ? 2 : 1;
    step.op = text.substr(i, length);
    if (step.op == "=" || step.op == "!") return Bad("an unknown comparison", text.substr(i));
    LARDER_ASSIGN_OR_RETURN(step.left, ParseSide(text.substr(0, i)));
    LARDER_ASSIGN_OR_RETURN(step.right, ParseSide(text.substr(i + length)));
    return step;
  }
  LARDER_ASSIGN_OR_RETURN(step.left, ParseSide(text));
  return step;
}

Result<Step> ParseBracket(std::string_view inside) {
  inside = Trim(inside);
  Step step;
  if (inside == "*") {
    step.kind = Step::Kind::kAll;
    return step;
  }
  if (inside.size() > 3 && inside.substr(0, 2) == "?(" && inside.back() == ')') {
    return ParseFilter(inside.substr(2, inside.size() - 3));
  }
  if (!inside.empty() && (inside.front() == '\'' || inside.front() == '"')) {
    step.kind = Step::Kind::kFields;
    while (!inside.empty()) {
      LARDER_ASSIGN_OR_RETURN(std::string name, TakeQuoted(inside));
      step.names.push_back(std::move(name));
      inside = Trim(inside);
      if (inside.empty()) break;
      if (inside.front() != ',') return Bad("a comma is missing", inside);
      inside = Trim(inside.substr(1));
    }
    return step;
  }
  step.kind = Step::Kind::kSlices;
  for (;;) {
    const size_t comma = inside.find(',');
    LARDER_ASSIGN_OR_RETURN(const Step::Slice slice, ParseSlice(inside.substr(0, comma)));
    step.slices.push_back(slice);
    if (comma == std::string_view::npos) return step;
    inside.remove_prefix(comma + 1);
  }
}

std::string TakeName(std::string_view& rest) {
  std::string name;
  while (!rest.empty() && rest.front() != '.' && rest.front() != '[') {
    if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
    name += rest.front();
    rest.remove_prefix(1);
  }
  return name;
}

void Descend(const Json& value, std::vector<const Json*>& out) {
  out.push_back(&value);
  if (!value.is_structured()) return;
  for (const Json& child : value) Descend(child, out);
}

void TakeSlice(const Json& array, const Step::Slice& slice, std::vector<const Json*>& out) {
  const auto size = static_cast<long>(array.size());
  const auto place = [&](long at) { return at < 0 ? at + size : at; };
  const long begin = place(slice.begin.value_or(0));
  const long end = slice.single ? begin + 1 : std::min(size, place(slice.end.value_or(size)));
  for (long i = std::max(begin, 0L); i < end && i < size && begin >= 0; i += slice.step) {
    out.push_back(&array[static_cast<size_t>(i)]);
  }
}

bool Compare(const Json& left, const std::string& op, const Json& right) {
  if (op == "==") return left == right;
  if (op == "!=") return left != right;
  if (left.is_number() != right.is_number()) return false;
  if (op == "<") return left < right;
  if (op == "<=") return left <= right;
  if (op == ">") return left > right;
  return left >= right;
}

bool Holds(const Step& filter, const Json& value) {
  const auto side = [&](const Step::Side& from) -> const Json* {
    if (!from.path) return &from.literal;
    const auto found = from.path->Find(value);
    return found.empty() ? nullptr : found.front();
  };
  const Json* const left = side(filter.left);
  if (!left || filter.op.empty()) return left != nullptr;
  const Json* const right = side(filter.right);
  return right && Compare(*left, filter.op, *right);
}

void Apply(const Step& step, const Json& value, std::vector<const Json*>& out) {
  switch (step.kind) {
    case Step::Kind::kField:
    case Step::Kind::kFields:
      for (const std::string& name : step.names) {
        if (!value.is_object()) break;
        if (const auto found = value.find(name); found != value.end()) out.push_back(&*found);
      }
      break;
    case Step::Kind::kAll:
      if (value.is_structured()) {
        for (const Json& child : value) out.push_back(&child);
      }
      break;
    case Step::Kind::kSlices:
      for (const Step::Slice& slice : step.slices) {
        if (value.is_array()) TakeSlice(value, slice, out);
      }
      break;
    case Step::Kind::kRecursive:
      Descend(value, out);
      break;
    case Step::Kind::kFilter:
      if (!value.is_array()) break;
      for (const Json& child : value) {
        if (Holds(step, child)) out.push_back(&child);
      }
      break;
  }
}

}  // namespace

Result<JsonPath> JsonPath::Parse(std::string_view text) {
  JsonPath path;
  std::string_view rest = Trim(text);
  if (!rest.empty() && (rest.front() == '$' || rest.front() == '@')) {
    path.from_root_ = rest.front() == '$';
    rest.remove_prefix(1);
  }
  while (!rest.empty()) {
    Step step;
    if (rest.front() == '[') {
      rest.remove_prefix(1);
      LARDER_ASSIGN_OR_RETURN(const std::string_view inside, TakeBracket(rest));
      LARDER_ASSIGN_OR_RETURN(step, ParseBracket(inside));
    } else if (rest.front() == '.') {
      rest.remove_prefix(1);
      if (!rest.empty() && rest.front() == '.') {
        Step recursive;
        recursive.kind = Step::Kind::kRecursive;
        path.steps_.push_back(std::make_shared<const Step>(std::move(recursive)));
        if (rest.size() > 1 && rest[1] == '[') rest.remove_prefix(1);
        continue;
      }
      if (rest.empty() || rest.front() == '[') continue;
      const std::string name = TakeName(rest);
      step.kind = name == "*" ? Step::Kind::kAll : Step::Kind::kField;
      step.names = {name};
    } else {
      return Bad("a path begins with a dot", rest);
    }
    path.steps_.push_back(std::make_shared<const Step>(std::move(step)));
  }
  return path;
}

Result<JsonPath> JsonPath::ParseRelaxed(std::string_view text) {
  text = Trim(text);
  if (text.size() >= 2 && text.front() == '{' && text.back() == '}') {
    text = Trim(text.substr(1, text.size() - 2));
  }
  if (!text.empty() && std::string_view(".[$@").find(text.front()) == std::string_view::npos) {
    return Parse("." + std::string(text));
  }
  return Parse(text);
}

std::vector<const Json*> JsonPath::Find(const Json& root) const {
  std::vector<const Json*> values = {&root};
  for (const auto& step : steps_) {
    std::vector<const Json*> next;
    for (const Json* value : values) Apply(*step, *value, next);
    values = std::move(next);
  }
  return values;
}

std::string JsonText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

Result<std::vector<JsonTemplate::Node>> JsonTemplate::ParseNodes(std::string_view& rest,
                                                                 bool in_range) {
  std::vector<Node> nodes;
  while (!rest.empty()) {
    Node node;
    if (rest.front() != '{') {
      const size_t brace = std::min(rest.find('{'), rest.size());
      node.text = rest.substr(0, brace);
      rest.remove_prefix(brace);
      nodes.push_back(std::move(node));
      continue;
    }
    size_t end = 1;
    for (char quote = 0; end < rest.size() && (quote != 0 || rest[end] != '}'); ++end) {
      if (rest[end] == '\\') {
        ++end;
      } else if (quote == 0 && (rest[end] == '"' || rest[end] == '\'')) {
        quote = rest[end];
      } else if (rest[end] == quote) {
        quote = 0;
      }
    }
    if (end >= rest.size()) return Bad("a brace is not closed", rest);
    std::string_view inside = Trim(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    if (inside == "end") {
      if (!in_range) return Bad("an end without a range", rest);
      return nodes;
    }
    if (inside.substr(0, 6) == "range ") {
      node.kind = Node::Kind::kRange;
      LARDER_ASSIGN_OR_RETURN(node.path, JsonPath::ParseRelaxed(inside.substr(6)));
      LARDER_ASSIGN_OR_RETURN(node.body, ParseNodes(rest, true));
    } else if (!inside.empty() && (inside.front() == '"' || inside.front() == '\'')) {
      LARDER_ASSIGN_OR_RETURN(node.text, TakeQuoted(inside));
    } else {
      node.kind = Node::Kind::kPath;
      LARDER_ASSIGN_OR_RETURN(node.path, JsonPath::Parse(inside));
    }
    nodes.push_back(std::move(node));
  }
  if (in_range) return Bad("a range without an end", "");
  return nodes;
}

Result<JsonTemplate> JsonTemplate::Parse(std::string_view text) {
  JsonTemplate out;
  // kubectl takes a path without braces, too.
  if (text.find('{') == std::string_view::npos) {
    Node node;
    node.kind = Node::Kind::kPath;
    LARDER_ASSIGN_OR_RETURN(node.path, JsonPath::ParseRelaxed(text));
    out.nodes_.push_back(std::move(node));
    return out;
  }
  LARDER_ASSIGN_OR_RETURN(out.nodes_, ParseNodes(text, false));
  return out;
}

void JsonTemplate::RenderNodes(const std::vector<Node>& nodes, const Json& root,
                               const Json& current, std::string& out) {
  for (const Node& node : nodes) {
    if (node.kind == Node::Kind::kText) {
      out += node.text;
      continue;
    }
    const auto values = node.path.Find(node.path.from_root_ ? root : current);
    for (size_t i = 0; i < values.size(); ++i) {
      if (node.kind == Node::Kind::kRange) {
        RenderNodes(node.body, root, *values[i], out);
      } else {
        out += (i == 0 ? "" : " ") + JsonText(*values[i]);
      }
    }
  }
}

std::string JsonTemplate::Render(const Json& document) const {
  std::string out;
  RenderNodes(nodes_, document, document, out);
  return out;
}

}  // namespace larder::tools
