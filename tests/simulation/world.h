// An API server made of its history, and everything that can go wrong on the way to it.
//
// One thread, no socket, no real time: what it answers is a function of the seed and of what it is
// asked. It creates, updates, deletes and recreates a few pods while it is being read; breaks
// answers off, refuses, expires versions, compacts, and can be restored from an older state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "client/transport.h"
#include "tests/reflector/scripted_transport.h"
#include "tests/reflector/wire_text.h"

namespace larder::simulation {

using State = std::map<std::string, TestPod>;  // by name

inline std::set<std::string> Texts(const State& state) {
  std::set<std::string> texts;
  for (const auto& [name, pod] : state) texts.insert(PodJson(pod));
  return texts;
}

class World final : public HttpTransport {
 public:
  World(uint64_t seed, InstantClock* clock) : random_(seed), clock_(clock) {}

  Result<Response> Do(const Request& request, const std::stop_token& stop) override;
  Result<std::unique_ptr<BodyStream>> Open(const Request& request,
                                           const std::stop_token& stop) override;

  // No more changes and no more faults: what is there can be read to its end.
  void Calm() { calm_ = true; }
  // Called when a calm world has nothing more to tell.
  std::function<void()> on_quiet;
  // Every answer and every line, for the trace.
  std::function<void(std::string_view)> trace;

  // The cluster is restored from a backup: the newest changes never happened.
  void Rewind();
  // Random changes.
  void Change(int count);

  uint64_t version() const { return version_; }
  State Now() const { return StateAt(history_, UINT64_MAX); }
  // Was this ever the state of the cluster at this version, on any line of its history? An object
  // that was fetched by itself may be further: a relist fetches those that differ after its list,
  // and the watch tells of them again. None may be behind, and none missing, but where the server
  // was asked for it and could not say any more what it was at that version.
  bool WasEver(uint64_t version, const State& state) const;
  // For a message: what differs from the cluster at this version.
  std::string Difference(uint64_t version, const State& state) const;

 private:
  friend class WatchBody;
  struct Change1 {
    uint64_t version;
    std::string type;
    TestPod pod;  // of a delete: the last state, with the version of the delete
  };
  using History = std::vector<Change1>;

  bool Explains(const History& history, uint64_t version, const State& state) const;
  static State StateAt(const History& history, uint64_t version);
  bool Chance(int percent) { return !calm_ && random_() % 100 < static_cast<uint64_t>(percent); }
  Result<std::string> Answer(const Request& request);
  Result<std::string> ListOf(const Request& request);

  std::mt19937_64 random_;
  InstantClock* const clock_;
  bool calm_ = false;
  int quiet_ = 0;
  uint64_t version_ = 100;
  uint64_t floor_ = 0;  // versions below are compacted
  uint64_t next_uid_ = 1;
  History history_;
  std::vector<History> abandoned_;  // lines of history that a restore cut off
  std::set<std::string> fetched_;   // pods, as text, that were asked for by name
  std::set<std::string> unsaid_;    // the uids of those whose version was compacted by then
};

}  // namespace larder::simulation
