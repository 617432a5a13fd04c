// How commands open a store: beside its owner where they only read, alone where they write.
//
//   StoreArguments store;
//   AddStoreOptions(command, store);
//   LARDER_ASSIGN_OR_RETURN(auto reader, OpenReader(store));
//
// Every failure is one sentence that says what to do. A snapshot is opened like a store, by its
// path (DIR/snapshots/NAME).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/error.h"
#include "storage/options.h"
#include "storage/store.h"

namespace larder::tools {

struct StoreArguments {
  std::string path{};
  std::string key_file{};

  StoreOptions Options() const;
};

// --store (or LARDER_STORE) and --encryption-key-file.
void AddStoreOptions(CLI::App* command, StoreArguments& arguments);

// Does not disturb a process that owns the store.
Result<std::unique_ptr<Store>> OpenReader(const StoreArguments& arguments,
                                          Store::Reading reading = Store::Reading::kOnce);
// `what` says what needs the store to itself: "compacting". Fails with kLocked while a process owns
// it.
Result<std::unique_ptr<Store>> OpenOwner(const StoreArguments& arguments, std::string_view what);
// As ExitCode of command.h; damage that a command met while it read is explained.
int ExitCode(const Result<int>& result, const StoreArguments& arguments);
// The same sentences for calls that take StoreOptions; one of the two where the other kind of error
// is not the store's.
Error ExplainStoreError(const Error& error, const StoreArguments& arguments, std::string_view what);
Error ExplainDamage(const Error& error, const StoreArguments& arguments);
Error ExplainLock(const Error& error, std::string_view what);

}  // namespace larder::tools
