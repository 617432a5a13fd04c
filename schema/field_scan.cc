#include "schema/field_scan.h"

#include <algorithm>

#include "schema/json_number.h"
#include "schema/json_span.h"

namespace larder {
namespace {

using Outcome = ScannedField::Outcome;

// No API nests this deep.
constexpr uint32_t kDeepest = 256;

class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  // Goes behind the colon of the first member with this name. kNothing: there is none.
  Outcome Find(std::string_view name) {
    if (Take('}')) return Outcome::kNothing;
    for (;;) {
      std::string_view key;
      if (!TakeString(key) || !Take(':')) return Outcome::kAskParser;
      if (key == name) return Outcome::kValue;
      if (!SkipValue()) return Outcome::kAskParser;
      if (Take('}')) return Outcome::kNothing;
      if (!Take(',')) return Outcome::kAskParser;
    }
  }

  // The value that begins here: kValue when it is an object, now entered. kNothing: it is a scalar.
  Outcome Enter() {
    if (Take('{')) return Outcome::kValue;
    return Scalar().outcome == Outcome::kAskParser ? Outcome::kAskParser : Outcome::kNothing;
  }

  ScannedField Scalar() {
    if (rest_.empty() || rest_.front() == '[') return {};
    if (rest_.front() == '{') return {Outcome::kNothing};
    std::string_view value;
    if (rest_.front() == '"') {
      if (!TakeString(value)) return {};
      return {Outcome::kValue, value};
    }
    value = TakeToken();
    if (value == "null") return {Outcome::kNothing};
    if (value != "true" && value != "false" && !IsJsonNumber(value)) return {};
    return {Outcome::kValue, value};
  }

 private:
  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Without its quotes. False where it does not end or has an escape.
  bool TakeString(std::string_view& text) {
    if (!Take('"')) return false;
    const size_t end = rest_.find('"');
    if (end == std::string_view::npos) return false;
    text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text.find('\\') == std::string_view::npos;
  }

  // A number, true, false or null. What begins otherwise, as with white space, could be anything.
  bool BeginsToken() const {
    const char c = rest_.front();
    return (c >= '0' && c <= '9') || c == '-' || c == 't' || c == 'f' || c == 'n';
  }

  std::string_view TakeToken() {
    const size_t end = std::min(rest_.find_first_of(",}]"), rest_.size());
    const std::string_view token = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return token;
  }

  bool SkipValue() {
    if (rest_.empty()) return false;
    if (rest_.front() == '"') {
      std::string_view text;
      return TakeString(text);
    }
    if (rest_.front() != '{' && rest_.front() != '[') return BeginsToken() && !TakeToken().empty();
    JsonSpan span(kDeepest);
    const auto end = span.Scan(rest_);
    if (end) rest_.remove_prefix(*end);
    return end.has_value();
  }

  std::string_view rest_;
};

}  // namespace

ScannedField ScanField(std::string_view members, std::span<const FieldPath::Step> steps) {
  Scanner scanner(members);
  bool outermost = true;
  for (const FieldPath::Step& step : steps) {
    if (step.kind != FieldPath::Step::Kind::kField) return {};
    if (!outermost) {
      const Outcome entered = scanner.Enter();
      if (entered != Outcome::kValue) return {entered};
    }
    outermost = false;
    const Outcome found = scanner.Find(step.name);
    if (found != Outcome::kValue) return {found};
  }
  return scanner.Scalar();
}

}  // namespace larder
