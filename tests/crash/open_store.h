// How every process of the programme opens the store.
#pragma once

#include <memory>
#include <string>

#include "storage/store.h"

namespace larder::crash {

// With a key file its pods are encrypted.
StoreOptions StoreAt(const std::string& path, const std::string& key_file);

// The owner's lock goes a moment after its process.
Result<std::unique_ptr<Store>> OpenWhenFree(const StoreOptions& options);

}  // namespace larder::crash
