#include "schema/selector.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "schema/selectable_fields.h"

namespace larder {
namespace {

using Op = LabelSelector::Op;

tl::unexpected<Error> SelectorError(std::string_view which, std::string_view selector,
                                    size_t column, std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument, "{} selector \"{}\": column {}: {}", which,
                   selector, column, what);
}

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Letters, digits, '-', '_' and '.', with a letter or digit at both ends.
bool IsLabelText(std::string_view text) {
  return !text.empty() && IsAlnum(text.front()) && IsAlnum(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

// One part of a DNS name: lower-case letters, digits and inner hyphens.
bool IsDnsPart(std::string_view text) {
  return IsLabelText(text) && std::all_of(text.begin(), text.end(), [](char c) {
           return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
         });
}

bool IsDnsSubdomain(std::string_view text) {
  while (true) {
    const size_t dot = text.find('.');
    if (!IsDnsPart(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

constexpr size_t kMaxLabelBytes = 63;
constexpr size_t kMaxPrefixBytes = 253;

// What is wrong with a label's key, or nothing.
std::string KeyProblem(std::string_view key) {
  const size_t slash = key.find('/');
  std::string_view name = key;
  if (slash != std::string_view::npos) {
    const std::string_view prefix = key.substr(0, slash);
    name = key.substr(slash + 1);
    if (prefix.empty()) return fmt::format("key \"{}\" has nothing in front of the slash", key);
    if (prefix.size() > kMaxPrefixBytes) {
      return fmt::format("the prefix of key \"{}\" is longer than {} characters", key,
                         kMaxPrefixBytes);
    }
    if (!IsDnsSubdomain(prefix)) {
      return fmt::format(
          "the prefix of key \"{}\" must be a DNS name: lower-case letters, digits, '-' and '.'",
          key);
    }
    if (name.find('/') != std::string_view::npos) {
      return fmt::format("key \"{}\" has more than one slash", key);
    }
  }
  if (name.empty()) return fmt::format("key \"{}\" has no name", key);
  if (name.size() > kMaxLabelBytes) {
    return fmt::format("the name of key \"{}\" is longer than {} characters", key, kMaxLabelBytes);
  }
  if (!IsLabelText(name)) {
    return fmt::format(
        "the name of key \"{}\" must be letters, digits, '-', '_' or '.', with a letter or digit "
        "at both ends",
        key);
  }
  return {};
}

// What is wrong with a label's value, or nothing. An empty value is a value.
std::string ValueProblem(std::string_view value) {
  if (value.size() > kMaxLabelBytes) {
    return fmt::format("value \"{}\" is longer than {} characters", value, kMaxLabelBytes);
  }
  if (!value.empty() && !IsLabelText(value)) {
    return fmt::format(
        "value \"{}\" must be letters, digits, '-', '_' or '.', with a letter or digit at both "
        "ends",
        value);
  }
  return {};
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  // Go's ParseInt takes a plus sign, from_chars does not.
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

enum class TokenKind { kWord, kIn, kNotIn, kSymbol, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  size_t column = 0;
};

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool IsSymbol(char c) { return std::string_view("=!(),<>").find(c) != std::string_view::npos; }

std::vector<Token> Tokenize(std::string_view text) {
  std::vector<Token> tokens;
  size_t at = 0;
  while (true) {
    while (at < text.size() && IsSpace(text[at])) ++at;
    if (at == text.size()) break;
    const size_t begin = at++;
    TokenKind kind = TokenKind::kSymbol;
    if (IsSymbol(text[begin])) {
      const bool two =
          (text[begin] == '=' || text[begin] == '!') && at < text.size() && text[at] == '=';
      if (two) ++at;
    } else {
      while (at < text.size() && !IsSpace(text[at]) && !IsSymbol(text[at])) ++at;
      const std::string_view word = text.substr(begin, at - begin);
      kind = word == "in" ? TokenKind::kIn : word == "notin" ? TokenKind::kNotIn : TokenKind::kWord;
    }
    tokens.push_back({kind, text.substr(begin, at - begin), begin + 1});
  }
  tokens.push_back({TokenKind::kEnd, {}, text.size() + 1});
  return tokens;
}

class LabelParser {
 public:
  explicit LabelParser(std::string_view text) : text_(text), tokens_(Tokenize(text)) {}

  Result<std::vector<LabelSelector::Requirement>> Run() {
    std::vector<LabelSelector::Requirement> requirements;
    if (Peek().kind == TokenKind::kEnd) return requirements;
    while (true) {
      LARDER_ASSIGN_OR_RETURN(LabelSelector::Requirement requirement, ParseRequirement());
      requirements.push_back(std::move(requirement));
      if (Peek().kind == TokenKind::kEnd) return requirements;
      if (!Is(",")) return Expected("',' or the end");
      Next();
    }
  }

 private:
  const Token& Peek() const { return tokens_[at_]; }
  const Token& Next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool Is(std::string_view symbol) const {
    return Peek().kind == TokenKind::kSymbol && Peek().text == symbol;
  }
  // The words "in" and "notin" may be keys and values too.
  bool IsWord() const {
    return Peek().kind != TokenKind::kSymbol && Peek().kind != TokenKind::kEnd;
  }
  bool AtEndOfRequirement() const { return Peek().kind == TokenKind::kEnd || Is(","); }

  tl::unexpected<Error> Fail(size_t column, std::string_view what) const {
    return SelectorError("label", text_, column, what);
  }
  tl::unexpected<Error> Expected(std::string_view what) const {
    const std::string found =
        Peek().kind == TokenKind::kEnd ? "the end" : fmt::format("'{}'", Peek().text);
    return Fail(Peek().column, fmt::format("found {}, expected {}", found, what));
  }

  Result<LabelSelector::Requirement> ParseRequirement() {
    LabelSelector::Requirement out;
    const bool negated = Is("!");
    if (negated) Next();
    if (!IsWord()) return Expected(negated ? "a label's key" : "a label's key or '!'");
    const Token key = Next();
    if (const std::string problem = KeyProblem(key.text); !problem.empty()) {
      return Fail(key.column, problem);
    }
    out.key = key.text;
    out.op = negated ? Op::kNotExists : Op::kExists;
    if (negated || AtEndOfRequirement()) return out;
    LARDER_RETURN_IF_ERROR(ParseOperation(out));
    std::sort(out.values.begin(), out.values.end());
    out.values.erase(std::unique(out.values.begin(), out.values.end()), out.values.end());
    return out;
  }

  Result<void> ParseOperation(LabelSelector::Requirement& out) {
    const Token op = Peek();
    if (op.kind == TokenKind::kIn || op.kind == TokenKind::kNotIn) {
      Next();
      out.op = op.kind == TokenKind::kIn ? Op::kIn : Op::kNotIn;
      return ParseSet(out);
    }
    if (Is("=") || Is("==")) {
      out.op = Op::kIn;
    } else if (Is("!=")) {
      out.op = Op::kNotIn;
    } else if (Is(">")) {
      out.op = Op::kGreater;
    } else if (Is("<")) {
      out.op = Op::kLess;
    } else {
      return Expected("one of in, notin, =, ==, !=, >, <");
    }
    Next();
    return ParseSingle(out);
  }

  // `a=` and `a=,b` compare with the empty value.
  Result<void> ParseSingle(LabelSelector::Requirement& out) {
    Token value{TokenKind::kWord, {}, Peek().column};
    if (!AtEndOfRequirement()) {
      if (!IsWord()) return Expected("a value");
      value = Next();
    }
    if ((out.op == Op::kGreater || out.op == Op::kLess) && !ParseInteger(value.text)) {
      return Fail(value.column,
                  fmt::format("\"{}\" must be an integer to be compared with", value.text));
    }
    return AddValue(value, out);
  }

  // A comma with nothing in front of it or behind it stands next to an empty value: (a,) is "a",
  // "".
  Result<void> ParseSet(LabelSelector::Requirement& out) {
    if (!Is("(")) return Expected("'('");
    const size_t column = Next().column;
    if (Is(")")) return Fail(column, "the set of values is empty");
    while (true) {
      if (IsWord()) {
        LARDER_RETURN_IF_ERROR(AddValue(Next(), out));
      } else if (Is(",") || Is(")")) {
        out.values.emplace_back();
      } else {
        return Expected("a value, ',' or ')'");
      }
      if (!Is(",") && !Is(")")) return Expected("',' or ')'");
      if (Next().text == ")") return {};
    }
  }

  Result<void> AddValue(const Token& value, LabelSelector::Requirement& out) const {
    if (const std::string problem = ValueProblem(value.text); !problem.empty()) {
      return Fail(value.column, problem);
    }
    out.values.emplace_back(value.text);
    return {};
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

template <typename Lookup>
bool Holds(const LabelSelector::Requirement& requirement, const Lookup& lookup) {
  const std::optional<std::string_view> value = lookup(requirement.key);
  const auto listed = [&] {
    return std::any_of(requirement.values.begin(), requirement.values.end(),
                       [&](const std::string& candidate) { return candidate == *value; });
  };
  switch (requirement.op) {
    case Op::kIn:
      return value && listed();
    case Op::kNotIn:
      return !value || !listed();
    case Op::kExists:
      return value.has_value();
    case Op::kNotExists:
      return !value;
    case Op::kGreater:
    case Op::kLess:
      break;
  }
  if (!value) return false;
  const std::optional<int64_t> left = ParseInteger(*value);
  const std::optional<int64_t> right = ParseInteger(requirement.values.front());
  if (!left || !right) return false;
  return requirement.op == Op::kGreater ? *left > *right : *left < *right;
}

std::string RequirementText(const LabelSelector::Requirement& requirement) {
  const std::string& key = requirement.key;
  const std::string values = fmt::format("{}", fmt::join(requirement.values, ","));
  const bool one = requirement.values.size() == 1;
  switch (requirement.op) {
    case Op::kIn:
      return one ? key + "=" + values : key + " in (" + values + ")";
    case Op::kNotIn:
      return one ? key + "!=" + values : key + " notin (" + values + ")";
    case Op::kExists:
      return key;
    case Op::kNotExists:
      return "!" + key;
    case Op::kGreater:
      return key + ">" + values;
    case Op::kLess:
      return key + "<" + values;
  }
  return {};
}

}  // namespace

Result<LabelSelector> LabelSelector::Parse(std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(std::vector<Requirement> requirements, LabelParser(text).Run());
  const auto order = [](const Requirement& a, const Requirement& b) {
    return std::tie(a.key, a.op, a.values) < std::tie(b.key, b.op, b.values);
  };
  const auto equal = [](const Requirement& a, const Requirement& b) {
    return std::tie(a.key, a.op, a.values) == std::tie(b.key, b.op, b.values);
  };
  std::sort(requirements.begin(), requirements.end(), order);
  requirements.erase(std::unique(requirements.begin(), requirements.end(), equal),
                     requirements.end());
  LabelSelector selector;
  selector.requirements_ = std::move(requirements);
  return selector;
}

bool LabelSelector::Matches(const Object& object) const {
  const auto lookup = [&](std::string_view key) { return object.Label(key); };
  return std::all_of(requirements_.begin(), requirements_.end(),
                     [&](const Requirement& requirement) { return Holds(requirement, lookup); });
}

bool LabelSelector::Matches(const Lookup& label) const {
  return std::all_of(requirements_.begin(), requirements_.end(),
                     [&](const Requirement& requirement) { return Holds(requirement, label); });
}

std::string LabelSelector::ToString() const {
  std::string out;
  for (const Requirement& requirement : requirements_) {
    if (!out.empty()) out += ",";
    out += RequirementText(requirement);
  }
  return out;
}

namespace {

// Takes a field selector apart. Only a value may have escapes.
class FieldSelectorParser {
 public:
  explicit FieldSelectorParser(std::string_view text) : text_(text) {}

  Result<std::vector<FieldSelector::Requirement>> Run() {
    std::vector<FieldSelector::Requirement> requirements;
    size_t begin = 0;
    while (begin <= text_.size()) {
      const size_t end = EndOfTerm(begin);
      // Empty terms mean nothing, as in the API server: "a=b," is "a=b".
      if (end > begin) {
        LARDER_ASSIGN_OR_RETURN(FieldSelector::Requirement requirement, Term(begin, end));
        requirements.push_back(std::move(requirement));
      }
      begin = end + 1;
    }
    return requirements;
  }

 private:
  tl::unexpected<Error> Fail(size_t at, std::string_view what) const {
    return SelectorError("field", text_, at + 1, what);
  }

  size_t EndOfTerm(size_t at) const {
    while (at < text_.size() && text_[at] != ',') at += text_[at] == '\\' ? 2 : 1;
    return std::min(at, text_.size());
  }

  Result<FieldSelector::Requirement> Term(size_t begin, size_t end) const {
    const std::string_view term = text_.substr(begin, end - begin);
    size_t sign = term.find('=');
    if (sign == std::string_view::npos) {
      return Fail(begin, fmt::format("\"{}\" has no =, == or !=", term));
    }
    FieldSelector::Requirement out;
    out.negated = sign > 0 && term[sign - 1] == '!';
    const std::string_view path = term.substr(0, out.negated ? sign - 1 : sign);
    ++sign;
    if (!out.negated && sign < term.size() && term[sign] == '=') ++sign;
    Result<FieldPath> parsed = FieldPath::Parse(path);
    if (!parsed) return Fail(begin, parsed.error().message);
    out.path = *std::move(parsed);
    LARDER_ASSIGN_OR_RETURN(out.value, Unescape(begin + sign, end));
    return out;
  }

  Result<std::string> Unescape(size_t begin, size_t end) const {
    std::string out;
    for (size_t at = begin; at < end; ++at) {
      char c = text_[at];
      if (c == '=') return Fail(at, "a value's '=' must be written as '\\='");
      if (c == '\\') {
        c = at + 1 < end ? text_[at + 1] : '\0';
        if (c != '\\' && c != ',' && c != '=') {
          return Fail(at, "'\\' must be followed by '\\', ',' or '='");
        }
        ++at;
      }
      out += c;
    }
    return out;
  }

  std::string_view text_;
};

}  // namespace

std::string FieldSelector::Escape(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == ',' || c == '=') out += '\\';
    out += c;
  }
  return out;
}

Result<FieldSelector> FieldSelector::Parse(std::string_view text) {
  LARDER_ASSIGN_OR_RETURN(std::vector<Requirement> requirements, FieldSelectorParser(text).Run());
  const auto key = [](const Requirement& r) { return std::tie(r.path.text(), r.negated, r.value); };
  std::sort(requirements.begin(), requirements.end(),
            [&](const Requirement& a, const Requirement& b) { return key(a) < key(b); });
  requirements.erase(
      std::unique(requirements.begin(), requirements.end(),
                  [&](const Requirement& a, const Requirement& b) { return key(a) == key(b); }),
      requirements.end());
  FieldSelector selector;
  selector.requirements_ = std::move(requirements);
  return selector;
}

FieldSelector FieldSelector::For(const Resource& resource) const {
  FieldSelector out = *this;
  if (out.Empty()) return out;
  for (const SelectableField& field : SelectableFields(resource)) {
    for (Requirement& requirement : out.requirements_) {
      if (requirement.path.text() != field.name) continue;
      requirement.absent = field.absent;
      requirement.read.clear();
      for (const std::string& path : field.paths) {
        requirement.read.push_back(*FieldPath::Parse(path));
      }
    }
  }
  return out;
}

namespace {

std::vector<std::string> ValuesOf(const FieldSelector::Requirement& requirement,
                                  const Object& object) {
  if (requirement.read.empty()) return requirement.path.Values(object);
  for (const FieldPath& path : requirement.read) {
    std::vector<std::string> values = path.Values(object);
    std::erase(values, "");
    if (!values.empty()) return values;
  }
  return {};
}

}  // namespace

bool FieldSelector::Matches(const Object& object) const {
  return std::all_of(requirements_.begin(), requirements_.end(), [&](const Requirement& r) {
    const std::vector<std::string> values = ValuesOf(r, object);
    const bool equal = values.empty()
                           ? r.value == r.absent
                           : std::find(values.begin(), values.end(), r.value) != values.end();
    return equal != r.negated;
  });
}

std::string FieldSelector::ToString() const {
  std::string out;
  for (const Requirement& requirement : requirements_) {
    if (!out.empty()) out += ",";
    out += requirement.path.text() + (requirement.negated ? "!=" : "=") + Escape(requirement.value);
  }
  return out;
}

}  // namespace larder
