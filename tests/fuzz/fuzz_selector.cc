// A selector on the first line, labels behind it, `key=value` a line: read as a label selector and
// as a field selector it does not crash, what parses prints a form that parses back to itself, and
// the labels match as the grammar says.
#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "schema/selector.h"

namespace {

using larder::FieldSelector;
using larder::Json;
using larder::LabelSelector;
using Labels = std::map<std::string, std::string>;

template <typename Selector>
larder::Result<Selector> CheckRoundTrip(std::string_view text, const larder::Object& object) {
  auto selector = Selector::Parse(text);
  if (!selector) {
    LARDER_CHECK(!selector.error().message.empty());
    return selector;
  }
  const auto again = Selector::Parse(selector->ToString());
  LARDER_CHECK(again.has_value());
  LARDER_CHECK(again->ToString() == selector->ToString());
  LARDER_CHECK(again->Matches(object) == selector->Matches(object));
  return selector;
}

// A decimal integer as Go's strconv.ParseInt reads it.
bool IsInteger(const std::string& text) {
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return text.size() > sign && text.size() < 18 &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(sign), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

bool Naively(const LabelSelector::Requirement& requirement, const Labels& labels) {
  using Op = LabelSelector::Op;
  const auto label = labels.find(requirement.key);
  const bool there = label != labels.end();
  const auto& values = requirement.values;
  const bool listed =
      there && std::find(values.begin(), values.end(), label->second) != values.end();
  if (requirement.op == Op::kIn) return listed;
  if (requirement.op == Op::kNotIn) return !listed;
  if (requirement.op == Op::kExists) return there;
  if (requirement.op == Op::kNotExists) return !there;
  if (!there || !IsInteger(label->second) || !IsInteger(values.at(0))) return false;
  const int64_t left = std::stoll(label->second), right = std::stoll(values.at(0));
  return requirement.op == Op::kGreater ? left > right : left < right;
}

// A longer number could fit 64 bits, too; that is left to the parser.
bool HasLongText(const Labels& labels, const LabelSelector& selector) {
  const auto is_long = [](const std::string& text) { return text.size() >= 18; };
  return std::any_of(labels.begin(), labels.end(),
                     [&](const auto& label) { return is_long(label.second); }) ||
         std::any_of(selector.requirements().begin(), selector.requirements().end(),
                     [&](const auto& requirement) {
                       return std::any_of(requirement.values.begin(), requirement.values.end(),
                                          is_long);
                     });
}

Labels ReadLabels(std::string_view lines) {
  Labels labels;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const size_t sign = line.find('=');
    if (sign == std::string_view::npos) continue;
    labels[std::string(line.substr(0, sign))] = line.substr(sign + 1);
  }
  return labels;
}

larder::Result<larder::ObjectPtr> WithLabels(const Labels& labels) {
  Json object = {{"metadata", {{"name", "a"}, {"namespace", "x"}, {"labels", labels}}},
                 {"spec", {{"nodeName", "n"}, {"list", {1, true, nullptr, {{"k", "v"}}}}}}};
  return larder::Object::FromJson(object);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const larder::ObjectPtr usual = WithLabels({{"a", "1"}, {"b", ""}, {"in", "x"}}).value();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view text = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  CheckRoundTrip<FieldSelector>(text, *usual);
  const auto selector = CheckRoundTrip<LabelSelector>(text, *usual);
  if (!selector) return 0;
  const Labels labels = ReadLabels(rest);
  const auto object = WithLabels(labels);
  // Text that is not UTF-8 is replaced on the way into the object.
  if (!object || (*object)->Labels().size() != labels.size() || HasLongText(labels, *selector)) {
    return 0;
  }
  for (const auto& [key, value] : labels) {
    if ((*object)->Label(key) != value) return 0;
  }
  const bool expected =
      std::all_of(selector->requirements().begin(), selector->requirements().end(),
                  [&](const auto& requirement) { return Naively(requirement, labels); });
  LARDER_CHECK(selector->Matches(**object) == expected);
  return 0;
}
