#include "tools/sort_objects.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tools/jsonpath.h"

namespace larder::tools {
namespace {

// "1.5", "500m", "2Gi", "1e3".
std::optional<double> ParseQuantity(std::string_view text) {
  const std::string_view digits = text.substr(!text.empty() && (text[0] == '+' || text[0] == '-'));
  const size_t end = std::min(digits.find_first_not_of("0123456789."), digits.size());
  double value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + end, value);
  if (end == 0 || parsed.ec != std::errc() || parsed.ptr != digits.data() + end) return {};
  if (text[0] == '-') value = -value;
  const std::string_view suffix = digits.substr(end);
  if (suffix.size() > 1 && (suffix[0] == 'e' || suffix[0] == 'E')) {
    int power = 0;
    const std::string_view number = suffix.substr(suffix[1] == '+' ? 2 : 1);
    const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), power);
    if (error != std::errc() || rest != number.data() + number.size()) return {};
    return value * std::pow(10.0, power);
  }
  constexpr std::pair<std::string_view, double> kSuffixes[] = {
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},   {"k", 1e3},     {"M", 1e6},
      {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
  for (const auto& [name, factor] : kSuffixes) {
    if (suffix == name) return value * factor;
  }
  return {};
}

std::optional<double> WorthOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? ParseQuantity(value.get_ref<const std::string&>()) : std::nullopt;
}

struct Keyed {
  bool has = false;
  std::optional<double> worth;
  std::string text;
  ObjectPtr object;
};

}  // namespace

Result<bool> SortObjects(const std::string& path, std::vector<ObjectPtr>& objects) {
  LARDER_ASSIGN_OR_RETURN(const JsonPath parsed, JsonPath::ParseRelaxed(path));
  std::vector<Keyed> keyed;
  // One order for all of them: comparing some pairs as numbers and others as texts is none.
  bool found = false, all_worth = true;
  for (ObjectPtr& object : objects) {
    const Json json = object->ToMutable();
    const auto values = parsed.Find(json);
    Keyed& entry = keyed.emplace_back();
    entry.object = std::move(object);
    if (values.empty() || values.front()->is_null()) continue;
    found = entry.has = true;
    entry.worth = WorthOf(*values.front());
    entry.text = JsonText(*values.front());
    all_worth = all_worth && entry.worth;
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    if (!a.has || !b.has) return !a.has && b.has;
    return all_worth ? *a.worth < *b.worth : a.text < b.text;
  });
  for (size_t i = 0; i < keyed.size(); ++i) objects[i] = std::move(keyed[i].object);
  return found;
}

}  // namespace larder::tools
