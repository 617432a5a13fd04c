#include "tools/store_access.h"

#include "tools/command.h"

namespace larder::tools {

StoreOptions StoreArguments::Options() const {
  StoreOptions options;
  options.path = path;
  options.create_if_missing = false;
  options.encryption_key_file = key_file;
  // A command looks; it must not decide that what nobody opened for a while can go.
  options.collection_ttl = std::chrono::seconds(0);
  return options;
}

void AddStoreOptions(CLI::App* command, StoreArguments& arguments) {
  command->add_option("--store", arguments.path, "The store's directory, or a snapshot's")
      ->required()
      ->envname("LARDER_STORE")
      ->type_name("DIR");
  command
      ->add_option("--encryption-key-file", arguments.key_file,
                   "Keys of what is stored encrypted, newest first")
      ->envname("LARDER_ENCRYPTION_KEY_FILE")
      ->type_name("FILE");
}

Error ExplainDamage(const Error& error, const StoreArguments& arguments) {
  if (error.code != ErrorCode::kCorruption) return error;
  Error out = error;
  out.message = fmt::format(
      "store {} is damaged ({}); save what can be saved with: larder verify --repair "
      "--store {}",
      arguments.path, error.message, arguments.path);
  return out;
}

Error ExplainLock(const Error& error, std::string_view what) {
  if (error.code != ErrorCode::kLocked) return error;
  Error out = error;
  out.message = fmt::format("{} needs the store to itself, but {}", what, error.message);
  // What storage advises is said once, below.
  for (const char* advice : {"; one process owns", "; stop its owner"}) {
    const size_t end = out.message.find(advice);
    if (end != std::string::npos) out.message.erase(end);
  }
  out.message += "; stop that first";
  return out;
}

Error ExplainStoreError(const Error& error, const StoreArguments& arguments,
                        std::string_view what) {
  return ExplainLock(ExplainDamage(error, arguments), what);
}

namespace {

// A store that is not there is no answer, rather than a bad one.
Result<std::unique_ptr<Store>> Explained(Result<std::unique_ptr<Store>> store,
                                         const StoreArguments& arguments, std::string_view what) {
  if (store) return store;
  Error error = ExplainStoreError(store.error(), arguments, what);
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kNotReady;
  return tl::unexpected(std::move(error));
}

}  // namespace

int ExitCode(const Result<int>& result, const StoreArguments& arguments) {
  const bool damage = !result && result.error().code == ErrorCode::kCorruption;
  // Opening it may have explained it.
  if (!damage || result.error().message.find("verify --repair") != std::string::npos) {
    return ExitCode(result);
  }
  return Fail(ExplainDamage(result.error(), arguments));
}

Result<std::unique_ptr<Store>> OpenReader(const StoreArguments& arguments, Store::Reading reading) {
  return Explained(Store::OpenReadOnly(arguments.Options(), reading), arguments, "reading");
}

Result<std::unique_ptr<Store>> OpenOwner(const StoreArguments& arguments, std::string_view what) {
  return Explained(Store::Open(arguments.Options()), arguments, what);
}

}  // namespace larder::tools
