#include "schema/parse_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace larder {
namespace {

using Members = Json::object_t;

// Of this few, comparing each with each is the quickest.
constexpr size_t kFew = 16;

bool HasRepeatedName(const Members& members) {
  for (auto a = members.begin(); a != members.end(); ++a) {
    for (auto b = members.begin(); b != a; ++b) {
      if (a->first == b->first) return true;
    }
  }
  return false;
}

// The last value of each name goes to its first place. By sorting and not by hashes, for which
// somebody could choose names that are all the same.
void MergeRepeatedNames(Members& members) {
  if (members.size() <= kFew && !HasRepeatedName(members)) return;
  const auto name = [&](size_t place) -> const std::string& {
    return members.begin()[static_cast<std::ptrdiff_t>(place)].first;
  };
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return name(a) < name(b); });
  const auto same = [&](size_t a, size_t b) { return name(a) == name(b); };
  if (std::adjacent_find(order.begin(), order.end(), same) == order.end()) return;

  std::vector<size_t> value_of(members.size());  // of each place; its own for one that goes
  std::vector<bool> stays(members.size(), true);
  for (size_t first = 0, last = 0; first < order.size(); first = ++last) {
    while (last + 1 < order.size() && same(order[first], order[last + 1])) {
      stays[order[++last]] = false;
    }
    value_of[order[first]] = order[last];
  }
  Members merged;
  for (size_t place = 0; place < members.size(); ++place) {
    if (!stays[place]) continue;
    Json& value = members.begin()[static_cast<std::ptrdiff_t>(value_of[place])].second;
    merged.Members::Container::emplace_back(name(place), std::move(value));
  }
  members.swap(merged);
}

// What nlohmann's lexer calls. Only the innermost container grows, so that those around it stay
// where they are.
class Builder {
 public:
  explicit Builder(Json& root) : root_(root) {}

  bool null() { return Put(nullptr); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(Json::number_integer_t value) { return Put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Put(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return Put(value); }
  bool string(std::string& value) { return Put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }

  bool start_object(size_t) { return Open(Json::value_t::object); }
  bool key(std::string& name) {
    open_.back()->get_ref<Members&>().Members::Container::emplace_back(std::move(name), nullptr);
    return true;
  }
  bool end_object() {
    MergeRepeatedNames(open_.back()->get_ref<Members&>());
    open_.pop_back();
    return true;
  }
  bool start_array(size_t) { return Open(Json::value_t::array); }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

 private:
  // Where the next value goes.
  Json& Place() {
    if (open_.empty()) return root_;
    Json& around = *open_.back();
    if (around.is_object()) return around.get_ref<Members&>().back().second;
    return around.get_ref<Json::array_t&>().emplace_back();
  }
  template <typename Value>
  bool Put(Value&& value) {
    Place() = std::forward<Value>(value);
    return true;
  }
  bool Open(Json::value_t type) {
    if (open_.size() == kMaxParsedDepth) return false;
    Json& place = Place();
    place = type;
    open_.push_back(&place);
    return true;
  }

  Json& root_;
  std::vector<Json*> open_;
};

}  // namespace

std::optional<Json> ParseJson(std::string_view text) {
  std::optional<Json> value(std::in_place);
  Builder builder(*value);
  if (!Json::sax_parse(text, &builder)) value.reset();
  return value;
}

}  // namespace larder
