#include "apiserver/history.h"

#include <algorithm>
#include <utility>

namespace larder::apiserver {

std::string_view ToString(EventType type) {
  switch (type) {
    case EventType::kAdded:
      return "ADDED";
    case EventType::kModified:
      return "MODIFIED";
    case EventType::kDeleted:
      return "DELETED";
  }
  return "";
}

void History::Append(uint64_t version, EventType type, const std::string* resource,
                     std::shared_ptr<const Identity> identity, uint64_t hash) {
  rows_.push_back({version, hash, resource, std::move(identity), type});
}

void History::Truncate(uint64_t version) {
  while (!rows_.empty() && rows_.back().version > version) rows_.pop_back();
}

std::vector<HistoryEntry> History::Read(uint64_t from, size_t limit) const {
  auto row = std::upper_bound(rows_.begin(), rows_.end(), from,
                              [](uint64_t version, const Row& r) { return version < r.version; });
  std::vector<HistoryEntry> out;
  out.reserve(std::min(limit, static_cast<size_t>(rows_.end() - row)));
  for (; row != rows_.end() && out.size() < limit; ++row) {
    const std::string& key = row->identity->key;
    const size_t slash = key.find('/');
    HistoryEntry entry;
    entry.version = row->version;
    entry.type = row->type;
    entry.resource = *row->resource;
    if (slash != std::string::npos) entry.ns = key.substr(0, slash);
    entry.name = slash == std::string::npos ? key : key.substr(slash + 1);
    entry.uid = row->identity->uid;
    entry.hash = row->hash;
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace larder::apiserver
