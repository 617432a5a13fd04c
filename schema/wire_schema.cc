#include "schema/wire_schema.h"

#include <charconv>
#include <optional>

#include "schema/kubernetes_wire_generated.h"

namespace larder {
namespace {

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(line.find(' ', begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
  return words;
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<WireField::Type> PlainType(std::string_view word) {
  using Type = WireField::Type;
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {"string", Type::kString},     {"bool", Type::kBool},
      {"int", Type::kInt},           {"bytes", Type::kBytes},
      {"time", Type::kTime},         {"microtime", Type::kMicroTime},
      {"quantity", Type::kQuantity}, {"intorstring", Type::kIntOrString},
      {"raw", Type::kRaw},
  };
  for (const auto& [name, type] : kTypes) {
    if (name == word) return type;
  }
  return std::nullopt;
}

}  // namespace

class WireSchema::Parser {
 public:
  Result<WireSchema> Read(std::string_view text) {
    for (size_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      if (Result<void> read = Line(text.substr(0, end)); !read) {
        return MakeError(ErrorCode::kInvalidArgument, "wire schema, line {}: {}", line,
                         read.error().message);
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (const auto& [name, message] : schema_.messages_) {
      if (message->fields.empty() && !declared_.contains(name)) {
        return MakeError(ErrorCode::kInvalidArgument, "wire schema: no message {}", name);
      }
    }
    return std::move(schema_);
  }

 private:
  Result<void> Line(std::string_view line) {
    if (line.empty() || line.front() == '#') return {};
    const std::vector<std::string_view> words = Words(line);
    if (words.size() == 4 && words[0] == "kind") {
      schema_.kinds_[{std::string(words[1]), std::string(words[2])}] = Message(words[3]);
      return {};
    }
    if (words.size() == 2 && words[0] == "message") {
      current_ = Message(words[1]);
      if (!declared_.emplace(words[1], true).second) return Wrong("a second time", words[1]);
      return {};
    }
    if (words.size() < 3 || current_ == nullptr) return Wrong("not understood", line);
    return Field(words);
  }

  Result<void> Field(const std::vector<std::string_view>& words) {
    WireField field;
    const char* end = words[0].data() + words[0].size();
    const auto number = std::from_chars(words[0].data(), end, field.number);
    if (number.ec != std::errc() || number.ptr != end || field.number == 0 ||
        field.number >= kMaxNumber) {
      return Wrong("not a field's number", words[0]);
    }
    if (words[1] != "-") field.key = "\"" + std::string(words[1]) + "\":";
    LARDER_RETURN_IF_ERROR(Type(words[2], field));
    for (size_t i = 3; i < words.size(); ++i) {
      if (words[i] == "omitempty") {
        field.omit_empty = true;
      } else if (words[i] == "omitzero" && field.type == WireField::Type::kTime) {
        field.omit_zero = true;
      } else {
        return Wrong("not known for this type", words[i]);
      }
    }
    std::vector<uint8_t>& by_number = current_->by_number;
    if (by_number.size() <= field.number) {
      by_number.resize(field.number + 1, WireMessage::kNoField);
    }
    if (by_number[field.number] != WireMessage::kNoField ||
        current_->fields.size() == WireMessage::kMostFields) {
      return Wrong("one field too many", words[0]);
    }
    by_number[field.number] = static_cast<uint8_t>(current_->fields.size());
    if (!field.LeftOutWhenAbsent()) current_->always |= uint64_t{1} << current_->fields.size();
    current_->fields.push_back(std::move(field));
    return {};
  }

  Result<void> Type(std::string_view word, WireField& field) {
    using Shape = WireField::Shape;
    if (TakePrefix(word, "*")) field.shape = Shape::kPointer;
    if (TakePrefix(word, "[]")) field.shape = Shape::kList;
    if (TakePrefix(word, "map:")) field.shape = Shape::kMap;
    if (const auto plain = PlainType(word)) {
      field.type = *plain;
    } else if (word.find('.') != std::string_view::npos) {
      field.type = WireField::Type::kMessage;
      field.message = Message(word);
    } else {
      return Wrong("not a type", word);
    }
    const bool one_message = field.type == WireField::Type::kMessage && field.shape == Shape::kOne;
    if (field.inlined() && !one_message) return Wrong("only a message can be inlined", word);
    return {};
  }

  // It may be described later.
  WireMessage* Message(std::string_view name) {
    std::unique_ptr<WireMessage>& message = schema_.messages_[std::string(name)];
    if (!message) {
      message = std::make_unique<WireMessage>();
      message->name = name;
    }
    return message.get();
  }

  static tl::unexpected<Error> Wrong(std::string_view what, std::string_view word) {
    return MakeError(ErrorCode::kInvalidArgument, "'{}': {}", word, what);
  }

  static constexpr uint32_t kMaxNumber = 1024;

  WireSchema schema_;
  WireMessage* current_ = nullptr;
  std::map<std::string, bool, std::less<>> declared_;
};

Result<WireSchema> WireSchema::Parse(std::string_view text) { return Parser().Read(text); }

const WireSchema& WireSchema::BuiltIn() {
  static const WireSchema schema = [] {
    Result<WireSchema> parsed = Parse(kKubernetesWire);
    LARDER_CHECK(parsed.has_value());
    return *std::move(parsed);
  }();
  return schema;
}

const WireMessage* WireSchema::Find(const TypeMeta& type) const {
  const auto found = kinds_.find({type.api_version, type.kind});
  return found == kinds_.end() ? nullptr : found->second;
}

std::vector<TypeMeta> WireSchema::Kinds() const {
  std::vector<TypeMeta> kinds;
  for (const auto& [kind, message] : kinds_) kinds.push_back({kind.first, kind.second});
  return kinds;
}

}  // namespace larder
