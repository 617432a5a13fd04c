// The bugs that the oracle must find (see subject.h for their names), made on purpose.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "client/transport.h"
#include "schema/object.h"
#include "storage/store.h"

namespace larder::crash {

// Commits the cursor of a change that is not committed itself yet.
void CommitCursorFirst(Store* store, CollectionId collection, const Object& changed);

// Commits an index key that no object has.
void LeaveIndexKey(Store* store, CollectionId collection, const Object& changed);

// When a relist begins, deletes stored objects that it has not come to.
void SweepEarly(Store* store, CollectionId collection, const std::stop_token& stop);

// Says of a complete collection that a list of it is under way.
void ListAgain(Store* store, CollectionId collection);

// Commits an object before its cursor and all else that belongs to it.
void CommitRowFirst(Store* store, CollectionId collection, const Object& changed);

// At some moment forgets which durable names were told everything.
void ForgetNames(Store* store, CollectionId collection, uint64_t seed, const std::stop_token& stop);

// Of a store that nobody has open.
void RemoveDictionaries(const std::string& store_path);

// Ends the process at the first commit that fails.
void AbortWhenFull(Store* store, const std::stop_token& stop);

// Answers for the cluster's identity with what the server said the first time.
std::unique_ptr<HttpTransport> BelieveOldCluster(std::unique_ptr<HttpTransport> transport,
                                                 const std::string& store_path);

}  // namespace larder::crash
