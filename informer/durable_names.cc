#include "informer/durable_names.h"

#include <nlohmann/json.hpp>

#include "storage/notes.h"

namespace larder {

DurableNames::DurableNames(Store* store, CollectionId collection)
    : store_(store), note_(DurableNamesNote(collection)) {}

Result<void> DurableNames::Load() {
  LARDER_ASSIGN_OR_RETURN(const auto text, store_->GetNote(note_));
  if (!text) return {};
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return MakeError(ErrorCode::kCorruption, "the note {} is damaged", note_);
  MutexLock lock(mutex_);
  for (const auto& [name, revision] : json.items()) {
    if (!revision.is_number_unsigned()) {
      return MakeError(ErrorCode::kCorruption, "the note {} is damaged at {}", note_, name);
    }
    names_[name] = revision.get<uint32_t>();
  }
  return {};
}

std::optional<uint32_t> DurableNames::Revision(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto it = names_.find(name);
  return it == names_.end() ? std::nullopt : std::optional(it->second);
}

Result<void> DurableNames::Remember(const std::string& name, uint32_t revision) {
  MutexLock lock(mutex_);
  std::map<std::string, uint32_t> names = names_;
  names[name] = revision;
  LARDER_RETURN_IF_ERROR(Write(names));
  names_ = std::move(names);
  return {};
}

Result<void> DurableNames::Forget(const std::string& name) {
  MutexLock lock(mutex_);
  std::map<std::string, uint32_t> names = names_;
  if (names.erase(name) == 0) return {};
  LARDER_RETURN_IF_ERROR(Write(names));
  names_ = std::move(names);
  return {};
}

std::vector<std::string> DurableNames::All() const {
  MutexLock lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [name, revision] : names_) all.push_back(name);
  return all;
}

Result<void> DurableNames::Write(const std::map<std::string, uint32_t>& names) {
  Transaction transaction = store_->Begin();
  transaction.PutNote(note_, nlohmann::json(names).dump());
  return store_->Commit(std::move(transaction), Durability::kRelaxed);
}

}  // namespace larder
