#include "tools/store_access.h"

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

Error ExplainStoreError(const Error& error, const StoreArguments& arguments,
                        std::string_view what) {
  Error out = error;
  if (error.code == ErrorCode::kCorruption) {
    out.message = fmt::format(
        "store {} is damaged ({}); save what can be saved with: larder verify --repair "
        "--store {}",
        arguments.path, error.message, arguments.path);
  } else if (error.code == ErrorCode::kLocked) {
    out.message = fmt::format("{} needs the store to itself, but {}", what, error.message);
    // What storage advises is said once, below.
    for (const char* advice : {"; one process owns", "; stop its owner"}) {
      const size_t end = out.message.find(advice);
      if (end != std::string::npos) out.message.erase(end);
    }
    out.message += "; stop that first";
  }
  return out;
}

Result<std::unique_ptr<Store>> OpenReader(const StoreArguments& arguments, Store::Reading reading) {
  auto store = Store::OpenReadOnly(arguments.Options(), reading);
  if (!store) return tl::unexpected(ExplainStoreError(store.error(), arguments, "reading"));
  return store;
}

Result<std::unique_ptr<Store>> OpenOwner(const StoreArguments& arguments, std::string_view what) {
  auto store = Store::Open(arguments.Options());
  if (!store) return tl::unexpected(ExplainStoreError(store.error(), arguments, what));
  return store;
}

}  // namespace larder::tools
