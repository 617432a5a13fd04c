#include "storage/engine_options.h"

#include <rocksdb/version.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <tuple>

#include "storage/database.h"
#include "storage/engine_catalog.h"

namespace larder {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string Allowed(const EngineSpec& spec) {
  switch (spec.kind) {
    case EngineKind::kNumber:
    case EngineKind::kReal:
      return fmt::format("{:.10g} to {:.12g}", spec.least, spec.most);
    case EngineKind::kFlag:
      return "true or false";
    case EngineKind::kChoice:
      return Join(spec.choices);
    case EngineKind::kChoices:
      return Join(spec.choices) + ", one for each level with ':' between";
    case EngineKind::kFilter:
      return fmt::format("none, bloomfilter:BITS or ribbonfilter:BITS with {} to {} bits",
                         spec.least, spec.most);
  }
  return {};
}

bool Within(const EngineSpec& spec, double number) {
  return number >= spec.least && number <= spec.most;
}

// "16M" as 16777216.
bool ParseNumber(std::string_view text, uint64_t& out) {
  uint64_t unit = 1;
  if (!text.empty()) {
    const char last = text.back();
    if (last == 'K' || last == 'k') unit = uint64_t{1} << 10;
    if (last == 'M' || last == 'm') unit = uint64_t{1} << 20;
    if (last == 'G' || last == 'g') unit = uint64_t{1} << 30;
    if (unit != 1) text.remove_suffix(1);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return false;
  if (out > (uint64_t{1} << 53) / unit) return false;
  out *= unit;
  return true;
}

bool ParseReal(std::string_view text, double& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(out);
}

bool IsOneOf(const EngineSpec& spec, std::string_view word) {
  return std::find(spec.choices.begin(), spec.choices.end(), word) != spec.choices.end();
}

// The value as it is kept; empty where it is not allowed.
std::string Canonical(const EngineSpec& spec, std::string_view value) {
  uint64_t number = 0;
  double real = 0;
  switch (spec.kind) {
    case EngineKind::kNumber:
      if (!ParseNumber(value, number) || !Within(spec, static_cast<double>(number))) return {};
      return std::to_string(number);
    case EngineKind::kReal:
      if (!ParseReal(value, real) || !Within(spec, real)) return {};
      return fmt::format("{}", real);
    case EngineKind::kFlag:
      return value == "true" || value == "false" ? std::string(value) : std::string();
    case EngineKind::kChoice:
      return IsOneOf(spec, value) ? std::string(value) : std::string();
    case EngineKind::kChoices: {
      size_t levels = 0;
      for (size_t at = 0; at <= value.size(); ++levels) {
        const size_t end = std::min(value.find(':', at), value.size());
        if (!IsOneOf(spec, value.substr(at, end - at))) return {};
        at = end + 1;
      }
      return levels <= 7 ? std::string(value) : std::string();
    }
    case EngineKind::kFilter: {
      if (value == "none") return "none";
      const size_t colon = value.find(':');
      const std::string_view name = value.substr(0, colon);
      if (colon == std::string_view::npos || (name != "bloomfilter" && name != "ribbonfilter") ||
          !ParseReal(value.substr(colon + 1), real) || !Within(spec, real)) {
        return {};
      }
      return fmt::format("{}:{}", name, real);
    }
  }
  return {};
}

constexpr std::string_view kLarderTitle = "Larder";
constexpr std::string_view kDatabaseTitle = "DBOptions";
constexpr std::string_view kFamilyTitle = "CFOptions";
constexpr std::string_view kTableTitle = "TableOptions/BlockBasedTable";

bool IsFamily(std::string_view name) {
  return name == "*" ||
         std::find(kFamilyNames.begin(), kFamilyNames.end(), name) != kFamilyNames.end();
}

std::string Families() {
  std::string out = "\"*\"";
  for (const std::string_view name : kFamilyNames) out += fmt::format(", \"{}\"", name);
  return out;
}

// "[CFOptions "objects"]".
Result<EngineOptions::Place> ParseTitle(std::string_view line) {
  EngineOptions::Place place;
  std::string_view title = Trim(line.substr(1, line.size() - 2));
  std::string_view family;
  if (const size_t quote = title.find('"'); quote != std::string_view::npos) {
    if (title.back() != '"' || title.size() - quote < 3) {
      return MakeError(ErrorCode::kInvalidArgument, "{} is no section", line);
    }
    family = title.substr(quote + 1, title.size() - quote - 2);
    title = Trim(title.substr(0, quote));
  }
  const bool of_family = title == kFamilyTitle || title == kTableTitle;
  if (title == kLarderTitle) {
    place.section = EngineSection::kLarder;
  } else if (title == kDatabaseTitle) {
    place.section = EngineSection::kDatabase;
  } else if (of_family) {
    place.section = title == kFamilyTitle ? EngineSection::kFamily : EngineSection::kTable;
  } else {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is no section; there are [{}], [{}], [{} \"FAMILY\"], [{} \"FAMILY\"]",
                     line, kLarderTitle, kDatabaseTitle, kFamilyTitle, kTableTitle);
  }
  if (of_family && !IsFamily(family)) {
    return MakeError(ErrorCode::kInvalidArgument, "{} names no family; there are {}", line,
                     Families());
  }
  if (of_family) place.family = family;
  return place;
}

std::string Title(const EngineOptions::Place& place) {
  switch (place.section) {
    case EngineSection::kLarder:
      return fmt::format("[{}]", kLarderTitle);
    case EngineSection::kDatabase:
      return fmt::format("[{}]", kDatabaseTitle);
    case EngineSection::kFamily:
      return fmt::format("[{} \"{}\"]", kFamilyTitle, place.family);
    case EngineSection::kTable:
      return fmt::format("[{} \"{}\"]", kTableTitle, place.family);
  }
  return {};
}

}  // namespace

Result<void> EngineOptions::Set(const Place& place, std::string_view value) {
  const EngineSpec* const spec = FindEngineSpec(place.section, place.name);
  if (const std::string why = WhyNot(place.name, value); !why.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}={} is refused: {}", place.name, value, why);
  }
  if (!spec) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "unknown option {} in {}; `larder tune options` lists those that there are",
                     place.name, Title(place));
  }
  std::string kept = Canonical(*spec, Trim(value));
  if (kept.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}={} is not allowed; use {}", place.name, value,
                     Allowed(*spec));
  }
  values_[place] = std::move(kept);
  return {};
}

Result<void> EngineOptions::Set(std::string_view short_name, std::string_view value) {
  Place place;
  const size_t dot = short_name.find('.');
  const std::string_view scope = short_name.substr(0, dot);
  std::string_view name =
      dot == std::string_view::npos ? std::string_view() : short_name.substr(dot + 1);
  if (scope == "larder") {
    place.section = EngineSection::kLarder;
  } else if (scope == "db") {
    place.section = EngineSection::kDatabase;
  } else if (IsFamily(scope)) {
    place.section = EngineSection::kFamily;
    place.family = scope;
    constexpr std::string_view kTable = "table.";
    if (name.starts_with(kTable)) {
      place.section = EngineSection::kTable;
      name.remove_prefix(kTable.size());
    }
  } else {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: an option is spelled larder.NAME, db.NAME, FAMILY.NAME or "
                     "FAMILY.table.NAME; families are {}",
                     short_name, Families());
  }
  place.name = name;
  return Set(place, value);
}

std::string EngineOptions::ShortName(const Place& place) {
  switch (place.section) {
    case EngineSection::kLarder:
      return "larder." + place.name;
    case EngineSection::kDatabase:
      return "db." + place.name;
    case EngineSection::kFamily:
      return place.family + "." + place.name;
    case EngineSection::kTable:
      return place.family + ".table." + place.name;
  }
  return {};
}

Result<EngineOptions> EngineOptions::Parse(std::string_view text, Use use) {
  EngineOptions options;
  Place place;
  bool in_section = false;
  size_t number = 0;
  const auto at_line = [&](const Error& error) {
    return MakeError(ErrorCode::kInvalidArgument, "line {}: {}", number, error.message);
  };
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = Trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    if (line.front() == '[' && line.back() == ']') {
      auto title = ParseTitle(line);
      if (!title) return at_line(title.error());
      place = *std::move(title);
      in_section = true;
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || !in_section) {
      return MakeError(ErrorCode::kInvalidArgument, "line {}: \"{}\" is {}", number, line,
                       in_section ? "not NAME=VALUE" : "in no section; begin with [Larder]");
    }
    place.name = Trim(line.substr(0, equals));
    const auto set = options.Set(place, Trim(line.substr(equals + 1)));
    if (!set) return at_line(set.error());
  }
  if (use == Use::kRun) {
    if (const std::string why = options.Unfit(); !why.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "{}", why);
    }
  }
  return options;
}

std::string EngineOptions::Unfit() const {
  for (const auto& [place, value] : values_) {
    // RocksDB 7.8's secondary instances crash in BlobSource::GetBlob: every command that looks into
    // a live store would.
    if (place.name == "enable_blob_files" && value == "true") {
      return "enable_blob_files=true is refused: RocksDB's readers beside the owner of a store "
             "(larder get, serve, verify) cannot read blob files";
    }
    // A compressed log whose records are cut at certain places cannot be read back before 7.10.2.
    constexpr bool kLogCompressionIsSafe =
        std::tuple(ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH) >= std::tuple(7, 10, 2);
    if (!kLogCompressionIsSafe && place.name == "wal_compression" && value != "kNoCompression") {
      return "wal_compression is refused: this RocksDB may fail to read a compressed log after a "
             "crash (fixed in 7.10.2)";
    }
  }
  return {};
}

Result<EngineOptions> EngineOptions::Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return MakeError(ErrorCode::kInvalidArgument, "cannot read the options {}", path);
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (text.size() == kMaxFileBytes) {
    return MakeError(ErrorCode::kInvalidArgument, "{} is too large for an options file", path);
  }
  auto options = Parse(text);
  if (!options) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: {}", path, options.error().message);
  }
  return options;
}

std::string EngineOptions::ToText() const {
  std::string out;
  std::string last;
  for (const auto& [place, value] : values_) {
    std::string title = Title(place);
    if (title != last) out += (out.empty() ? "" : "\n") + title + "\n";
    last = std::move(title);
    out += place.name + "=" + value + "\n";
  }
  return out;
}

const std::string* EngineOptions::Find(EngineSection section, std::string_view family,
                                       std::string_view name) const {
  auto found = values_.find({section, std::string(family), std::string(name)});
  if (found == values_.end() && !family.empty()) {
    found = values_.find({section, "*", std::string(name)});
  }
  return found == values_.end() ? nullptr : &found->second;
}

uint64_t EngineOptions::LarderNumber(std::string_view name, uint64_t otherwise) const {
  const std::string* const value = Find(EngineSection::kLarder, {}, name);
  return value ? std::strtoull(value->c_str(), nullptr, 10) : otherwise;
}

bool EngineOptions::LarderFlag(std::string_view name, bool otherwise) const {
  const std::string* const value = Find(EngineSection::kLarder, {}, name);
  return value ? *value == "true" : otherwise;
}

EngineOptions EngineOptions::With(const EngineOptions& other) const {
  EngineOptions out = *this;
  for (const auto& [place, value] : other.values_) out.values_[place] = value;
  out.rocksdb_defaults = rocksdb_defaults || other.rocksdb_defaults;
  return out;
}

const std::vector<EngineOptionInfo>& KnownEngineOptions() {
  static const std::vector<EngineOptionInfo> known = [] {
    std::vector<EngineOptionInfo> out;
    for (const EngineSpec& spec : EngineCatalog()) {
      out.push_back({spec.section, spec.name, Allowed(spec), spec.meaning, spec.live});
    }
    return out;
  }();
  return known;
}

std::string EngineVersion() { return rocksdb::GetRocksVersionAsString(); }

}  // namespace larder
