// The requests a reflector sends: one function per row of the protocol, all parameters in one
// place.
//
// Immutable but for the random watch time; used from the reflector's thread, ForObject from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "client/transport.h"
#include "reflector/reflector_options.h"
#include "schema/object.h"

namespace larder {

struct WireMessage;

// The namespace whose UID names the cluster.
inline constexpr std::string_view kClusterNamespace = "kube-system";

class Requests {
 public:
  Requests(const ReflectorOptions& options, uint64_t seed) : options_(options), random_(seed) {}

  enum class Form { kJson, kProtobuf };  // protobuf where the server can, JSON where it cannot
  // The one that can be read; null: nobody knows what its protobuf looks like.
  static Form FormFor(const WireMessage* wire) {
    return wire != nullptr ? Form::kProtobuf : Form::kJson;
  }

  // Everything, in one answer. `version` empty: the newest state; else a state that is not older.
  Request List(std::string_view version, Form form = Form::kJson) const;
  // One page. The continue token carries the version, so nothing else may be sent beside it.
  Request Page(std::string_view version, std::string_view continue_token,
               Form form = Form::kJson) const;
  // Only metadata, as protobuf where the server can, as JSON where it cannot.
  Request ListMetadata(std::string_view version) const;
  // The collection's current version: one object at most, the one of this key if there is one.
  Request CurrentVersion(const std::optional<ObjectKey>& witness) const;
  // After how long the server is to end the next watch.
  std::chrono::seconds DrawWatchTime();
  Request Watch(std::string_view version, std::chrono::seconds time, Form form) const;
  // A watch that begins with the whole collection as ADDED events; `version` as for List.
  Request WatchList(std::string_view version, std::chrono::seconds time, Form form) const;
  // One object by itself, not older than `version`, if one is given; needs the right to get.
  Request ForObject(const ObjectKey& key, std::string_view version, Form form) const;
  // The same as a list of at most one, which needs the right to list, and by which the server
  // decides whether the object still belongs to a collection with a selector. `exact`: as it was at
  // that version, not later.
  Request ListOfOne(const ObjectKey& key, std::string_view version, bool exact, Form form) const;
  bool HasSelector() const;
  Request ClusterNamespace() const;

 private:
  Request Base() const;
  void AddSelectors(Request& request) const;
  // A list of the object of this key, if it belongs to the collection.
  Request ListOf(const ObjectKey& key) const;
  std::string ObjectAccept(Form form) const;
  std::string WatchAccept(Form form) const;
  std::string ListAccept(Form form) const;

  const ReflectorOptions& options_;
  std::mt19937_64 random_;
};

}  // namespace larder
